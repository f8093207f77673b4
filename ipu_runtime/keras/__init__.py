"""The Keras side of the emulated API."""
