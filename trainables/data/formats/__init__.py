"""The usual forms of datasets, a module each; ``trainables.data.more_formats`` has the others."""
