"""The names of the package, as docs/python.md shows them: light to import, and the same numbers as the summary's."""

import ast
import inspect
import json
import re
import subprocess
import sys
from dataclasses import asdict, replace
from html import unescape
from pathlib import Path

import pytest

import orchestrator as icr
from orchestrator.journal.directory import read_history
from orchestrator.report.plotly_figures import light_colours
from orchestrator.results.answers import summarise
from orchestrator.searches.loaded import LoadedExperiment
from orchestrator.views.html import render_html
from orchestrator.winners.winners import CARD, CHAMPIONS, MODEL, Champion
from tests.support.confirmed_experiments import write
from tests.support.experiments import begun
from trainables.errors import ConfigError

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
REPORT = Path(icr.__file__).parent / "report"
HEAVY = ("torch", "ray", "optuna", "mlflow", "pandas", "pydantic", "numpy")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return write(tmp_path / "runs", "tiny", confirmed=True)


def test_a_notebook_shows_the_answers_of_an_experiment(directory: Path) -> None:
    """Whole and in a frame, so that no style and no script of the page reaches the notebook."""
    found = icr.load(directory)
    shown = found._repr_html_()
    (page,) = map(unescape, re.findall(r'^<iframe srcdoc="([^"]*)"[^<>]*></iframe>$', shown))
    assert page == render_html(found.answers)


@pytest.mark.proof
def test_nothing_heavy_is_imported_with_the_package() -> None:
    program = f"import sys, orchestrator; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_every_name_is_there_and_the_stub_says_the_same() -> None:
    stub = ast.parse((Path(icr.__file__).with_suffix(".pyi")).read_text())
    told = {alias.asname: node.module for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert sorted(told, key=str) == sorted(icr.__all__)
    for name in icr.__all__:
        assert callable(getattr(icr, name)) and getattr(icr, name).__module__ == told[name]
    with pytest.raises(AttributeError, match="has no attribute 'serach'"):
        icr.serach  # noqa: B018
    with pytest.raises(ConfigError, match="nope: no file, and no experiment of that name ships"):
        icr.search("nope")
    assert inspect.isfunction(icr.search), "also after its modules are imported"


def test_the_page_names_what_is_there_and_its_code_is_python() -> None:
    page = PAGE.read_text()
    for name in re.findall(r"icr\.(\w+)", page):
        assert name in icr.__all__
    for name in re.findall(r"results\.(\w+)", page):
        assert hasattr(LoadedExperiment, name)
    for block in re.findall(r"```python\n(.*?)```", page, re.S):
        ast.parse(block)


def test_frames_hold_what_the_summary_holds(directory: Path) -> None:
    found = icr.load("tiny", output=directory.parent)
    summary = summarise(found.history)
    assert icr.load(directory).directory == found.directory
    assert list(found.trials.index) == [row["trial"] for row in summary["trials"]]
    for row in summary["trials"]:
        mine = found.trials.loc[row["trial"]]
        assert (mine["state"], mine["loss"], mine["study"]) == (row["state"], row["loss"], row["study"])
        assert mine["val/rsum"] == row["best"]["val/rsum"]
        for name, value in row["parameters"].items():
            assert mine[f"param.{name}"] == value
    assert found.epochs.loc[("pets-vsepp-nt_xent-0000", 1), "val/rsum"] == 30.0
    assert len(found.epochs) == sum(row["epochs"] for row in summary["trials"])
    assert [answer.to_dict() for answer in found.answers] == summary["answers"] != []


def test_verdicts_candidates_and_winners_are_those_of_the_summary(directory: Path) -> None:
    found = icr.load(directory)
    verdict = found.summary["datasets"]["pets"]
    assert list(found.candidates.index) == [("pets", one["label"]) for one in verdict["standings"]]
    assert list(found.candidates["mean"]) == [one["result"]["mean"] for one in verdict["standings"]]
    (pair,) = verdict["pairs"]
    row = found.verdicts.loc[("pets", pair["second"])]
    for key in ("difference", "p", "p_unadjusted", "verdict", "varies"):
        assert row[key] == pair[key]
    assert (row["low"], row["high"]) == (pair["interval"]["low"], pair["interval"]["high"])
    assert found.winners.loc["pets", "trial"] == found.best.trial == "pets-vsepp-triplet_sh-0000"
    assert found.best.confirmed and found.best.test == {"rsum": 21.0} and found.best.parameters == {"margin": 0.2}
    with pytest.raises(ConfigError, match="pets: no model is packed yet"):
        found.best.retriever()
    with pytest.raises(ConfigError, match="no winner on dogs; there are: pets"):
        found.best_on("dogs")


def test_a_model_that_was_packed_before_is_not_that_of_a_new_winner(directory: Path) -> None:
    champion = Champion("pets", "tiny", "pets-vsepp-nt_xent-0000", False, "val/rsum", 30.0, "d1")
    card = directory / CHAMPIONS / "pets" / CARD
    card.parent.mkdir(parents=True)
    card.write_text(json.dumps(asdict(champion)))
    assert icr.load(directory).best.folder is None
    model = summarise(read_history(directory))["winners"]["pets"]["model_of"]
    card.write_text(json.dumps(asdict(replace(champion, trial=model))))
    assert icr.load(directory).best.folder == card.parent / MODEL


def test_the_drawings_of_the_report_are_figures_of_plotly_in_its_colours(directory: Path) -> None:
    figures = icr.load(directory).figures
    assert {name.partition(": ")[0] for name in figures} >= {"trials", "curves", "weights"}
    ids = {text for trace in figures["trials"].data for text in trace.text or ()}
    assert "pets-vsepp-nt_xent-0000" in ids
    for name, figure in figures.items():
        assert figure.layout.title.text and "--c" not in figure.to_json(), name
    assert figures["trials"].data[0].marker.color == light_colours()["--c1"]
    assert all(re.fullmatch(r"#[0-9a-f]{6}|rgba\([\d.,]+\)", colour) for colour in light_colours().values())
    named = set(re.findall(r"[\"'](--[a-z]+)\d?", "".join(file.read_text() for file in REPORT.glob("*.py"))))
    assert named <= {name.rstrip("0123456789") for name in light_colours()}


def test_an_experiment_without_a_trial_has_empty_frames(tmp_path: Path) -> None:
    with begun(tmp_path):
        pass
    found = icr.load(tmp_path)
    for name in ("trials", "epochs", "cocos", "candidates", "verdicts", "winners"):
        assert getattr(found, name).empty
    assert isinstance(found.figures, dict)
    with pytest.raises(ConfigError, match="no winner on any dataset; there are: none: no trial has finished"):
        _ = found.best


def test_keys_make_an_experiment_as_a_file_does(tmp_path: Path) -> None:
    keys = {"name": "tiny", "datasets": ["pets"], "losses": ["nt_xent"], "search": {"trials": 2}}
    made = icr.make_experiment(keys, ["search.seed=3"])
    assert (made.search.trials, made.search.seed) == (2, 3)
    assert icr.make_experiment(made) == made
    with pytest.raises(ConfigError, match=r"losses.0: unknown name 'ntxent'; did you mean 'nt_xent'\?"):
        icr.make_experiment({**keys, "losses": ["ntxent"]})
