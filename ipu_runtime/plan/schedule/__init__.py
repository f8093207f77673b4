"""In which order a pipeline works, and when each task starts."""
