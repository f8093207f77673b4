"""What layers, stages, links and the host cost in time."""
