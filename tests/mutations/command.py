"""Plants the listed faults one at a time in a copy of this repository, and runs the tests that must notice each.

A test that passes whatever the code does proves nothing. Each mutation of the list is such a fault with the tests that
fail for it. A mutation is killed where one of its tests fails by an assertion, and survives where all of them pass; a
module that cannot be imported, or any other exception, is an error and proves nothing either.

The lists are in tests/mutations/AREA.txt. After a test was changed, run the mutations whose tests it is among.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.mutations.mutation import Mutation, list_mutations
from tests.mutations.runner import RefusedError, Result, run_mutations

ROOT = Path(__file__).parent.parent.parent


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the mutations that are asked for; exit with 1 where one was not killed, with 2 where nothing could be run."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutations", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", help="run these mutations, not all")
    parser.add_argument("--list", action="store_true", help="print the mutations and run nothing")
    options = parser.parse_args(arguments)
    chosen = choose(list_mutations(), options.only)
    if options.list:
        for mutation in chosen:
            print(f"{mutation.name:60} {mutation.file}\n    {mutation.tests}")
        return
    try:
        results = show_results(chosen, ROOT)
    except RefusedError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    sys.exit(any(result.verdict != "killed" for result in results))


def choose(mutations: Sequence[Mutation], names: Sequence[str] | None) -> list[Mutation]:
    """Return the mutations of some names, or all; exit where a name is unknown."""
    if names is None:
        return list(mutations)
    by_name = {mutation.name: mutation for mutation in mutations}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        print(f"error: no mutation is called {unknown[0]!r}; --list prints all names", file=sys.stderr)
        sys.exit(2)
    return [by_name[name] for name in names]


def show_results(mutations: Sequence[Mutation], root: Path) -> list[Result]:
    """Run mutations and print a line for each as it comes, then how many there were of each verdict."""
    results: list[Result] = []
    for result in run_mutations(mutations, root):
        results.append(result)
        why = "" if result.verdict == "killed" else f"  {result.note}"
        mutation = result.mutation
        print(f"{result.verdict:9} {result.seconds:5.0f} s  {mutation.name:60} {mutation.file}{why}", flush=True)
    counts = {verdict: sum(one.verdict == verdict for one in results) for verdict in ("killed", "SURVIVED", "error")}
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return results
