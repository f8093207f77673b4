"""What the emulator has of the real API, compared name by name, and its page."""
