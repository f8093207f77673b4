"""Who watches a program run, changes its settings, and saves its state."""
