"""Which layers belong into which stage."""
