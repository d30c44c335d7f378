"""What a training takes: time and memory, from a few real steps."""
