"""Machines that work for this one: which there are, and processes on them."""
