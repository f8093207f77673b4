"""Documents of plans, runs and comparisons, and their text, Content and HTML."""
