"""The main areas of the screen, one file each."""
