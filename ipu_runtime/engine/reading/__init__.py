"""What a model consists of, read from Keras layers."""
