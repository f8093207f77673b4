"""The experiment workbench: presets, runs, commands and screens."""
