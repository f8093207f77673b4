"""The plan of an experiment, and plans as text and JSON."""
