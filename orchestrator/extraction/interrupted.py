"""What is said of an extraction that ends before it is done."""

from trainables.errors import UserError

KEPT = "finished shards are kept"


class ExtractionInterruptedError(UserError):
    """An extraction that a signal ended; the same command resumes it."""

    exit_code = 130
