"""Parts that the areas are made of."""
