"""What every Python that `poprun` starts does first; the folder is on its path."""
