"""The machines of a search, and the share of a machine that a trial gets."""
