"""`keras.layers.experimental.preprocessing`: these are layers like others today."""

from keras.layers import *  # noqa: F403
