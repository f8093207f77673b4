"""`ipu_tensorflow_addons`: layers and optimizers with IPU-specific settings."""
