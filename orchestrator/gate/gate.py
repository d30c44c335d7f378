"""One proposal through the gate: run pairs until it is decided or a budget ends, and say what follows."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.gate.runs import check_command, check_copy, entry_of, keep_copy, run_entry
from orchestrator.gate.stream import (
    Contender,
    GateError,
    Proposal,
    Stream,
    add_scores,
    decide,
    has_no_effect,
    is_spent,
    read_stream,
    spread_is_missing,
    write_stream,
)
from orchestrator.results.sequential import Decision, PairedEvidence
from orchestrator.text.values import count_text, value_text, visible_values
from orchestrator.text.wording import share_text
from trainables.errors import ConfigError

EXIT_CODES = {Decision.KEEP: 0, Decision.DISCARD: 10, Decision.UNDECIDED: 11}
"""Decision -> exit code of the command."""

MOST_PAIRS = 20
"""Pairs of a proposal where the caller sets no budget."""

Scores = Sequence[tuple[float, float]]
"""Scores of champion and proposal, a pair for each seed."""


@dataclass(frozen=True)
class Ruling:
    """What the gate says of a proposal.

    Attributes:
        identical_to: In words, what has the same bytes; ``None`` for a proposal of its own.
        evidence: ``None`` for an identical proposal.
        reason: One or two sentences.
        next_seed: Seed that both must run with next, where the pairs come from elsewhere.
    """

    proposal: str
    champion: str
    decision: Decision
    reason: str
    identical_to: str | None = None
    position: int | None = None
    evidence: PairedEvidence | None = None
    next_seed: int | None = None

    @property
    def exit_code(self) -> int:
        """0 keep, 10 discard, 11 undecided."""
        return EXIT_CODES[self.decision]

    @property
    def word(self) -> str:
        """``keep``, ``discard``, ``undecided`` or ``identical``."""
        return self.decision.value if self.identical_to is None else "identical"

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as JSON holds it; an end without bound is ``None``."""
        evidence = self.evidence
        numbers = (
            {}
            if evidence is None
            else {
                "pairs": evidence.pairs,
                "difference": evidence.difference,
                "interval": [evidence.low, evidence.high],
                "e_value": evidence.e_value,
                "needed": evidence.needed,
            }
        )
        return visible_values(
            {
                "proposal": self.proposal,
                "champion": self.champion,
                "verdict": self.word,
                "decision": self.decision.value,
                "exit_code": self.exit_code,
                "identical_to": self.identical_to,
                "position": self.position,
                **numbers,
                "reason": self.reason,
                "next_seed": self.next_seed,
            }
        )


def begin(path: Path, champion: str | None, run: str | None, *, larger_is_better: bool | None, seed: int) -> Stream:
    """Return the stream of a state file; a new file begins one.

    Args:
        path: The state file, whose lock the caller holds.
        champion: File, folder or text of the first champion; needed for a new stream.
        run: Command of a run; ``None`` where scores come from elsewhere, or as the stream began.
        larger_is_better: ``None`` is as the stream began, and true for a new stream.
        seed: Seed from which a new stream draws the seeds of its pairs.

    Raises:
        ConfigError: If a new stream has no champion, or an option differs from how the stream began.
    """
    if run is not None:
        check_command(run)
    stream = read_stream(path)
    if stream is None:
        if champion is None:
            raise ConfigError(f"{path}: there is no such stream; --champion FILE begins one")
        entry = keep_copy(path, entry_of(champion))
        stream = Stream(entry, seed, larger_is_better is not False, run)
        write_stream(path, stream)
        return stream
    changed = {
        "--run": run not in (None, stream.run),
        "--champion": champion is not None and entry_of(champion).digest != stream.champion.digest,
        "--smaller-is-better": larger_is_better not in (None, stream.larger_is_better),
    }
    if names := [name for name, is_changed in changed.items() if is_changed]:
        raise ConfigError(
            f"{path}: {', '.join(names)} differs from how the stream began; a new file begins a new stream"
        )
    return stream


def pass_proposal(
    path: Path,
    stream: Stream,
    proposal: str,
    *,
    most: int = MOST_PAIRS,
    scores: Scores = (),
    seconds: float | None = None,
    listen: Callable[[str], None] = lambda line: None,
) -> Ruling:
    """Run pairs of a proposal until it is decided or its budget ends; the caller holds the state file.

    Args:
        path: The state file.
        stream: Its content.
        proposal: File, folder or text of the proposal.
        most: Pairs at most, over all calls.
        scores: Pairs that were measured elsewhere, in the order of the seeds that the gate gave.
        seconds: No pair begins later than this after the start; ``None`` sets no limit.
        listen: Called with a line for each score.

    Raises:
        ConfigError: If the proposal does not exist, or scores are given to a stream that measures by its command.
        GateError: If a copy is not what was proposed.
        RunError: If a run gave no score.
    """
    entry = entry_of(proposal)
    same = stream.same_as(entry.digest)
    if same is not None:
        return _identical(stream, entry, same)
    if scores and stream.run:
        raise ConfigError(f"{path}: this stream runs its command; --pair is for streams without --run")
    check_copy(path, stream.champion_now())
    tested = stream.open_proposal(keep_copy(path, entry), most)
    write_stream(path, stream)
    for champion_score, proposal_score in scores:
        pair, _ = stream.next_pair(tested)
        add_scores(pair, champion_score, proposal_score)
        decide(stream, tested)
        write_stream(path, stream)
        if is_spent(tested):
            break
    began = time.monotonic()
    while stream.run and not is_spent(tested) and (seconds is None or time.monotonic() - began < seconds):
        _run_pair(path, stream, tested, listen)
        decide(stream, tested)
        write_stream(path, stream)
    return _outcome(path, stream, tested)


