"""Finds what is wrong with a machine, or with an experiment."""
