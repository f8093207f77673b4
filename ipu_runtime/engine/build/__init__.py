"""Programs that are built with TensorFlow: of a model, of stages, of replicas."""
