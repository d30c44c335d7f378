"""What is wrong with a machine, or with an experiment."""
