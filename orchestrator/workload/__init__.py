"""What runs in a trial: the one door to ``trainables``."""
