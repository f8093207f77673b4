"""Packaged data sets; ORIGIN.md says where they come from."""
