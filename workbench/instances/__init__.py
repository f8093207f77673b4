"""Runs of several processes: who starts them, what they say, and how they stand."""
