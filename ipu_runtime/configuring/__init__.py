"""How a configuration is written, checked and applied."""
