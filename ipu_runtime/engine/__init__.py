"""How a plan is executed with TensorFlow."""
