"""Curves, and how they are drawn."""
