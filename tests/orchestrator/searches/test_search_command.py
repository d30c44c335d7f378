"""``orchestrator search`` and its companions as a person types them, without starting Ray."""

import json
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.commands.mlflow_store import choose_port
from orchestrator.experiment.sections import Resources
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.lock import hold
from orchestrator.machines.cluster import Cluster
from orchestrator.searches.begin import make_workload
from orchestrator.searches.dry_run import sample_points
from orchestrator.searches.preparation import open_checkpoints
from orchestrator.studies.study import Studies
from orchestrator.workload.training import TrainablesWorkload
from tests.support.bucket import CREDENTIALS
from tests.support.commands import CommandLine
from tests.support.experiments import add_trial, begun, make_experiment
from tests.support.fake_workload import report
from tests.support.precomputed_folder import write_precomputed
from trainables.checkpoint import find_damage, save_epoch
from trainables.config import TrialConfig
from trainables.cost import SIZES, Pace
from trainables.errors import ConfigError
from trainables.parameter_values import is_feasible

Command = Callable[..., str]


@pytest.fixture
def root(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    write_precomputed(here / "data" / "pets")
    return here


@pytest.fixture
def command(root: Path, cli: CommandLine) -> Command:

    def run(*arguments: object, code: int = 0) -> str:
        said = cli.refuses(*arguments, code=code) if code else cli.shows(*arguments)
        assert not code or (said.startswith("error: ") and said.count("\n") == 1)
        return said

    return run


def sets(*settings: str) -> list[str]:
    return [part for setting in settings for part in ("--set", setting)]


SMOKE = ["search", "scenes-smoke", *sets("losses=[nt_xent]", "datasets=[pets]")]
ON_CPU = [*SMOKE, *sets("resources.gpus=0")]

UNANSWERED = "s3://b?endpoint_override=http://127.0.0.1:1"
FILE = "data/pets/train_caps.txt"
IMAGES = "training={batches: images, batch_size: 37}"
REFUSED = {
    "unknown dataset": (sets("datasets=[petz]"), "petz"),
    "large batch": (sets("training.batch_size=100000"), "100000 is more than the 180 captions of pets's train"),
    "searched": (
        sets("search.training={batch_size: {values: [16, 100000]}}"),
        "error: search.training.batch_size: 100000 is more than the 180 captions",
    ),
    "of a study": (
        sets("overrides=[{losses: [nt_xent], training: {batch_size: 100000}}]"),
        "error: overrides.0.training.batch_size: 100000 is more than the 180 captions",
    ),
    "large batch of images": (sets(IMAGES), "training.batch_size: 37 is more than the 36 images of pets"),
    "CPUs": (sets("resources.cpus=4096"), "resources.cpus: a trial asks for 4096, but there are"),
    "population-based training": (sets("scheduler={name: pbt, quantile: 0.25}"), "is not offered any more; Ray Tune's"),
    "no cluster": (["--address", "127.0.0.1:1"], "127.0.0.1:1: no Ray cluster answers: Connection refused; start its"),
    "Ray's client": (["--address", "ray://127.0.0.1:10001"], "Ray's client would move the journal to the head"),
    "another storage": (["--storage", "gs://bucket"], "gs://bucket: must be s3://bucket/prefix"),
    "no storage": (["--storage", UNANSWERED], "http://127.0.0.1:1 does not answer"),
    "a file as storage": (["--storage", FILE], "cannot be written: Not a directory; choose another"),
    "a file as output": (["--output", FILE], f"--output {FILE}: cannot be written"),
    "dry run on a cluster": (["--dry-run", "--address", "127.0.0.1:1"], "not a cluster: leave out --address"),
    "dry run from nothing": (["--dry-run", *sets("search.warm_start_from=[nowhere]")], "nowhere"),
    "no data": (["--data-root", UNANSWERED], f"error: {UNANSWERED}&region=us-east-1: "),
}


@pytest.mark.parametrize(("options", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_searched_is_refused_before_anything_is_written(
    root: Path, command: Command, monkeypatch: pytest.MonkeyPatch, options: list[str], message: str
) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    assert message in command(*ON_CPU, *options, code=2)
    # Whether a place can be written shows when something is written there.
    assert not (root / "runs").exists() or options[0] == "--storage"
    assert not (root / "runs" / "scenes-smoke" / "summary.json").exists()


@pytest.mark.parametrize(("gpus", "device"), [(0, "cpu"), (0.25, "auto"), ("auto", "auto")])
def test_trials_that_get_no_gpu_are_trained_and_measured_on_the_cpu(gpus: float | str, device: str) -> None:
    assert make_workload(Resources.model_validate({"gpus": gpus}), "data").device == device


def test_a_dry_run_shows_spaces_points_and_a_forecast_and_writes_nothing(root: Path, command: Command) -> None:
    settings = sets("losses=[nt_xent, polynomial_relative]", "search.trials=12", "confirm={top: 2, seeds: 3}")
    found = json.loads(command(*ON_CPU, *settings, "--dry-run", "--json"))
    first, second = found["studies"]
    assert first["space"] == {"temperature": "0.005 to 1, log-uniform"}
    assert [len(study["points"]) for study in found["studies"]] == [10, 10]
    assert first["points"][0]["params"] == first["points"][0]["loss_parameters"] == {"temperature": 0.1}
    assert all(is_feasible(point["loss_parameters"]["coefficients"], "relative") for point in second["points"])
    assert (found["forecast"]["trials"], found["forecast"]["confirmations"]) == (24, (2 + 1) * 3 + 2 * 3)
    assert 0 < found["forecast"]["hours"] < found["forecast"]["hours_at_most"]
    shown = command(*ON_CPU, *settings, "--dry-run")
    assert "24 trials and up to 15 trainings that confirm" in shown and "nothing was searched" in shown
    cells = {cells[0]: cells for line in shown.splitlines() if len(cells := line.strip("│ ").split(" │ ")) == 7}
    rows = {name.strip(): [cell.strip() for cell in row] for name, (_, *row) in cells.items()}
    points = [str(point["params"]["temperature"])[:5] for point in first["points"][:5]]
    assert rows["temperature"][0] == "0.005 to 1, log-uniform"
    assert [value[:5] for value in rows["temperature"][1:]] == points, "the first five, in the order of the search"
    assert rows["shape2"][1:3] != ["", ""] and rows["coefficients"][0] == "", "what follows from a suggestion"
    assert all(value.startswith("[") for value in rows["coefficients"][1:])
    assert sorted(path.name for path in root.iterdir()) == ["cache", "data"]


def test_a_dry_run_says_that_cpus_are_the_limit(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.searches.dry_run._machine", lambda: {"CPU": 2.0, "GPU": 4.0})
    shown = command(*SMOKE, *sets("resources={gpus: 1, cpus: 1}", "search.trials=6"), "--dry-run")
    shown = " ".join(shown.split())
    assert "the GPUs would take 4 trials at a time, but 2 CPUs let 2 run at resources.cpus=1; lower it" in shown


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...] | None]:
    """Lets an epoch take an hour on a machine of two CPUs, and n stacked the root of n; which n are timed."""
    asked: list[tuple[int, ...] | None] = []

    def take_rates(self: TrainablesWorkload, config: TrialConfig, sizes: tuple[int, ...] = SIZES) -> dict[int, float]:
        asked.append(None if sizes is SIZES else sizes)
        return {size: size**0.5 for size in (1, *sizes)}

    monkeypatch.setattr("orchestrator.searches.dry_run._machine", lambda: {"CPU": 2.0, "GPU": 0.0})
    monkeypatch.setattr(TrainablesWorkload, "pace", lambda self, config: Pace("cpu", 1, 3600.0, 0.0))
    monkeypatch.setattr(TrainablesWorkload, "rates", take_rates)
    return asked


EIGHT = [*SMOKE, *sets("search.trials=8", "training.epochs=2", "scheduler={name: none}")]
"""Eight trials of two epochs, which are 16 hours where an epoch takes one."""


@pytest.mark.parametrize(
    ("resources", "sizes", "hours"),
    [
        ("{gpus: 0, fuse: 16, cpus: 2, max_concurrent: 4}", [(4,)], 16 * 2 / 4),
        ("{gpus: 0, fuse: 16, cpus: 2}", [(8,)], 16 * 8**0.5 / 8),
        ("{gpus: 0, fuse: 16, max_concurrent: 2}", [], 16 / 2),
        ("{gpus: 0, fuse: 4, cpus: 2}", [(4,)], 16 * 2 / 4),
        ("{gpus: 0, fuse: auto, cpus: 2}", [None, (8,)], 16 * 8**0.5 / 8),
        ("{gpus: 0, fuse: auto, cpus: 2, max_concurrent: 4}", [None], 16 * 2 / 4),
    ],
    ids=["fewer at a time", "fewer trials", "one a stack", "full", "auto, fewer trials", "auto, fewer at a time"],
)
def test_a_dry_run_times_stacks_as_large_as_those_that_will_train(
    command: Command, timed: list[object], resources: str, sizes: list[object], hours: float
) -> None:
    settings = sets("confirm=null", f"resources={resources}")
    found = json.loads(command(*EIGHT, *settings, "--dry-run", "--json"))
    assert timed == sizes
    assert found["forecast"]["hours"] == pytest.approx(hours)


@pytest.mark.parametrize(("hours", "ends"), [(7, True), (9, False)])
@pytest.mark.usefixtures("timed")
def test_a_budget_ends_the_search_and_no_confirmation(command: Command, hours: int, ends: bool) -> None:
    settings = sets("confirm={top: 2, seeds: 3}", f"budget.hours={hours}", "resources={gpus: 0, cpus: 1}")
    shown = command(*EIGHT, *settings, "--dry-run")
    assert "about 17.0 h, at the pace of one" in shown, "one number where no trial is stopped early"
    assert (f"budget.hours={hours} ends it before" in shown) == ends


@pytest.mark.usefixtures("timed")
def test_early_stopping_has_a_usual_and_a_longest_time(command: Command) -> None:
    stopping = sets("search.trials=8", "training.epochs=9", "scheduler={name: asha, grace_epochs: 1}", "confirm=null")
    (line,) = [line for line in command(*SMOKE, *stopping, "--dry-run").splitlines() if line.startswith("about ")]
    assert " h, at most " in line


@pytest.mark.usefixtures("timed")
def test_a_dry_run_is_refused_for_gpus_that_are_not_there(command: Command) -> None:
    message = command(*SMOKE, *sets("resources.gpus=1"), "--dry-run", code=2)
    assert "resources.gpus: a trial asks for 1 CPUs and 1 GPUs of one machine, but the largest, " in message


def test_the_points_of_a_dry_run_are_those_of_the_search(ledger: Ledger) -> None:
    experiment = make_experiment(search={"sampler": "random", "trials": 3})
    studies = Studies(experiment, ledger)
    trials = [studies.next() for _ in range(6)]
    for cell in experiment.cells():
        searched = [trial.params for trial in trials if trial and trial.study == cell.name]
        assert searched == [point["params"] for point in sample_points(experiment, cell, 10)]


def test_checkpoints_elsewhere_than_before_are_refused(tmp_path: Path, ledger: Ledger) -> None:
    add_trial(ledger, [1.0])
    with pytest.raises(ConfigError, match="was started without --storage, where its checkpoints are"):
        open_checkpoints(Cluster(storage=str(tmp_path / "elsewhere")), ledger.history, tmp_path)


@pytest.mark.usefixtures("root")
def test_a_cluster_in_the_environment_is_not_joined_but_said(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    said, refusal = cli.refuses(*ON_CPU, *sets("resources.cpus=4096")).splitlines()
    assert said.startswith("RAY_ADDRESS=127.0.0.1:1 is not used: a Ray of our own starts on this machine")
    assert refusal.startswith("error: resources.cpus")


@pytest.fixture
def searched(root: Path) -> Path:
    """The folder of an experiment that was searched, which only its user may enter."""
    folder = root / "runs" / "scenes-smoke"
    folder.mkdir(parents=True)
    folder.chmod(0o700)
    return folder


def test_a_second_start_is_refused_with_exit_code_3(searched: Path, command: Command) -> None:
    with hold(searched):
        assert "already running: process" in command(*ON_CPU, code=3)
    assert not (searched / "journal.jsonl").exists()


@pytest.mark.parametrize(
    ("content", "message"), [("{}\n{}\n", "journal.jsonl: line 1: damaged"), ("", "has no journal of it")]
)
def test_a_damaged_journal_is_named_and_all_stays(searched: Path, command: Command, content: str, message: str) -> None:
    kept = save_epoch(searched / "trials" / "pets-vsepp-nt_xent-0000", report(0.1, 3))
    (searched / "journal.jsonl").write_text(content)
    assert message in command(*ON_CPU, code=2)
    assert find_damage(kept) is None


@pytest.mark.proof
@pytest.mark.parametrize(
    ("line", "code", "allowed"),
    [
        ("--help", 0, ""),
        ("search scenes-smoke --set training.epoch=3", 2, ""),
        ("search scenes-smoke --set datasets=[nowhere]", 2, ""),
        ("search nothing", 2, ""),
        ("status nowhere", 2, ""),
        ("summarise nowhere", 2, ""),
        ("ui --output nowhere", 2, ""),
        ("train --set dataset=pets --set loss=tripelt", 2, ""),
        ("train --set dataset=pest --set loss=nt_xent", 2, ""),
        ("data describe pets", 0, ""),
        ("data describe nothing", 2, ""),
        ("data extract pets --backbone x", 2, ""),
        ("report tiny --no-queries", 0, "scipy"),
    ],
)
def test_what_trains_nothing_loads_nothing_heavy(line: str, code: int, allowed: str, root: Path) -> None:
    with begun(root / "runs" / "tiny") as ledger:
        add_trial(ledger, [30.0])
    program = (
        "import sys, atexit\n"
        "heavy = {'torch', 'torchvision', 'ray', 'optuna', 'mlflow', 'pandas', 'nltk', 'scipy'}\n"
        f"atexit.register(lambda: print('loaded:', sorted(heavy & set(sys.modules) - {{'{allowed}'}})))\n"
        "from orchestrator.cli import main\n"
        "main(sys.argv[1:])"
    )
    done = subprocess.run([sys.executable, "-c", program, *line.split()], capture_output=True, text=True, timeout=500)
    assert "loaded: []" in done.stdout
    assert done.returncode == code
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("content", [b"", b'{"n":0,"time":17'], ids=["empty", "torn"])
@pytest.mark.parametrize("verb", ["status", "report", "summarise", "resume", "extend", "confirm", "doctor"])
def test_an_experiment_that_never_began_has_a_way_out(
    searched: Path, command: Command, verb: str, content: bytes
) -> None:
    (searched / "journal.jsonl").write_bytes(content)
    assert "start it (again) with `orchestrator search`" in command(verb, searched.name, code=2)


@pytest.mark.proof
def test_a_spent_budget_has_an_exit_code_of_its_own(root: Path, cli: CommandLine) -> None:
    for arguments in ([*ON_CPU, *sets("budget.hours=1e-9")], ["resume", "scenes-smoke"]):
        message = cli.refuses(*arguments, code=4)
        assert "budget spent: budget.hours=1e-09 ended the search; resume with more, e.g. with `orchestrator" in message
    told = cli.json("status", "scenes-smoke")
    assert told["ended_by"] == "hours"
    program, *arguments = shlex.split(told["command"])
    assert (program, arguments[-2:]) == ("orchestrator", ["--data-root", str(root / "data")])
    # The command is taken as it stands; as much again is nothing here, so that the search ends at once.
    cli.refuses(*arguments, code=4)


@pytest.mark.proof
def test_the_ui_takes_another_port_where_the_wanted_one_is_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert choose_port(port) != port
    assert choose_port(port) == port


def test_the_ui_has_a_way_out_where_there_is_no_store(command: Command) -> None:
    assert "run `orchestrator search` first" in command("ui", code=2)
