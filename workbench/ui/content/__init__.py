"""What the panels say, as styled text made from plain data."""
