"""A small CNN for MNIST, whole or as a pipeline of two stages."""

from mnist_data import NUM_CLASSES
from tensorflow import keras
from tensorflow.keras import layers
from tensorflow.python import ipu

NUM_STAGES = 2
IMAGE_SHAPE = (28, 28, 1)
DROPOUT = 0.5


def build_model():
    """Return the model for one device, be it a CPU or an IPU."""
    images = keras.Input(IMAGE_SHAPE)
    return keras.Model(images, classify(find_shapes(images)))


def build_pipeline():
    """Return the same model with each half tagged for an IPU of its own."""
    images = keras.Input(IMAGE_SHAPE)
    with ipu.keras.PipelineStage(0):
        shapes = find_shapes(images)
    with ipu.keras.PipelineStage(1):
        classes = classify(shapes)
    return keras.Model(images, classes)


def find_shapes(images):
    """The costly half: nearly all of the arithmetic is in the second convolution."""
    strokes = layers.Conv2D(32, 3, activation="relu")(images)
    smaller = layers.MaxPooling2D()(strokes)
    return layers.Conv2D(64, 3, activation="relu")(smaller)


def classify(shapes):
    """The cheap half, which ends in a probability for each digit."""
    numbers = layers.Flatten()(layers.MaxPooling2D()(shapes))
    some_of_them = layers.Dropout(DROPOUT)(numbers)
    return layers.Dense(NUM_CLASSES, activation="softmax")(some_of_them)
