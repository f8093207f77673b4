"""What others have measured on real systems, and what the model says of it."""
