"""Where programs get their batches from."""
