"""The emulated machine: its devices, what the environment says about them, and what
connects several."""
