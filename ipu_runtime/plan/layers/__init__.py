"""The layer kinds that can be planned, one file per family."""
