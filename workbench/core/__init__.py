"""Experiments without any way of showing them."""
