"""What scripts for older TensorFlow and Keras find under the names they know."""
