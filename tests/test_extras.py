"""Every import of the product is one of the core's packages or of an extra that a message can name."""

import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from tests.support.installed import asked
from tests.test_architecture import MODULES, PACKAGES, graph
from trainables import extras
from trainables.extras import EXTRAS, MissingExtraError, is_installed, missing_modules, require

COME_ALONG = {
    "mcp_types": "mcp",
    "botocore": "boto3",
    "click": "typer",
    "markupsafe": "jinja2",
    "pydantic_core": "pydantic",
    "sqlalchemy": "mlflow",
    "h11": "uvicorn",
    "huggingface_hub": "transformers",
}
"""Module -> the module of ours that cannot be installed without it."""


def test_every_import_is_of_the_core_or_of_an_extra() -> None:
    names = {canonicalize_name(requirement.name) for requirement in asked()}
    owners_of = packages_distributions().items()
    core = {module for module, owners in owners_of if names & set(map(canonicalize_name, owners))}
    known = {*core, *(module for modules in EXTRAS.values() for module in modules), *PACKAGES, *sys.stdlib_module_names}
    tops = {target.partition(".")[0] for targets in graph().values() for target in targets}
    assert {COME_ALONG.get(top, top) for top in tops} - known == set()


def test_one_line_names_the_extra_and_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "_is_installed", lambda module: module not in ("ray", "optuna", "nltk"))
    with pytest.raises(MissingExtraError) as error:
        require("search", "a search")
    assert str(error.value) == (
        "a search needs ray and optuna, which are not installed: pip install 'icr-orchestrator[search]'"
    )
    with pytest.raises(MissingExtraError, match=r"a caption needs nltk, which is not installed: pip install"):
        require("captions", "a caption")
    require("search", "a table", "pyarrow")
    assert error.value.exit_code == 2
    assert [extra for extra in EXTRAS if not is_installed(extra)] == ["search", "captions"]


def test_a_folder_beside_the_script_is_no_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "icr_made_up").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert missing_modules("icr_made_up", "json", "icr_not_there") == ["icr_made_up", "icr_not_there"]


@pytest.mark.parametrize("room", ["results", "views", "gate", "judging", "text"])
def test_verdicts_on_tables_need_no_torch_and_no_engine(room: str) -> None:
    """What a room imports when it is loaded, and whatever that imports."""
    from tests.size import loaded_imports

    reached, todo = set(), {name for name in MODULES if name.startswith(f"orchestrator.{room}.")}
    assert todo
    while todo:
        reached.add(name := todo.pop())
        todo |= loaded_imports(name) - reached if name in MODULES else set()
    assert {name.partition(".")[0] for name in reached} & {"torch", "ray", "optuna", "mlflow", "pandas"} == set()
