"""The rooms of ``docs/architecture.md``, kept by machine: who may import whom, and no circle."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("orchestrator", "trainables", "search_spaces")

EVERYONE_MAY = {"environment", "journal", "text", "reference"}
"""Rooms that every other room of ``orchestrator`` may import, beside ``trainables`` and ``search_spaces``."""

ROOMS = {
    "__main__": "cli",
    # It names the commands and imports the one that is called (``cli.COMMANDS``), which no statement shows.
    "cli": "machines",
    "commands": "assistants claims doctor experiment exports extraction gate judging machines regression "
    "report results searches studies tracking views watch workload",
    "claims": "experiment machines regression results searches tracking views",
    "regression": "experiment machines results searches tracking tuner views winners workload",
    "watch": "machines report results searches views",
    "searches": "experiment machines report results storage studies tracking tuner views winners workload",
    "doctor": "experiment machines results storage tracking",
    "extraction": "machines tuner",
    "tracking": "experiment machines results winners",
    "tuner": "experiment machines storage workload",
    "winners": "experiment results storage workload",
    "report": "experiment results views",
    "judging": "results studies tracking",
    "assistants": "",
    "gate": "results",
    "views": "results",
    "exports": "experiment results",
    "machines": "experiment storage",
    "workload": "experiment storage",
    "studies": "experiment",
    "results": "experiment",
    "experiment": "",
    "storage": "",
    "journal": "",
    "environment": "",
    "text": "reference",
    "reference": "",
}
MAY_IMPORT = {name: set(others.split()) for name, others in ROOMS.items()}
"""Room of ``orchestrator`` -> the rooms that it may import beside ``EVERYONE_MAY``."""

LEVELS = (
    {"errors", "files", "extras", "allotment"},
    {"plugins"},
    {"representations", "positive_ranks", "ranks", "parameter_values", "metric_table"},
    {"metric_values", "metrics", "hyper_parameters", "loss_parameters", "model_parameters"},
    {"config", "seeding"},
    {"data", "checkpoint"},
    {"losses"},
    {"judged_ranks", "judgements", "judgement_files", "cocos"},
    {"models", "encoders", "dataset_description"},
    {"bank", "evaluation", "optimizers", "capturable", "meta_step"},
    {"trial", "training_steps", "micro_batches", "static_steps", "serving"},
    {"fused", "turns"},
    {"cost", "contracts"},
)
"""Rooms of ``trainables``, the lowest first; a room imports rooms of its own level and below, without a circle."""

LEVEL = {name: level for level, names in enumerate(LEVELS) for name in names}

SEARCH_SPACES_MAY_IMPORT = {"errors", "hyper_parameters", "loss_parameters", "parameter_values", "plugins"}
"""Rooms of ``trainables`` that ``search_spaces`` may import, none of which needs torch."""

ENGINES = {
    "ray": ("orchestrator.tuner", "orchestrator.extraction.workers"),
    "optuna": ("orchestrator.studies",),
    "mlflow": ("orchestrator.tracking",),
}
"""Engine -> the modules and packages that may import the engine."""

SET_VARIABLES = {
    "orchestrator.environment": "what holds for every run",
    "orchestrator.tracking.address": "the account of one tracking server",
    "orchestrator.tracking.connection": "a shorter timeout while a person waits",
    "orchestrator.tracking.server": "the stores of one server",
    "orchestrator.tuner.engines": "the GPUs of one engine",
    "orchestrator.tuner.own_ray": "the token of one Ray",
    "trainables.seeding": "cuBLAS, without orchestrator",
}
"""Modules that write to ``os.environ``, with what they alone know."""

PRECISE = {"orchestrator.regression.notices": "JUnit's XML", "orchestrator.report.render": "numbers of figures as JSON"}
"""Modules outside ``orchestrator.text`` that format numbers with a precision, which no person reads there.

