"""The device as arithmetic: nothing in here knows TensorFlow."""
