"""What runs call and exported scripts print: the same functions for both."""
