"""The whole list of mutations: ``MUTATIONS`` of every module of this folder that has such a tuple."""

from importlib import import_module
from pathlib import Path

from tests.mutations.mutation import Mutation


def list_mutations() -> tuple[Mutation, ...]:
    """Return all mutations, modules by the alphabet, each module's in the order in which they stand there."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py") if not path.stem.startswith("test_"))
    modules = [import_module(f"tests.mutations.{name}") for name in names]
    return tuple(mutation for module in modules for mutation in getattr(module, "MUTATIONS", ()))
