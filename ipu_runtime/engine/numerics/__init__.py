"""Float16 as the device computes it, where the configuration asks for it."""
