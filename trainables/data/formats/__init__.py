"""The forms of datasets that this software reads, a module each."""
