"""A search on GPUs that there are not: memory is measured once a study, and every trial gets its share."""

import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from ray import cloudpickle

from orchestrator.experiment.experiment import Experiment
from orchestrator.journal.history import History
from orchestrator.journal.journal import read_journal
from orchestrator.journal.records import EpochEnded, LimitNoted, MemoryMeasured, Record, TrialStarted
from orchestrator.machines import own_machine
from orchestrator.searches.display import PlainDisplay, Progress
from orchestrator.searches.search import run_search
from tests.support import fake_workload
from tests.support.experiments import make_experiment
from tests.support.fake_workload import FakeWorkload
from tests.support.in_process import without_ray
from trainables.checkpoint import EpochReport
from trainables.config import TrialConfig
from trainables.errors import ConfigError


def sharing(trials: int) -> Experiment:
    """Return a search whose trials share a GPU as their memory lets them."""
    search = {"sampler": "random", "trials": trials}
    return make_experiment(search=search, resources={"cpus": 0.5, "gpus": "auto"}, training={"epochs": 2})


def test_memory_is_measured_once_and_shared(output: Path) -> None:
    for trials in (1, 2):
        with without_ray(gpus=1, tracked=True):
            run_search(sharing(trials), FakeWorkload(), output, quiet=True)
    assert_measured_once(read_journal(output / "tiny" / "journal.jsonl"))


def assert_measured_once(records: list[Record]) -> None:
    """The memory of each study was measured once, and its trials got their shares."""
    measured = [(record.study, record.peak) for record in records if isinstance(record, MemoryMeasured)]
    assert measured == [("pets-vsepp-nt_xent", 4 * 2**30), ("pets-vsepp-triplet_sh", 4 * 2**30)]
    assert {record.gpus for record in records if isinstance(record, TrialStarted)} == {0.3333}


def test_why_no_more_trials_share_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    PlainDisplay(Progress(History(), 2, 1)).listen(LimitNoted(message="2 CPUs let 2 run"))
    assert capsys.readouterr().out == "2 CPUs let 2 run\n"


def test_a_trial_that_is_larger_than_every_machine_is_refused(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_machine, "usable_cpus", lambda: 128)
    experiment = make_experiment(resources={"cpus": 65, "gpus": 0})
    with without_ray(), pytest.raises(ConfigError, match="asks for 65 CPUs of one machine, but the largest, here, has"):
        run_search(experiment, FakeWorkload(), output, quiet=True)


class Looking(FakeWorkload):
    """Reports whether the process that trains is kept from every GPU, whatever its machine has."""

    def train(self, config: TrialConfig, resume: Path | None) -> Generator[EpochReport, None, None]:
        for told in super().train(config, resume):
            hidden = float(os.environ.get("CUDA_VISIBLE_DEVICES") == "")
            yield EpochReport(told.epoch, {**told.metrics, "hidden": hidden}, told.is_best, told.save)


@pytest.mark.proof
@pytest.mark.parametrize("fuse", [1, 2])
def test_trials_that_get_no_gpu_see_none(ray_session: None, output: Path, fuse: int) -> None:
    for module in (sys.modules[__name__], fake_workload):
        cloudpickle.register_pickle_by_value(module)
    resources = {"cpus": 1, "gpus": 0, "fuse": fuse}
    search = {"sampler": "random", "trials": 1}
    run_search(make_experiment(resources=resources, search=search), Looking(), output, quiet=True)
    records = read_journal(output / "tiny" / "journal.jsonl")
    assert {record.metrics["hidden"] for record in records if isinstance(record, EpochEnded)} == {1.0}
