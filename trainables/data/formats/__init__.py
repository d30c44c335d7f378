"""The forms of datasets, a module each."""
