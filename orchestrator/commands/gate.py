"""``orchestrator gate``: keep, discard or undecided for a proposal, with one error rate over all proposals."""

import json
import math
import secrets
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.commands.options import Json
from orchestrator.gate.gate import MOST_PAIRS, begin, describe, pass_proposal
from orchestrator.gate.stream import holding
from orchestrator.text.terminal import make_console, make_table, say
from trainables.errors import ConfigError
from trainables.extras import require


def gate(
    state: Annotated[Path, typer.Argument(metavar="STATE", help="File of the stream, such as gate.json.")],
    proposal: Annotated[
        str | None,
        typer.Argument(
            metavar="PROPOSAL",
            help="A file, a folder, or text:SETTINGS; by default the stream is shown, and nothing runs.",
        ),
    ] = None,
    champion: Annotated[
        str | None, typer.Option(help="First champion of a new stream: a file, a folder, or text:SETTINGS.")
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND",
            help="Command of a run, such as 'python {proposal} --seed {seed}', for a new stream. The last number of "
            "its last line is the score.",
        ),
    ] = None,
    pair: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CHAMPION,PROPOSAL",
            help="Two scores that were measured elsewhere with the seed that the gate gave. May be repeated.",
        ),
    ] = None,
    pairs: Annotated[int, typer.Option(min=2, help="Pairs of runs of this proposal at most.")] = MOST_PAIRS,
    minutes: Annotated[float | None, typer.Option(min=0, help="No pair begins after this many minutes.")] = None,
    smaller_is_better: Annotated[
        bool, typer.Option("--smaller-is-better", help="The score is a loss or an error, for a new stream.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Keep or discard a proposal. At most 5 % of streams, however long, keep a proposal that is no better.

    Both run with the same fresh seeds. Exit codes: 0 keep, 10 discard, 11 undecided, 3 another gate is at work.
    """
    require("report", "`orchestrator gate`", "scipy")
    if proposal is None:
        _show(state, as_json)
        return
    scores = [_scores(text) for text in pair or []]
    with holding(state):
        stream = begin(
            state, champion, run, larger_is_better=False if smaller_is_better else None, seed=secrets.randbelow(2**31)
        )
        outcome = pass_proposal(
            state,
            stream,
            proposal,
            most=pairs,
            scores=scores,
            seconds=None if minutes is None else 60 * minutes,
            listen=lambda line: say(line, error=True),
        )
    if as_json:
        print(json.dumps(outcome.to_dict(), allow_nan=False))
    else:
        say(f"{outcome.word}: {outcome.reason}")
        if outcome.next_seed is not None:
            say(f"next: run both with seed {outcome.next_seed}, then give --pair CHAMPION,PROPOSAL with their scores")
    raise typer.Exit(outcome.exit_code)


def _show(state: Path, as_json: bool) -> None:
    """Print a stream: its champion and the proposals so far."""
    rows, content = describe(state)
    if as_json:
        print(json.dumps(content, allow_nan=False))
        return
    headings = ["", "proposal", "decision", "pairs", "difference", "e-value", "needed"]
    make_console().print(make_table(headings, rows, f"champion: {content['champion']}", texts=3))
    say(f"{content['promise']}, of normal scores")


def _scores(text: str) -> tuple[float, float]:
    """Return the two scores of a ``--pair``."""
    try:
        champion, proposal = (float(part) for part in text.split(","))
    except ValueError:
        raise ConfigError(f"--pair must be two numbers, such as --pair 71.2,73.5; got {text!r}") from None
    if not (math.isfinite(champion) and math.isfinite(proposal)):
        raise ConfigError(f"--pair must be two finite numbers, got {text!r}")
    return champion, proposal
