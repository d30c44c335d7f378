"""Errors and power of ``orchestrator gate``, by simulation, beside keeping by a single run and Welch's test each time.

    python -m tests.benchmarks gate [--streams 2000] [--proposals 100] [--studies 4000]

*False keep*: no proposal of a stream is better than its champion; the share of streams, in percent, that keep one. The
gate has at most 20 pairs a proposal, Welch's test five seeds of each side. *Missed*: the share of proposals that are
better by so many standard deviations of a score, and are not kept, at a position of the stream.
"""

import argparse
from collections.abc import Iterator

from tests.benchmarks.rows import Row
from tests.support.gate_rates import NULLS, VIOLATIONS, power, stream_rates


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--streams", type=int, default=2000, help="of each row of false keeps")
    parser.add_argument("--proposals", type=int, default=100, help="of each stream")
    parser.add_argument("--studies", type=int, default=4000, help="of each row of missed proposals")
    parser.add_argument("--effects", type=float, nargs="*", default=[1.0, 2.0, 3.0, 5.0])
    parser.add_argument("--positions", type=int, nargs="*", default=[1, 10, 100])


def run(options: argparse.Namespace) -> Iterator[Row]:
    for kind, cases in (("false keep", NULLS), ("false keep, not normal", VIOLATIONS)):
        for case, draw in cases.items():
            rates = stream_rates(draw, options.streams, options.proposals)
            note = f"Welch {100 * rates.welch:.1f} %; {rates.cost:.1f} runs a proposal"
            yield Row(f"{kind}: {case}", "%", 100 * rates.gate, 100 * rates.single, "a single run", note=note)
    for position in options.positions:
        for effect in options.effects:
            rates = power(effect, position - 1, options.studies)
            note = f"Welch {100 * (1 - rates.welch):.1f} %; {rates.cost:.1f} runs"
            missed = [100 * (1 - share) for share in (rates.gate, rates.single)]
            yield Row(f"missed: {effect:g} sd, proposal {position}", "%", *missed, "a single run", note=note)
