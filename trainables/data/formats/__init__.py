"""The forms of datasets that are read."""
