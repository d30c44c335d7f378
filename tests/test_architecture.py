"""The rooms of ``docs/architecture.md``, kept by machine: who may import whom, and no circle."""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("orchestrator", "trainables", "search_spaces")

EVERYONE_MAY = {"journal", "text", "reference"}
"""Rooms that every other room of ``orchestrator`` may import, beside ``trainables`` and ``search_spaces``."""

MAY_IMPORT = {
    # It names the commands and imports the one that is called (``cli.COMMANDS``), which no statement shows.
    "cli": {"machines"},
    "commands": {
        "claims",
        "doctor",
        "experiment",
        "exports",
        "extraction",
        "forecast",
        "machines",
        "regression",
        "report",
        "results",
        "searches",
        "studies",
        "tracking",
        "views",
        "watch",
        "workload",
    },
    "regression": {
        "claims",
        "experiment",
        "machines",
        "results",
        "searches",
        "studies",
        "tracking",
        "tuner",
        "views",
        "winners",
        "workload",
    },
    "claims": {"experiment", "machines", "results", "views"},
    "watch": {"machines", "report", "results", "searches", "views"},
    "searches": {
        "experiment",
        "forecast",
        "machines",
        "report",
        "results",
        "storage",
        "studies",
        "tracking",
        "tuner",
        "views",
        "winners",
        "workload",
    },
    "doctor": {"experiment", "machines", "results", "storage", "tracking"},
    "extraction": {"machines", "tuner"},
    "tracking": {"experiment", "results", "winners"},
    "tuner": {"experiment", "machines", "storage", "studies", "workload"},
    "forecast": {"experiment", "machines", "studies", "workload"},
    "winners": {"experiment", "results", "storage", "workload"},
    "report": {"results", "views"},
    "views": {"results"},
    "exports": {"experiment", "results"},
    "machines": {"experiment", "storage"},
    "workload": {"experiment", "storage"},
    "studies": {"experiment"},
    "results": {"experiment"},
    "experiment": set(),
    "storage": set(),
    "journal": set(),
    "text": {"reference"},
    "reference": set(),
}
"""Room of ``orchestrator`` -> the rooms that it may import beside ``EVERYONE_MAY``."""

LEVELS = (
    {"errors", "files", "extras"},
    {"plugins"},
    {"representations", "positive_ranks", "ranks", "parameter_values"},
    {"metrics", "model_parameters"},
    {"config"},
    {"data", "checkpoint", "seeding"},
    {"losses"},
    {"judgements", "cocos"},
    {"models", "dataset_description"},
    {"evaluation", "optimizers"},
    {"trial", "training_steps", "serving"},
    {"fused"},
    {"cost", "contracts"},
)
"""Rooms of ``trainables``, the lowest first; a room imports rooms of its own level and below, without a circle."""

SEARCH_SPACES_MAY_IMPORT = {"errors", "parameter_values", "plugins"}
"""Rooms of ``trainables`` that ``search_spaces`` may import, none of which needs torch."""

ENGINES = {
    "ray": ("orchestrator.tuner", "orchestrator.extraction.workers"),
    "optuna": ("orchestrator.studies",),
    "mlflow": ("orchestrator.tracking",),
}
"""Engine -> the modules and packages that may import the engine."""


