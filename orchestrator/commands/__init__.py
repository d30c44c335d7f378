"""The commands, a module each, which parses the command line, calls one function and prints its result."""
