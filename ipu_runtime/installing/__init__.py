"""How scripts find the emulator under the names, with the arguments, they know."""
