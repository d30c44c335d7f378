"""The stream of proposals as its state file holds it, and what is decided of a proposal.

A score is in the file before anybody acts on it. So a killed gate goes on where it was, and no pair is lost or run
twice.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np

from orchestrator.journal.lock import AlreadyRunningError
from orchestrator.results.sequential import TOTAL_LEVEL, Decision, PairedEvidence, level_of, weigh
from trainables.errors import ConfigError, UserError
from trainables.files import alone, write_whole

VERSION = 1
"""Version of the state file."""

ALIKE = 3
"""Pairs after which scores without any spread are taken as scores that no seed changes."""


class GateError(UserError):
    """The state file cannot be used, or belongs to another stream."""


class SeedPair(msgspec.Struct, forbid_unknown_fields=True):
    """Champion and proposal with one fresh seed; a score is ``None`` until it is known."""

    seed: int
    champion: float | None = None
    proposal: float | None = None

    @property
    def is_whole(self) -> bool:
        """Whether both scores are known."""
        return self.champion is not None and self.proposal is not None


class Contender(msgspec.Struct, forbid_unknown_fields=True):
    """A champion or a proposal: its name, the SHA-256 of its bytes, and where its copy lies, if it is a file."""

    name: str
    digest: str
    copy: str | None = None


class Proposal(msgspec.Struct, forbid_unknown_fields=True):
    """A proposal that was tested, or is being tested."""

    entry: Contender
    against: str
    """Digest of the champion of its time."""
    most: int
    """Pairs that the budget allows."""
    pairs: list[SeedPair] = []
    decision: Decision = Decision.UNDECIDED

    @property
    def whole_pairs(self) -> list[SeedPair]:
        """The pairs of which both scores are known."""
        return [pair for pair in self.pairs if pair.is_whole]


class Stream(msgspec.Struct, forbid_unknown_fields=True):
    """All that a state file holds."""

    champion: Contender
    """The first champion; later champions are kept proposals."""
    seed: int
    """Seed from which the seeds of all pairs are drawn."""
    larger_is_better: bool = True
    run: str | None = None
    level: float = TOTAL_LEVEL
    proposals: list[Proposal] = []
    version: int = VERSION

    def champion_now(self) -> Contender:
        """Return the champion: the proposal that was kept last, or the first champion."""
        kept = [proposal.entry for proposal in self.proposals if proposal.decision is Decision.KEEP]
        return kept[-1] if kept else self.champion

    def champion_of(self, proposal: Proposal) -> Contender:
        """Return the champion that a proposal was tested against."""
        entries = [self.champion, *(one.entry for one in self.proposals)]
        return next(entry for entry in entries if entry.digest == proposal.against)

    def open_proposal(self, entry: Contender, most: int) -> Proposal:
        """Return the proposal with these bytes against the champion of now; it is added where it is new.

        A later call may allow more pairs, never fewer than an earlier call.
        """
        against = self.champion_now().digest
        for proposal in self.proposals:
            if (proposal.entry.digest, proposal.against) == (entry.digest, against):
                proposal.most = max(proposal.most, most)
                return proposal
        self.proposals.append(Proposal(entry, against, most))
        return self.proposals[-1]

    def same_as(self, digest: str) -> Proposal | Contender | None:
        """Return the champion, or a decided proposal, that has these bytes; ``None`` where there is none."""
        champion = self.champion_now()
        if champion.digest == digest:
            return champion
        earlier = [one for one in self.proposals if one.entry.digest == digest]
        decided = [one for one in earlier if one.decision is not Decision.UNDECIDED]
        former = self.champion if self.champion.digest == digest else None
        return decided[-1] if decided else former

    def draw(self, number: int) -> tuple[int, bool]:
        """Return the seed of a pair, and whether the champion runs first, by a fair coin."""
        generator = np.random.default_rng([self.seed, number])
        return int(generator.integers(1, 2**31)), bool(generator.integers(2))

    def next_pair(self, proposal: Proposal) -> tuple[SeedPair, bool]:
        """Return the pair of a proposal that is not whole yet, or a new one, and whether the champion runs first."""
        number = sum(len(one.pairs) for one in self.proposals)
        open_pairs = [pair for pair in proposal.pairs if not pair.is_whole]
        if open_pairs:
            pair = open_pairs[0]
            return pair, pair.champion is None and pair.proposal is None
        seed, champion_first = self.draw(number)
        pair = SeedPair(seed)
        proposal.pairs.append(pair)
        return pair, champion_first

    def evidence(self, proposal: Proposal) -> PairedEvidence:
        """Return what the whole pairs of a proposal say, at its level in the stream."""
        sign = 1 if self.larger_is_better else -1
        pairs = proposal.whole_pairs
        differences = [sign * ((pair.proposal or 0.0) - (pair.champion or 0.0)) for pair in pairs]
        level = level_of(self.proposals.index(proposal) + 1, self.level)
        return weigh(differences, level, proposal.most)


def spread_is_missing(proposal: Proposal) -> bool:
    """Whether no seed changes a score: each side has one score in several pairs."""
    sides = [{pair.champion for pair in proposal.whole_pairs}, {pair.proposal for pair in proposal.whole_pairs}]
    return len(proposal.whole_pairs) >= ALIKE and all(len(scores) == 1 for scores in sides)


def has_no_effect(proposal: Proposal) -> bool:
    """Whether champion and proposal have equal scores in every one of several pairs."""
    pairs = proposal.whole_pairs
    return len(pairs) >= ALIKE and all(pair.champion == pair.proposal for pair in pairs)


def decide(stream: Stream, proposal: Proposal) -> Decision:
    """Return what is decided of a proposal, and remember it in the stream."""
    if proposal.decision is Decision.UNDECIDED:
        if has_no_effect(proposal):
            proposal.decision = Decision.DISCARD
        elif not spread_is_missing(proposal):
            proposal.decision = stream.evidence(proposal).decision
    return proposal.decision


def is_spent(proposal: Proposal) -> bool:
    """Whether no further pair helps: decided, out of budget, or without spread."""
    over = len(proposal.whole_pairs) >= proposal.most
    return over or proposal.decision is not Decision.UNDECIDED or spread_is_missing(proposal)


def add_scores(pair: SeedPair, champion: float | None, proposal: float | None) -> None:
    """Give a pair its scores; ``None`` leaves a score as it is.

    Raises:
        ConfigError: If a score is not finite.
    """
    for score in (champion, proposal):
        if score is not None and not math.isfinite(score):
            raise ConfigError(f"a score must be a finite number, got {score}")
    pair.champion = pair.champion if champion is None else champion
    pair.proposal = pair.proposal if proposal is None else proposal


def read_stream(path: Path) -> Stream | None:
    """Return the stream of a state file; ``None`` where there is no file.

    Raises:
        GateError: If the file cannot be read, or is no state of a gate.
    """
    try:
        stream = msgspec.json.decode(path.read_bytes(), type=Stream)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise GateError(f"{path}: cannot be read: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise GateError(f"{path}: is no state of a gate: {error}; name another file to begin a new stream") from error
    if stream.version != VERSION:
        raise GateError(f"{path}: has version {stream.version}; this program reads version {VERSION}")
    return stream


def write_stream(path: Path, stream: Stream) -> None:
    """Write a state file; it is there whole, old or new, whenever the machine stops."""
    write_whole(path, msgspec.json.format(msgspec.json.encode(stream), indent=1))


@contextmanager
def holding(path: Path) -> Iterator[None]:
    """Hold a stream alone: another gate on the same file is refused until this one ends.

    Raises:
        AlreadyRunningError: If another process holds the stream.
        GateError: If the folder of the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with alone(path.with_name(f"{path.name}.lock"), waits=False):
            yield
    except BlockingIOError as error:
        raise AlreadyRunningError(
            f"{path}: another gate tests a proposal of this stream; wait until it ends"
        ) from error
