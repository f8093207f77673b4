"""The private parts of Keras and TensorFlow that the emulator depends on, and nothing
else may touch."""
