"""The samples of an experiment."""
