"""The experiment file, checked as a whole."""
