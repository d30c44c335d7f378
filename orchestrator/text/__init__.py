"""How strings, numbers and addresses are shown to people."""
