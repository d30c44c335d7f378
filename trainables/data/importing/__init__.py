"""Reads the files in which people pass on pictures with captions, and makes a dataset of them."""
