"""Use cases as plain Python: what app, commands and notebooks ask to be done."""
