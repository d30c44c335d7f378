"""Numbers to compare with: the papers' tables, see README.md."""
