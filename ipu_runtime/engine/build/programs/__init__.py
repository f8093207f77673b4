"""Programs of Keras models: what a step computes, as TensorFlow functions."""
