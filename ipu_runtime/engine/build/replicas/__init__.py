"""One program on several replicas, and what goes between them."""
