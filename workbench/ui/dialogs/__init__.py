"""Questions above the screen, each with one answer."""
