"""How scripts find the emulator under the names that they import."""
