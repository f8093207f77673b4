"""An experiment while it is being changed."""
