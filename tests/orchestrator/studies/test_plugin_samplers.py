"""Samplers of plug-ins: what they are told, what is made of their points, and which of them are refused."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import orchestrator as icr
from orchestrator.experiment.experiment import Experiment
from orchestrator.experiment.plugins import load_plugins
from orchestrator.experiment.values import SAMPLERS
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import TrialState
from orchestrator.searches import begin
from orchestrator.studies.sampler_contract import CHECKS, check_sampler_contract
from orchestrator.studies.samplers import plain_value
from orchestrator.studies.study import Studies
from search_spaces import PastTrial, Range, StudySoFar, Values
from tests.integration.notebook_process import Cells, keys
from tests.support.commands import CommandLine
from tests.support.experiments import make_experiment, start
from tests.support.in_process import without_ray
from tests.support.plugins import EXAMPLES, plugins_gone_afterwards
from trainables.errors import ConfigError, PluginError
from trainables.plugins.in_use import forget

HEAD = "import random\nfrom trainables.plugins import sampler\n\n"

STEADY = HEAD + "@sampler()\ndef steady(study, seed):\n    return {'temperature': 0.02 + 0.01 * study.number}\n"

BREAKS = HEAD + "@sampler()\ndef breaks(study, seed):\n    return {'temperature': 0.1 if study.number < 2 else 9.0}\n"


@pytest.fixture(autouse=True)
def _no_plugin_stays() -> Iterator[None]:
    with plugins_gone_afterwards():
        yield


def write(folder: Path, text: str, name: str = "my_sampler.py") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def make(sampler: str, path: Path, **search: Any) -> Experiment:
    search = {"sampler": sampler, "trials": 5, "space": {"nt_xent": {"temperature": [0.01, 0.4]}}, **search}
    return make_experiment(plugins=[str(path)], losses=["nt_xent"], training={"epochs": 2}, search=search)


def test_a_sampler_is_told_where_the_study_looks_and_what_became_of_each_trial(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[StudySoFar, int]] = []
    experiment = make("steady", write(tmp_path, STEADY))
    offered = SimpleNamespace(name="steady", definition=lambda study, seed: asked.append((study, seed)) or {})
    monkeypatch.setattr("orchestrator.studies.samplers.run_offer", lambda kind, name: (offered, "here"))
    start(ledger, experiment)
    studies = Studies(experiment, ledger)
    for values, state in (([1.0, 3.0], TrialState.FINISHED), ([2.0], TrialState.STOPPED_EARLY), ([], None)):
        trial = studies.next()
        for epoch, value in enumerate(values, start=1):
            verdict = state if epoch == len(values) and state else TrialState.RUNNING
            ledger.report(trial, epoch, {"val/rsum": value}, verdict)
        if state is None:
            ledger.end(trial, TrialState.DIVERGED, "train/loss is nan")
        studies.observe(trial)
    assert studies.next() is not None and studies.next() is not None
    study, _ = asked[-1]
    params = [trial.params for trial in ledger.history.trials.values()]
    assert study.trials == (
        PastTrial(params[0], "finished", (3.0,), {1: 1.0, 2: 3.0}),
        PastTrial(params[1], "stopped_early", (), {1: 2.0}),
        PastTrial(params[2], "failed"),
        PastTrial(params[3], "running"),
    )
    assert [trial.best for trial in study.trials] == [3.0, 2.0, None, None]
    assert (study.number, study.size, study.directions) == (4, 5, ("maximize",))
    assert {name: str(bound) for name, bound in study.bounds.items()} == {"temperature": "[0.01, 0.4] log"}
    assert study.seed == experiment.cells()[0].seed
    assert len({seed for _, seed in asked}) == len(asked) == 4, "the published point is not asked for"


POINTS = {
    "ours by name": (Range(0.1, 1.0), 0.1, 0.1),
    "a whole number as a float": (Range(1, 4, whole=True), 3.0, 3),
    "a number of NumPy": (Range(1, 4), np.float32(2), 2.0),
    "a whole number of NumPy": (Range(1, 4, whole=True), np.int64(2), 2),
    "above": (Range(0.1, 1.0), 1.01, None),
    "no number": (Range(0.1, 1.0), float("nan"), None),
    "a word": (Range(0.1, 1.0), "0.5", None),
    "a truth value": (Range(0, 1, whole=True), True, None),
    "between whole numbers": (Range(1, 4, whole=True), 2.5, None),
    "a listed number": (Values((32, 64)), 64.0, 64),
    "a number that is not listed": (Values((32, 64)), 48, None),
    "a listed list": (Values(((0.1, 0.2), (0.3,))), [0.1, 0.2], (0.1, 0.2)),
    "true is not 1": (Values((1, 2)), True, None),
    "listed false": (Values((False, True)), False, False),
}


@pytest.mark.parametrize(("bound", "value", "plain"), POINTS.values(), ids=POINTS)
def test_a_value_becomes_plain_or_is_refused(bound: Range | Values, value: Any, plain: Any) -> None:
    if plain is None:
        with pytest.raises(ValueError, match="is not in"):
            plain_value(bound, value)
    else:
        found = plain_value(bound, value)
        assert found == plain and type(found) is type(plain)


def test_the_example_passes_its_checks_and_searches_better_than_chance(tmp_path: Path) -> None:
    load_plugins([str(EXAMPLES / "own-sampler" / "my_sampler.py")])
    assert [(one.check, one.status) for one in check_sampler_contract("nearby")] == [(name, "ok") for name in CHECKS]

    def reached(sampler: str) -> float:
        experiment = make(sampler, EXAMPLES / "own-sampler" / "my_sampler.py", trials=24)
        with_ledger = Ledger(tmp_path / f"{sampler}.jsonl")
        start(with_ledger, experiment)
        studies, values = Studies(experiment, with_ledger), []
        while trial := studies.next():
            values.append(-abs(trial.params["temperature"] - 0.05))
            with_ledger.report(trial, 1, {"val/rsum": 100 + values[-1]}, TrialState.FINISHED)
            studies.observe(trial)
        with_ledger.close()
        return sum(values[12:])

    assert reached("nearby") > reached("random")


MISTAKES = {
    "out of bounds": ("return {'temperature': 3.0}", "points", "suggests temperature = 3.0, which is not in [0.01, "),
    "unknown": ("return {'temprature': 0.1}", "points", "suggests 'temprature', which is not searched; searched are: "),
    "no point": ("return 3", "points", "must return a dict of parameters and values, got 3"),
    "raises": ("return {'temperature': 1 / len(study.trials[8:])}", "points", "my_sampler.py:6: ZeroDivisionError"),
    "no seed": ("return {'temperature': random.uniform(0.01, 0.4)}", "seed", "first in trial 1, temperature = "),
    "keeps": (
        "steady.calls = getattr(steady, 'calls', 0) + 1\n    return {'temperature': 1 / (3 + steady.calls % 50)}",
        "resume",
        "a search that was interrupted differs from an undisturbed one, first in trial 1, temperature = ",
    ),
    "no chance": (
        "return {'temperature': 0.1 + study.number / 100, 'training.learning_rate': 1e-4, "
        "'training.warmup_epochs': study.number % 3, 'training.batch_size': 32}",
        "other seed",
        "a design without chance may be meant",
    ),
    "conditions": ("return dict(temperature=study.trials[-1].params['temperature'])", "conditions", "KeyError: "),
}


@pytest.mark.parametrize(("line", "check", "words"), MISTAKES.values(), ids=MISTAKES)
def test_each_mistake_fails_the_check_that_is_about_it(tmp_path: Path, line: str, check: str, words: str) -> None:
    head = HEAD + "@sampler(conditional=True)\ndef steady(study, seed):\n    "
    load_plugins([str(write(tmp_path, head + line + "\n"))])
    found = {one.check: one for one in check_sampler_contract("steady") if one.status != "ok"}
    assert words in found[check].message
    assert found[check].status == ("warn" if check == "other seed" else "fail")


REFUSED = {
    "parameters": ("@sampler()\ndef odd(a):\n    pass\n", "odd must be called with study, seed, got a"),
    "class": ("@sampler()\nclass Odd:\n    pass\n", "odd must be called with study, seed, got none"),
    "needs": (
        "@sampler()\nclass Odd:\n    def __init__(self, size): ...\n    def __call__(self, study, seed): ...\n",
        "odd is made for each suggestion; give size a default",
    ),
    "ours": ("@sampler()\ndef tpe(study, seed):\n    pass\n", "the name 'tpe' is a sampler of ours"),
    "optuna without seed": (
        "from optuna.samplers import BaseSampler\n@sampler()\nclass Odd(BaseSampler):\n    def __init__(self): ...\n",
        "odd must take seed",
    ),
}


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED)
def test_what_can_be_no_sampler_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_plugins([str(write(tmp_path, HEAD + text))])
    assert message in str(raised.value)


OPTUNAS = """
from optuna.samplers import RandomSampler

