"""The operations of the emulated API."""
