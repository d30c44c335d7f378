"""``python -m tests.benchmarks``."""

from tests.benchmarks.command import main

if __name__ == "__main__":
    main()
