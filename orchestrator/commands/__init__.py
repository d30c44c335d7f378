"""The commands: each module parses the command line of a command, calls one function and prints the result."""
