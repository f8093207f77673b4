"""What an experiment says: its fields, presets, checks and changes."""