def modules() -> dict[str, Path]:
    """Return every module of the product by its dotted name."""
    files = (file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py")))
    return {".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file for file in files}


MODULES = modules()


def imports(name: str) -> Iterator[str]:
    """Yield what a module imports, wherever in the module the import stands, ``TYPE_CHECKING`` included."""
    for node in ast.walk(ast.parse(MODULES[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                yield submodule if submodule in MODULES else node.module


@cache
def graph() -> dict[str, set[str]]:
    """Return what each module imports, read when the first test asks for it: not every process of the tests does."""
    return {name: set(imports(name)) for name in MODULES}


def room(module: str) -> str | None:
    """Return the room of a module of ``orchestrator``; ``None`` for the package itself and for other packages."""
    package, _, rest = module.partition(".")
    return rest.partition(".")[0] if package == "orchestrator" and rest else None


def part_of_trainables(module: str) -> str | None:
    """Return the room of a module of ``trainables``: its folder or its own name; ``None`` for other modules."""
    package, _, rest = module.partition(".")
    return rest.partition(".")[0] if package == "trainables" and rest else None


LEVEL = {name: level for level, names in enumerate(LEVELS) for name in names}


def test_rooms_of_trainables_import_only_rooms_of_their_level_and_below() -> None:
    assert LEVEL.keys() == {name for module in MODULES if (name := part_of_trainables(module))}
    wrong = [
        f"{module} imports {target}"
        for module, targets in graph().items()
        for target in sorted(targets)
        if (here := part_of_trainables(module)) and (there := part_of_trainables(target))
        if LEVEL[there] > LEVEL[here]
    ]
    assert not wrong, "\n".join(wrong)


def test_rooms_of_trainables_import_each_other_in_no_circle() -> None:
    rooms: dict[str, set[str]] = {name: set() for name in LEVEL}
    for module, targets in graph().items():
        if here := part_of_trainables(module):
            rooms[here] |= {there for target in targets if (there := part_of_trainables(target)) and there != here}
    try:
        TopologicalSorter(rooms).prepare()
    except CycleError as error:
        pytest.fail(f"these rooms import each other in a circle: {' -> '.join(error.args[1])}")


def test_search_spaces_import_the_rooms_of_trainables_that_they_may() -> None:
    used = {
        there
        for module, targets in graph().items()
        for target in targets
        if module.startswith("search_spaces") and (there := part_of_trainables(target))
    }
    assert used <= SEARCH_SPACES_MAY_IMPORT


def test_every_room_imports_only_the_rooms_that_it_may() -> None:
    wrong = [
        f"{module} imports {target}"
        for module, targets in graph().items()
        for target in sorted(targets)
        if (here := room(module)) and (there := room(target)) and here != there
        if there not in MAY_IMPORT[here] | (EVERYONE_MAY if here not in EVERYONE_MAY else set())
    ]
    assert not wrong, "\n".join(["docs/architecture.md lets these rooms not know each other:", *wrong])


def test_every_permission_is_used() -> None:
    """A permission that nobody uses would let a wall fall unseen."""
    used = {
        (here, there) for module, targets in graph().items() for here in [room(module)] for there in map(room, targets)
    }
    unused = [
        f"{here} may import {there}"
        for here, rooms in MAY_IMPORT.items()
        for there in rooms
        if (here, there) not in used
    ]
    assert not unused, "\n".join(["nobody needs these permissions; remove them:", *unused])


def test_the_table_of_rooms_names_the_rooms_there_are_and_has_no_circle() -> None:
    assert set(MAY_IMPORT) == {name for module in MODULES if (name := room(module))}
    order = list(TopologicalSorter(MAY_IMPORT).static_order())
    assert set(order) == set(MAY_IMPORT)


def test_no_modules_import_each_other_in_a_circle() -> None:
    inner = {name: {target for target in targets if target in MODULES} - {name} for name, targets in graph().items()}
    try:
        TopologicalSorter(inner).prepare()
    except CycleError as error:
        pytest.fail(f"these modules import each other in a circle: {' -> '.join(error.args[1])}")


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_is_imported_in_its_room_alone(engine: str) -> None:
    users = [name for name, targets in graph().items() if any(target.split(".")[0] == engine for target in targets)]
    assert users, f"nothing imports {engine}; does this test still see the imports?"
    assert [user for user in users if not user.startswith(ENGINES[engine])] == []


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [
        ("trainables", {"ray", "optuna", "mlflow", "orchestrator", "search_spaces"}),
        ("search_spaces", {"ray", "optuna", "mlflow", "orchestrator", "torch"}),
    ],
)
def test_the_inner_packages_live_without_the_engines(package: str, forbidden: set[str]) -> None:
    wrong = {
        f"{name} imports {target}"
        for name, targets in graph().items()
        for target in targets
        if name.split(".")[0] == package and target.split(".")[0] in forbidden
    }
    assert not wrong


def test_search_spaces_import_of_trainables_what_needs_no_torch() -> None:
    reached: set[str] = set()
    todo = {target for name, targets in graph().items() if name.startswith("search_spaces") for target in targets}
    while todo:
        target = todo.pop()
        reached.add(target)
        todo |= graph().get(target, set()) - reached
    assert "torch" not in {target.split(".")[0] for target in reached}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_says_in_its_first_line_what_it_holds(package: str) -> None:
    silent = [
        name
        for name, file in MODULES.items()
        if name.startswith(package) and not ast.get_docstring(ast.parse(file.read_text()))
    ]
    assert silent == []


def test_the_page_of_the_architecture_names_every_room() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert [name for name in MAY_IMPORT if f"{name}/" not in page and f"{name}.py" not in page] == []
