"""What fills the memory of a tile, and what makes room."""
