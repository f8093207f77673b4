"""What a strategy's scope changes."""
