"""The answer to a Ctrl-C or SIGTERM that comes while no trial runs, e.g. while Ray starts."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from orchestrator.machines.processes import sigterm_as_ctrl_c
from orchestrator.text.terminal import say
from trainables.errors import UserError


@contextmanager
def answered(interrupted: Callable[[], UserError]) -> Iterator[None]:
    """Answer a signal inside a ``with`` block as it is answered while trials run, see ``orchestrator.tuner.run``.

    Args:
        interrupted: Returns the error that says how to resume.

    Raises:
        UserError: That error, in place of ``KeyboardInterrupt``.
    """
    try:
        with sigterm_as_ctrl_c():
            yield
    except KeyboardInterrupt:
        # Printed before MLflow gets its last records, which may take seconds.
        say("stopping; what the journal holds is kept", error=True)
        raise interrupted() from None
