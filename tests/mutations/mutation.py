"""A mutation: a small fault that is planted on purpose, to see whether a test notices it; and the list of all."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent


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


def list_mutations() -> list[Mutation]:
    """Return the mutations of the lists in this folder, in the order of the lists' names."""
    return [mutation for path in sorted(FOLDER.glob("*.txt")) for mutation in read_list(path.read_text("utf-8"))]


def read_list(text: str) -> Iterator[Mutation]:
    """Yield the mutations of a list, whose paragraphs look like this, after a heading that begins with ``#``.

    FILE: what is wrong with the mutated code
    - the text that is replaced, which may have several such lines
    + the text in its place; without such a line, whole lines are removed
    TESTS
    """
    for paragraph in text.strip().split("\n\n")[1:]:
        head, *change, tests = paragraph.split("\n")
        file, _, name = head.partition(": ")
        old, new = ([line[2:] for line in change if line.startswith(sign)] for sign in "-+")
        yield Mutation(name, file, "\n".join(old) + ("" if new else "\n"), "\n".join(new), tests)
