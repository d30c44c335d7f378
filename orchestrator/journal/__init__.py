"""The events of an experiment, written down by one process at a time."""
