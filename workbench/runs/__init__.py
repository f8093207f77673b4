"""Running an experiment, and the record that it leaves."""
