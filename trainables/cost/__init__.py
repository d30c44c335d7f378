"""Time and memory of a training, from a few real steps."""
