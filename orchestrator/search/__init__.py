"""An experiment from its start to its winners, and how it stands."""
