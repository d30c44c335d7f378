"""An experiment from its start to its winners, and its state."""
