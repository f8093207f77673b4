"""Pieces of self-contained HTML pages: no network, light, dark and print."""
