"""An emulated Graphcore IPU runtime on TensorFlow and Keras.

Importing this package loads neither: `install()` and the public submodules do.
"""
