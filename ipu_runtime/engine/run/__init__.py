"""Calls of `fit`, of an estimator, of a function: they run programs piece by piece."""