def _run_pair(path: Path, stream: Stream, tested: Proposal, listen: Callable[[str], None]) -> None:
    """Run both sides of the next pair, in the order of its coin; each score is on the disk when its run ends."""
    pair, champion_first = stream.next_pair(tested)
    write_stream(path, stream)
    sides = ["champion", "proposal"] if champion_first else ["proposal", "champion"]
    for side in sides:
        if getattr(pair, side) is not None:
            continue
        entry = stream.champion_of(tested) if side == "champion" else tested.entry
        score = run_entry(path, entry, stream.run or "", pair.seed)
        add_scores(pair, **{"champion": None, "proposal": None, side: score})
        write_stream(path, stream)
        listen(f"pair {len(tested.pairs)} · seed {pair.seed} · {side} {entry.name}: {value_text(score)}")


def _identical(stream: Stream, entry: Contender, same: Proposal | Contender) -> Ruling:
    champion = stream.champion_now().name
    if isinstance(same, Proposal):
        number = stream.proposals.index(same) + 1
        words, decision = f"proposal {number}", same.decision
        reason = f"Its bytes are those of proposal {number}, whose verdict was {decision.value}; nothing was run."
        # A former champion was kept once, and its successor was shown to be better.
        decision = Decision.DISCARD if decision is Decision.KEEP else decision
    else:
        words, decision = "the champion", Decision.DISCARD
        reason = "Its bytes are those of the champion; nothing was run."
        if same.digest != stream.champion_now().digest:
            words, reason = "the first champion", "Its bytes are those of the first champion; nothing was run."
    return Ruling(entry.name, champion, decision, reason, identical_to=words)


def _outcome(path: Path, stream: Stream, tested: Proposal) -> Ruling:
    evidence = stream.evidence(tested)
    champion = stream.champion_of(tested).name
    reason = _reason(stream, tested, evidence, champion)
    seed = None
    if stream.run is None and not is_spent(tested):
        pair, _ = stream.next_pair(tested)
        seed = pair.seed
        write_stream(path, stream)
    position = stream.proposals.index(tested) + 1
    return Ruling(tested.entry.name, champion, tested.decision, reason, None, position, evidence, seed)


def _reason(stream: Stream, tested: Proposal, evidence: PairedEvidence, champion: str) -> str:
    """Return why a proposal is decided as it is."""
    name, pairs = tested.entry.name, count_text(evidence.pairs, "pair")
    if not evidence.pairs:
        return f"{name} has no pair yet."
    if has_no_effect(tested):
        return f"{name} and {champion} had equal scores in {pairs}: the change has no effect."
    if spread_is_missing(tested):
        return (
            f"No seed changes a score in {pairs}: without noise there is nothing to test. Does the script use its seed?"
        )
    shown = f"{_signed(evidence.difference if stream.larger_is_better else -evidence.difference)} against {champion}"
    ends = [evidence.low, evidence.high] if stream.larger_is_better else [-evidence.high, -evidence.low]
    if evidence.low > float("-inf"):
        shown += f", 95 % CI [{', '.join(map(value_text, ends))}]"
    weight = f"e-value {value_text(evidence.e_value)}, needed {value_text(evidence.needed)}; {pairs}"
    if tested.decision is Decision.KEEP:
        return f"{name} is better: {shown} ({weight})."
    if tested.decision is Decision.DISCARD:
        return f"{name}: {shown} ({weight}). An effect that {tested.most} pairs could find would look better by now."
    rest = tested.most - evidence.pairs
    left = f"{count_text(rest, 'pair')} of the budget left" if rest else "the budget of pairs is spent"
    return f"{name}: {shown} ({weight}); {left}."


def _signed(value: float) -> str:
    return f"+{value_text(value)}" if value > 0 else value_text(value)


def describe(path: Path) -> tuple[list[list[str]], dict[str, Any]]:
    """Return a stream as the rows of a table, and as JSON holds it; nothing is written.

    Raises:
        GateError: If there is no such stream.
    """
    stream = read_stream(path)
    if stream is None:
        raise GateError(f"{path}: there is no such stream; --champion FILE and a proposal begin one")
    rows, entries = [], []
    for place, tested in enumerate(stream.proposals, 1):
        evidence = stream.evidence(tested)
        numbers = [_signed(evidence.difference), value_text(evidence.e_value), value_text(evidence.needed)]
        rows.append([str(place), tested.entry.name, tested.decision.value, str(evidence.pairs), *numbers])
        entries.append(
            {"position": place, "proposal": tested.entry.name, "sha256": tested.entry.digest}
            | {"decision": tested.decision.value, "pairs": evidence.pairs, "difference": evidence.difference}
            | {"e_value": evidence.e_value, "needed": evidence.needed}
        )
    champion = stream.champion_now()
    level = share_text(stream.level)
    return rows, visible_values(
        {"champion": champion.name, "sha256": champion.digest, "level": stream.level, "proposals": entries}
        | {"promise": f"at most {level} of such streams keep a proposal that is no better"}
    )
