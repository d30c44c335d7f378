"""Forms of datasets beside the usual ones of ``trainables.data.formats``: clips, and images with classes."""
