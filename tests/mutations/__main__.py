"""``python -m tests.mutations``."""

from tests.mutations.command import main

if __name__ == "__main__":
    main()
