"""The training of a trial; all of a search's calls to ``trainables`` are here."""
