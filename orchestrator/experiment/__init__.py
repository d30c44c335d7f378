"""What is asked for: the experiment file, checked as a whole."""
