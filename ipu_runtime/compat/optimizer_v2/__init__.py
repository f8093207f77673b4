"""`keras.optimizer_v2`, the package that held the optimizers of Keras 2."""
