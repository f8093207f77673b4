"""The emulated machine: its devices, and what the environment says about them."""