Plotly formats what is shown under the pointer, such as ``%{x:.4g}``; ``trainables`` lives without ``orchestrator``.
"""

PRECISION = re.compile(r"(?<!%)\{[^{}]*:[^{}]*\.\d+[efg%]\}|%[-+ 0]*\d*\.\d+[efg]")
"""A number with a precision in a text for ``str.format`` or ``%``."""

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

OUTER = {
    "trainables": {"ray", "optuna", "mlflow", "orchestrator", "search_spaces"},
    "search_spaces": {"ray", "optuna", "mlflow", "orchestrator", "torch"},
}
"""Inner package -> the packages without which it lives."""


def modules() -> dict[str, Path]:
    """Return every module of the product by its dotted name."""
    files = (file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py")))
    return {".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file for file in files}


MODULES = modules()


def tree_of(name: str) -> ast.Module:
    return ast.parse(MODULES[name].read_text(encoding="utf-8"))


def imports(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield what statements of a module import."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                yield submodule if submodule in MODULES else node.module


@cache
def graph() -> dict[str, set[str]]:
    """Return what each module imports, wherever it does, read when a test asks: not every process of the tests does."""
    return {name: set(imports(ast.walk(tree_of(name)))) for name in MODULES}


def room(module: str, package: str = "orchestrator") -> str | None:
    """Return the room of a module of a package, a folder or a module; ``None`` for the package and for others."""
    first, _, rest = module.partition(".")
    return rest.partition(".")[0] if first == package and rest else None


def between_rooms(package: str) -> Iterator[tuple[str, str, str]]:
    """Yield room, room that it imports, and the import in words."""
    for module, targets in graph().items():
        for target in sorted(targets):
            if (here := room(module, package)) and (there := room(target, package)) and here != there:
                yield here, there, f"{module} imports {target}"


def assert_no_circle(names: Mapping[str, set[str]]) -> None:
    try:
        TopologicalSorter(names).prepare()
    except CycleError as error:
        pytest.fail(f"these import each other in a circle: {' -> '.join(error.args[1])}")


def test_rooms_of_trainables_import_only_rooms_of_their_level_and_below_and_in_no_circle() -> None:
    assert LEVEL.keys() == {name for module in MODULES if (name := room(module, "trainables"))}
    found = list(between_rooms("trainables"))
    wrong = [words for here, there, words in found if LEVEL[there] > LEVEL[here]]
    assert not wrong, "\n".join(wrong)
    assert_no_circle({name: {there for here, there, _ in found if here == name} for name in LEVEL})


def test_every_room_imports_only_the_rooms_that_it_may_and_every_permission_is_used() -> None:
    """A permission that nobody uses would let a wall fall unseen."""
    found = list(between_rooms("orchestrator"))
    allowed = {here: MAY_IMPORT[here] | (set() if here in EVERYONE_MAY else EVERYONE_MAY) for here in MAY_IMPORT}
    wrong = [words for here, there, words in found if there not in allowed[here]]
    assert not wrong, "\n".join(["docs/architecture.md lets these rooms not know each other:", *wrong])
    used = {(here, there) for here, there, _ in found}
    permissions = {(here, there) for here, rooms in MAY_IMPORT.items() for there in rooms}
    assert permissions <= used, f"nobody needs these permissions; remove them: {permissions - used}"


def test_the_table_of_rooms_names_the_rooms_there_are_and_has_no_circle() -> None:
    assert set(MAY_IMPORT) == {name for module in MODULES if (name := room(module))}
    assert_no_circle(MAY_IMPORT)
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert [name for name in MAY_IMPORT if f"{name}/" not in page and f"{name}.py" not in page] == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert_no_circle({name: (targets & MODULES.keys()) - {name} for name, targets in graph().items()})


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_is_imported_in_its_room_alone(engine: str) -> None:
    users = [name for name, targets in graph().items() if any(target.split(".")[0] == engine for target in targets)]
    assert users, f"nothing imports {engine}; does this test still see the imports?"
    assert [user for user in users if not user.startswith(ENGINES[engine])] == []


@pytest.mark.parametrize("package", OUTER)
def test_the_inner_packages_live_without_the_engines(package: str) -> None:
    own = [(name, targets) for name, targets in graph().items() if name.split(".")[0] == package]
    assert [
        (name, target) for name, targets in own for target in targets if target.split(".")[0] in OUTER[package]
    ] == []


def test_search_spaces_import_of_trainables_what_they_may_and_what_needs_no_torch() -> None:
    todo = {target for name, targets in graph().items() if name.startswith("search_spaces") for target in targets}
    assert {there for target in todo if (there := room(target, "trainables"))} <= SEARCH_SPACES_MAY_IMPORT
    reached: set[str] = set()
    while todo:
        reached.add(target := todo.pop())
        todo |= graph().get(target, set()) - reached
    assert "torch" not in {target.split(".")[0] for target in reached}


CUTS = {"removeprefix", "removesuffix", "startswith", "endswith", "partition", "rpartition", "split", "rsplit"}
"""Methods that take a text apart, or look at its start or end."""

PART_OF_A_METRIC = re.compile(
    r"_?(val|test|cocos|cocos_start|train|time|loss|start|i2t|t2i|best|std|condensed|annotated|rsum|map_r|map\d+|r\d+|"
    r"medr|meanr|average_recall)[_/]?|/"
)
"""What a name of a metric is cut at: a section, a direction, an ending or the metric itself."""

CUT_AT_SLASHES = {
    "orchestrator.commands.keys": "references of a JSON schema",
    "orchestrator.commands.mlflow_store": "paths of MLflow's pages",
    "orchestrator.results.trial_comparison": "EXPERIMENT/TRIAL",
    "orchestrator.storage.bucket": "paths in a bucket",
    "orchestrator.text.addresses": "addresses",
    "trainables.data.formats.coco": "names of picture files",
}
"""Modules that cut other texts at slashes."""


def cuts(tree: ast.Module) -> Iterator[str]:
    """Yield the calls that take a text apart at a part of a metric's name."""
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if isinstance(call.func, ast.Attribute) and call.func.attr in CUTS:
            constants = [
                part for argument in call.args for part in ast.walk(argument) if isinstance(part, ast.Constant)
            ]
            ends = [part.value for part in constants if isinstance(part.value, str)]
            if any(map(PART_OF_A_METRIC.fullmatch, ends)) and not ast.unparse(call.func).endswith("corpus.split"):
                yield ast.unparse(call)


