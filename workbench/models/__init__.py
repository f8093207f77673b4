"""Models of the user's own: where they come from, and what a plan needs of them."""
