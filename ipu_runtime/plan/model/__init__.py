"""A model as the plan sees it: layers, shapes and tensors."""