def test_the_name_of_a_metric_is_taken_apart_in_its_table_alone() -> None:
    """So that a metric is added in one place, and no module guesses what a name means by its ending."""
    found = {name: [*cuts(tree_of(name))] for name in MODULES}
    users = {name: calls for name, calls in found.items() if calls and name not in CUT_AT_SLASHES}
    assert users.keys() == {"trainables.metric_table"}, f"use trainables.metric_table: {users}"
    others = [call for name in CUT_AT_SLASHES for call in found[name] if "'/'" not in call and "}/" not in call]
    assert not others


def test_a_metric_is_named_by_its_table_alone() -> None:
    """The newest metric of the table has no other owner: adding it took one entry, and its oracle."""
    naming = {name for name in MODULES if "map10" in {node.value for node in constants_of(name)}}
    assert naming == {"trainables.metric_table"}


def constants_of(name: str) -> Iterator[ast.Constant]:
    return (node for node in ast.walk(tree_of(name)) if isinstance(node, ast.Constant))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('name.removeprefix("val/")', True),
        ('name.endswith(("_best", "_std"))', True),
        ('metric.partition("/")[2]', True),
        ('name.removeprefix(f"{BEST}val/")', True),
        ('name.endswith("map5")', True),
        ('corpus.split("train")', False),
        ('name.removeprefix("features_")', False),
    ],
)
def test_a_cut_is_seen_in_every_spelling(source: str, expected: bool) -> None:
    assert any(cuts(ast.parse(source))) is expected


def test_the_environment_is_written_in_one_place_but_for_what_one_run_knows() -> None:
    write = re.compile(r"os\.environ(\[[^\]]+\] = | \|= |\.(setdefault|update|pop|clear)\()|putenv|del os\.environ")
    assert {name for name, file in MODULES.items() if write.search(file.read_text())} == SET_VARIABLES.keys()


def test_every_module_says_in_its_first_line_what_it_holds() -> None:
    assert [name for name, file in MODULES.items() if not ast.get_docstring(ast.parse(file.read_text()))] == []


def precise(tree: ast.Module) -> bool:
    """Return whether a module formats a number with a precision; a text that is made a number again is none."""
    nodes = list(ast.walk(tree))
    calls = [(ast.unparse(node.func), node.args) for node in nodes if isinstance(node, ast.Call)]
    rounded = {argument for name, arguments in calls if name == "float" for argument in arguments}
    shown = [part for node in nodes if isinstance(node, ast.JoinedStr) and node not in rounded for part in node.values]
    specs = [part.format_spec for part in shown if isinstance(part, ast.FormattedValue) and part.format_spec]
    specs += [argument for name, arguments in calls if name == "format" for argument in arguments[1:]]
    documents = {ast.get_docstring(node, clean=False) for node in nodes if isinstance(node, DOCUMENTED)}
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)} - documents
    is_precise = re.compile(r"\.(\d+|\{.*\})[efg%]").search
    return any(is_precise(ast.unparse(spec)) for spec in specs) or any(map(PRECISION.search, texts))


def test_numbers_that_people_read_are_formatted_in_one_room() -> None:
    users = {name for name in MODULES if room(name) not in (None, "text") and precise(tree_of(name))}
    assert users == PRECISE.keys(), "use number_text, metric_text, value_text or in_digits of orchestrator.text"
    templates = sorted((ROOT / "orchestrator").rglob("*.j2"))
    assert templates and [file.name for file in templates if PRECISION.search(file.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('f"{value:.2f}"', True),
        ('f"{value:+.1f} rsum"', True),
        ('f"{value:10,.4g}"', True),
        ('f"{value:.{digits}f}"', True),
        ('"%.4g" % value', True),
        ('"{:.1%}".format(value)', True),
        ('format(value, ".3f")', True),
        ('float(f"{value:.2g}")', False),
        ('"%{x:.4g}: %{y:.2f}"', False),
        ('f"{count:,} of {limit:g}"', False),
    ],
)
def test_a_precision_is_seen_in_every_spelling(source: str, expected: bool) -> None:
    assert precise(ast.parse(source)) is expected
