"""What models that are created under an IPU strategy can do besides plain Keras."""
