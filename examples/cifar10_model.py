"""The layers of the CIFAR-10 examples beside this file."""

from tensorflow.keras import layers

NUM_CLASSES = 10


def convolve(x, filters, training=None):
    """Look for patterns, and keep half the width and height."""
    x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
    x = layers.Conv2D(filters, 3, activation="relu")(x)
    x = layers.MaxPooling2D()(x)
    return layers.Dropout(0.25)(x, training=training)


def classify(x, training=None):
    """Return one number per class, the largest for the likeliest."""
    x = layers.Dense(512, activation="relu")(layers.Flatten()(x))
    x = layers.Dropout(0.5)(x, training=training)
    return layers.Dense(NUM_CLASSES)(x)


def network(x, training=None):
    """The whole network, from images to one number per class."""
    return classify(convolve(convolve(x, 32, training), 64, training), training)
