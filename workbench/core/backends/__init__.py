"""The ways in which an experiment can be executed."""
