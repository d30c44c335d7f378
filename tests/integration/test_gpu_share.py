"""A search on GPUs that Ray only believes in: memory is measured once a study, and every trial gets its share."""

import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
import yaml
from ray import cloudpickle

from orchestrator.experiment.experiment import Experiment
from orchestrator.journal.journal import read_journal
from orchestrator.journal.lock import make_scratch
from orchestrator.journal.records import EpochEnded, LimitNoted, MemoryMeasured, Record, TrialStarted, has_ended
from orchestrator.searches.search import run_search
from tests.faults.searches import grid
from tests.support import fake_workload
from tests.support.experiments import make_experiment
from tests.support.fake_workload import FakeWorkload
from tests.support.in_process import without_ray
from trainables.checkpoint import EpochReport
from trainables.config import TrialConfig
from trainables.errors import ConfigError

ROOT = Path(__file__).parent.parent.parent
START = """
import sys, threading, time
from pathlib import Path
from orchestrator.tuner import runtime
import ray
ray.init(address="local", num_cpus=CPUS, num_gpus=1, include_dashboard=False, configure_logging=False,
         log_to_driver=False, object_store_memory=runtime.OBJECT_STORE_BYTES, _temp_dir=sys.argv.pop())
"""
SEARCH = """
from tests.integration.search_process import main
main()
"""
SHORT_OF_MEMORY = """
output, experiment = sys.argv[1:]
from orchestrator.experiment.experiment import load_experiment
from orchestrator.searches.search import run_search
from tests.faults import troubled_workload
from tests.support import fake_workload
for module in (fake_workload, troubled_workload):
    ray.cloudpickle.register_pickle_by_value(module)
# The second waits for the first, so that both share the GPU when its memory runs out.
troubles = {0.3: troubled_workload.Trouble("memory", times=1), 0.05: troubled_workload.Trouble("wait")}
workload = troubled_workload.TroubledWorkload(seconds=0.5, log=Path(experiment).with_name("log"), troubles=troubles)

def let_go():
    while not any(line["kind"] == "memory" for line in troubled_workload.read_log(workload.log)):
        time.sleep(0.05)
    workload.go.touch()

threading.Thread(target=let_go, daemon=True).start()
run_search(load_experiment(experiment), workload, Path(output))
"""


def run_on_ray(cpus: int, search: str, output: Path, experiment: Experiment, *arguments: str) -> str:
    """Run a program with a Ray of some CPUs and a GPU; return what it prints."""
    file = output.parent / "tiny.yaml"
    file.write_text(yaml.safe_dump(experiment.to_dict()))
    code = START.replace("CPUS", str(cpus)) + search
    with make_scratch() as scratch:
        program = [sys.executable, "-c", code, str(output), str(file), *arguments, str(scratch)]
        done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.proof
def test_fewer_share_a_gpu_after_memory_ran_out(output: Path) -> None:
    experiment = grid([0.3, 0.05, 0.1, 0.2], resources={"cpus": 1, "gpus": 0.25}, training={"epochs": 3})
    run_on_ray(2, SHORT_OF_MEMORY, output, experiment)
    records = read_journal(output / "tiny" / "journal.jsonl")
    started = [(record.trial[-1], record.gpus) for record in records if isinstance(record, TrialStarted)]
    assert [gpus for trial, gpus in started if trial == "0"] == [0.25, 0.5]
    assert started[-1] == ("3", 0.5)
    assert [record.state for record in records if has_ended(record)] == ["finished"] * 4


def sharing(trials: int) -> Experiment:
    """Return a search whose trials share a GPU as their memory lets them."""
    search = {"sampler": "random", "trials": trials}
    return make_experiment(search=search, resources={"cpus": 0.5, "gpus": "auto"}, training={"epochs": 2})


def test_memory_is_measured_once_and_shared(output: Path) -> None:
    for trials in (1, 2):
        with without_ray(gpus=1, tracked=True):
            run_search(sharing(trials), FakeWorkload(), output, quiet=True)
    assert_measured_once(output)


@pytest.mark.proof
def test_memory_is_measured_once_on_ray_and_shared_as_its_cpus_allow(output: Path) -> None:
    for trials in (1, 2):
        printed = run_on_ray(1, SEARCH, output, sharing(trials), "0")
    records = assert_measured_once(output)
    notes = {record.message for record in records if isinstance(record, LimitNoted)}
    (note,) = notes
    assert note.startswith("the GPUs would take 3 trials at a time, but 1 CPUs let 2 run at resources.cpus=0.5")
    assert note in printed


def assert_measured_once(output: Path) -> list[Record]:
    """The memory of each study was measured once, and its trials got their shares; return the records."""
    records = read_journal(output / "tiny" / "journal.jsonl")
    measured = [(record.study, record.peak) for record in records if isinstance(record, MemoryMeasured)]
    assert measured == [("pets-vsepp-nt_xent", 4 * 2**30), ("pets-vsepp-triplet_sh", 4 * 2**30)]
    assert {record.gpus for record in records if isinstance(record, TrialStarted)} == {0.3333}
    return records


def test_a_trial_that_is_larger_than_every_machine_is_refused(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 128)
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
