"""One experiment at many points."""
