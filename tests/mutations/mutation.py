"""A mutation: a small fault that is planted on purpose, to see whether a test notices it; and the list of all."""

import ast
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path


@dataclass(frozen=True)
class Mutation:
    """One fault, and the tests that must notice it.

    Attributes:
        name: What is wrong with the mutated code, in a few words; unique in the whole list.
        file: Path of the file that is changed, from the root of the repository.
        old: Text that stands exactly once in the file.
        new: Text that takes its place.
        tests: Arguments of pytest, divided by spaces as in a shell: files, or tests of theirs (``FILE::TEST``).
    """

    name: str
    file: str
    old: str
    new: str
    tests: str

    def problem(self, root: Path) -> str | None:
        """Return why the mutation does not fit the tree under ``root``, or ``None`` where it does."""
        path = root / self.file
        if not path.is_file():
            return f"{self.name}: {self.file} does not exist; name the file where the code stands now"
        text = path.read_text(encoding="utf-8")
        times = text.count(self.old)
        if times != 1:
            return f"{self.name}: {self.old!r} stands {times} times in {self.file}, not once"
        if self.old == self.new:
            return f"{self.name}: old and new are equal"
        try:
            ast.parse(text.replace(self.old, self.new))
        except SyntaxError as error:
            return f"{self.name}: {self.file} is no Python after the change: {error}"
        return None


def list_mutations() -> tuple[Mutation, ...]:
    """Return ``MUTATIONS`` of every module of this folder that has such a tuple, modules by the alphabet."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py") if not path.stem.startswith("test_"))
    modules = [import_module(f"tests.mutations.{name}") for name in names]
    return tuple(mutation for module in modules for mutation in getattr(module, "MUTATIONS", ()))
