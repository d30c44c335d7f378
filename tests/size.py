"""``python -m tests.size`` prints the size of the product beside what it should be.

Counted are ``orchestrator``, ``trainables`` and ``search_spaces``. A line of code has a token that is neither
a comment nor part of a docstring. The import levels are the modules of the longest chain in which each module imports
the next when it is loaded; imports inside functions and under ``TYPE_CHECKING`` add no level. Records of msgspec count
as dataclasses. The stories are those of ``docs/architecture.md``; ``tests/walks.py`` runs them. A fact with one owner
is named by one module: the newest metric, how names of metrics are cut, and the rules of hyper-parameters.
"""

import ast
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from pathlib import Path

from tests.test_architecture import CUT_AT_SLASHES, MODULES, ROOT, cuts, imports, room, tree_of

AIMS = {
    "lines": 49_000,
    "lines of code": 25_000,
    "files": 300,
    "modules under 60 lines of code": 30,
    "dataclasses": 170,
    "import levels": 24,
    "imports inside functions": 130,
    "class names that occur twice": 6,
    "functions of complexity over 10": 0,
    "rooms of the longest story": 12,
    "climbs of the longest story": 6,
    "modules that name the newest metric": 1,
    "modules that cut names of metrics": 1,
    "modules with rules of hyper-parameters": 2,
    "tests' code per 100 lines of code": 120,
    "words of documents": 60_000,
}
"""Measure -> the largest value that it should have."""

DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]

TOKENS_WITHOUT_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}


def code_lines(file: Path) -> int:
    """Return how many lines of a module hold code, without docstrings, comments and empty lines."""
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    docstrings = {
        line
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None
        for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    }
    with tokenize.open(file) as source:
        tokens = [token for token in tokenize.generate_tokens(source.readline) if token.type not in TOKENS_WITHOUT_CODE]
    lines = {line for token in tokens for line in range(token.start[0], token.end[0] + 1)}
    return len(lines - docstrings)


def _loaded(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that run when a module is loaded, without those for the type checker alone."""
    for statement in body:
        if isinstance(statement, ast.If) and isinstance(statement.test, ast.Name):
            yield from _loaded(statement.orelse)
        elif isinstance(statement, ast.If | ast.Try):
            yield from _loaded(statement.body)
        else:
            yield statement


def loaded_imports(name: str) -> set[str]:
    """Return the modules, ours and others, that a module imports when it is loaded."""
    return {*imports(_loaded(tree_of(name).body))}


def early_imports(name: str) -> set[str]:
    """Return the modules of the product that a module imports when it is loaded."""
    return loaded_imports(name) & MODULES.keys() - {name}


def import_levels() -> int:
    """Return the number of modules in the longest chain of imports."""
    graph = {name: early_imports(name) for name in MODULES}
    levels: dict[str, int] = {}
    for name in TopologicalSorter(graph).static_order():
        levels[name] = 1 + max((levels[target] for target in graph[name]), default=0)
    return max(levels.values())


def _late_imports(tree: ast.Module) -> int:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    statements = {node for function in functions for node in ast.walk(function)}
    return sum(isinstance(node, ast.Import | ast.ImportFrom) for node in statements)


def _is_dataclass(node: ast.ClassDef) -> bool:
    decorators = [item.func if isinstance(item, ast.Call) else item for item in node.decorator_list]
    is_record = any(ast.unparse(base) in ("msgspec.Struct", "Record", "TrialRecord") for base in node.bases)
    return is_record or any(isinstance(item, ast.Name) and item.id == "dataclass" for item in decorators)


def measures() -> Mapping[str, int]:
    """Return measure -> value, for the measures of ``AIMS``."""
    # Ray, Optuna and MLflow, which other tests that count lines need not import.
    from tests.walks import STORIES, walk

    trees = {name: tree_of(name) for name in MODULES}
    classes = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    code = {name: code_lines(file) for name, file in MODULES.items()}
    complexity = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--select", "C901", "--quiet", "--output-format", "concise", "."],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    return {
        "lines": sum(len(file.read_text(encoding="utf-8").splitlines()) for file in MODULES.values()),
        "lines of code": sum(code.values()),
        "files": len(MODULES),
        "modules under 60 lines of code": sum(0 < lines < 60 for lines in code.values()),
        "dataclasses": sum(map(_is_dataclass, classes)),
        "import levels": import_levels(),
        "imports inside functions": sum(map(_late_imports, trees.values())),
        "class names that occur twice": sum(
            count > 1 for name, count in Counter(node.name for node in classes).items() if not name.startswith("_")
        ),
        "functions of complexity over 10": complexity.count("C901"),
        "rooms of the longest story": max(len(walk(story).rooms) for story in STORIES),
        "climbs of the longest story": max(len(walk(story).climbs) for story in STORIES),
        "modules that name the newest metric": sum("map10" in _texts(tree) for tree in trees.values()),
        "modules that cut names of metrics": sum(
            any(cuts(tree)) for name, tree in trees.items() if name not in CUT_AT_SLASHES
        ),
        # The tables of losses and of models; ``hyper_parameters`` makes the entries of plug-ins.
        "modules with rules of hyper-parameters": sum(
            "HyperParameter" in _called(tree) for name, tree in trees.items() if name != "trainables.hyper_parameters"
        ),
        "tests' code per 100 lines of code": round(
            100 * sum(map(code_lines, (ROOT / "tests").rglob("*.py"))) / sum(code.values())
        ),
        "words of documents": sum(len(page.read_text(encoding="utf-8").split()) for page in DOCUMENTS),
    }


def _texts(tree: ast.Module) -> set[object]:
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}


def _called(tree: ast.Module) -> set[str]:
    """Return the names that a module calls."""
    return {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}


def rows_by_room() -> Iterator[tuple[str, int, int, int]]:
    """Yield room or package, files, lines and lines of code."""
    places: dict[str, list[Path]] = {}
    for name, file in MODULES.items():
        places.setdefault(f"orchestrator/{here}" if (here := room(name)) else name.partition(".")[0], []).append(file)
    for place, files in sorted(places.items()):
        lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)
        yield place, len(files), lines, sum(map(code_lines, files))


def main() -> None:
    """Print the measures beside their aims, then the size of each room."""
    print(f"{'measure':34} {'now':>8} {'aim':>8}")
    for measure, value in measures().items():
        print(f"{measure:34} {value:8,} {AIMS[measure]:8,}")
    print(f"\n{'room':34} {'files':>8} {'lines':>8} {'code':>8}")
    for place, files, lines, code in rows_by_room():
        print(f"{place:34} {files:8,} {lines:8,} {code:8,}")


if __name__ == "__main__":
    main()
