"""Measurements side by side in one run; `python -m bench` prints them as a table."""