@sampler(conditional=True, several_objectives=True)
class Drawn(RandomSampler):
    '''Draws that Optuna makes.'''
"""


def test_a_class_of_optuna_is_made_with_a_seed_for_each_suggestion(tmp_path: Path) -> None:
    load_plugins([str(write(tmp_path, HEAD + OPTUNAS))])
    assert SAMPLERS["drawn"].meaning == "Draws that Optuna makes."
    assert [(one.check, one.status) for one in check_sampler_contract("drawn")] == [(name, "ok") for name in CHECKS]


CANNOT: Mapping[str, tuple[dict[str, Any], str]] = {
    "a choice": (
        {"losses": ["nt_xent", "triplet_sh"], "search.loss": "choose"},
        "search.sampler: steady needs a space without conditions; take tpe, random or grid",
    ),
    "goals": ({"search.objectives": ["val/i2t_r1"]}, "steady has one objective; take tpe, gp, random, qmc or grid"),
    "typing error": ({"search.sampler": "steadi"}, "search.sampler: unknown name 'steadi'; did you mean 'steady'?"),
}


@pytest.mark.parametrize(("changes", "message"), CANNOT.values(), ids=CANNOT)
def test_what_a_sampler_cannot_search_is_refused_first(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    plugin = str(write(tmp_path, STEADY))
    values = {"name": "s", "datasets": ["pets"], "losses": ["nt_xent"], "search": {"sampler": "steady"}}
    overrides = [f"{key}={json.dumps(value)}" for key, value in changes.items()]
    with pytest.raises(ConfigError) as raised:
        icr.make_experiment(values, overrides, [plugin])
    assert message in str(raised.value)


def search(folder: Path, monkeypatch: pytest.MonkeyPatch, sampler: str, **changes: Any) -> icr.LoadedExperiment:
    monkeypatch.setattr(begin, "make_workload", lambda *given: Cells())
    wanted = {**keys("own"), "plugins": [str(folder / "my_sampler.py")], "search": {"sampler": sampler, "trials": 5}}
    return icr.search({**wanted, **changes}, output=folder / "runs", quiet=True)


def test_a_search_takes_its_points_and_refuses_another_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, STEADY)
    with without_ray():
        found = search(tmp_path, monkeypatch, "steady")
        assert list(found.trials["param.temperature"][1:]) == pytest.approx([0.03, 0.04, 0.05, 0.06])
        (plugin,) = found.experiment.plugins
        assert plugin.files == {"my_sampler.py": STEADY} and plugin.digest
        path.write_text(STEADY.replace("0.02", "0.03"))
        with pytest.raises(ConfigError, match=r"other plug-ins than now: my_sampler.py \(digest"):
            search(tmp_path, monkeypatch, "steady")


def test_a_sampler_that_fails_ends_the_search_after_the_trials_that_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, BREAKS)
    with without_ray(places=2), pytest.raises(PluginError) as raised:
        search(tmp_path, monkeypatch, "breaks")
    told = str(raised.value)
    assert told.startswith("my_sampler.py:5: the sampler breaks: suggests temperature = 9.0, which is not in ")
    assert "`orchestrator summarise own`" in told and "search.warm_start_from" in told and "\n" not in told
    assert list(icr.load("own", output=tmp_path / "runs").trials["state"]) == ["finished", "finished"]


def test_a_search_is_summarised_without_plugin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: CommandLine
) -> None:
    write(tmp_path, STEADY)
    with without_ray():
        search(tmp_path, monkeypatch, "steady")
    forget("my_sampler.py")
    for command in ("status", "summarise"):
        assert "pets" in cli.shows(command, "own", "--output", tmp_path / "runs")


@pytest.mark.proof
def test_it_is_listed_and_checked_on_the_command_line(here: Path, cli: CommandLine) -> None:
    write(here, STEADY)
    for words, told in (
        (["plugins", "--plugin", "my_sampler.py"], "samplers"),
        (["list", "samplers", "--plugin", "my_sampler.py"], "steady"),
        (["check-plugin", "my_sampler.py"], "my_sampler.py:5 steady (samplers)"),
    ):
        assert told in cli.shows(*words)
