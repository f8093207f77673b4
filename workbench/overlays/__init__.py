"""Settings of a script from outside: captured, laid over it, or to be written in."""
