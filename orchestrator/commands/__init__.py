"""One file a command: it parses, calls one function that does the work, and prints what that returns."""
