"""Fast reading of the lines of epochs, the most frequent lines in a journal, without parsing their numbers."""

import re

from orchestrator.journal.metrics import Metrics
from orchestrator.journal.trial import TrialState
from orchestrator.journal.trial_records import EpochEnded

# The possessive ``++`` does not backtrack: no digit can follow a number, and lines that do not match fail sooner.
_NUMBER = rb"-?[0-9]++(?:\.[0-9]++)?(?:e[+-]?[0-9]++)?"

_HEAD = re.compile(
    rb'\{"n":([0-9]++),"time":(%b),(?:"elapsed":(%b),)?"kind":"epoch",'
    rb'"trial":"([^"\\]++)","epoch":([0-9]++),"metrics":(?=\{)' % (_NUMBER, _NUMBER)
)
"""The part before the metrics, as ``Journal.append`` writes it."""

_AFTER = b',"state":"'
"""The part between the metrics and the state; a quotation mark ends the state."""

_STATES = {b'%b"' % state.encode(): state for state in TrialState}


def read_epoch(body: bytes) -> EpochEnded | None:
    """Return the record of a line, or ``None`` where the line is no epoch in the form that this version writes.

    Args:
        body: The line without its checksum and closing brace.
    """
    head = _HEAD.match(body)
    if head is None:
        return None
    end = body.rfind(_AFTER)
    metrics, state = body[head.end() : end], body[end + len(_AFTER) :]
    # ``Metrics`` reads only numbers, neither objects nor lists.
    is_flat = metrics.endswith(b"}") and metrics.rfind(b"{") == 0 and b"[" not in metrics
    if not is_flat or state not in _STATES:
        return None
    number, time, elapsed, trial, epoch = head.groups()
    return EpochEnded(
        n=int(number),
        time=float(time),
        elapsed=None if elapsed is None else float(elapsed),
        trial=trial.decode(),
        epoch=int(epoch),
        metrics=Metrics(metrics),
        state=_STATES[state],
    )
