"""What the documents show, made by commands."""
