"""The commands that need no terminal."""
