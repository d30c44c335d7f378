"""``orchestrator train`` and ``evaluate`` as a person types them, on a small dataset in the folder format of VSE++."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from orchestrator.cli import main
from orchestrator.workload.single import read_config
from tests.support.precomputed_folder import write_precomputed
from trainables.checkpoint import BEST, EpochReport, read_file, resolve_checkpoint
from trainables.data.batches import ResidentSplit, epoch_batches
from trainables.data.dataset import load_dataset, open_dataset
from trainables.evaluation import encode_captions, encode_images, evaluating, load_best, measure_contributions
from trainables.losses import build_loss
from trainables.metrics import retrieval_metrics
from trainables.seeding import generator
from trainables.trial import run_trial

SMALL = ("training.epochs=3", "training.batch_size=16", "training.embedding_size=32", "training.learning_rate=0.01")


ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
"""An environment in which a process does not set address space aside for threads."""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_precomputed(tmp_path / "data" / "pets")
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Return exit code, standard output and standard error of one command in this process."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


def train(root: Path, *extra: str, settings: tuple[str, ...] = SMALL) -> tuple[str, ...]:
    sets = [part for setting in ("dataset=pets", "loss=nt_xent", *settings) for part in ("--set", setting)]
    places = ("--data-root", str(root / "data"), "--output", str(root / "runs"), "--device", "cpu")
    return ("train", *sets, *places, *extra)


def test_a_training_says_what_it_does_and_can_be_evaluated(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, *train(root, "--set", "loss_parameters.temperature=0.2"))
    directory, lines = root / "runs" / "train" / "pets-vsepp-nt_xent-seed0", out.splitlines()
    # 180 captions in batches of 16.
    assert lines[0] == "training vsepp with nt_xent (temperature 0.2) on pets: 3 epochs of 12 steps, on cpu"
    assert lines[1] == f"files: {directory}"
    assert (code, [line.split()[1] for line in lines if line.startswith("epoch")]) == (0, ["1/3", "2/3", "3/3"])
    # 18 images of five captions each.
    assert any(line.endswith("; the rsum of chance is 165.1") for line in lines)
    history = [json.loads(line) for line in (directory / "history.jsonl").read_text().splitlines()]
    assert [row["epoch"] for row in history] == [1, 2, 3]
    best = max(row["metrics"]["val/rsum"] for row in history)
    evaluation = ("evaluate", str(directory), "--split", "val", "--data-root", str(root / "data"))
    code, out, _ = run(capsys, *evaluation, "--json")
    answer = json.loads(out)
    assert (code, answer["metrics"]["rsum"]) == (0, pytest.approx(best))
    assert answer["chance_rsum"] == pytest.approx(165.11, abs=0.01)
    _, out, _ = run(capsys, *evaluation)
    assert f"rsum {best:.1f} (chance 165.1)" in out
    code, _, err = run(capsys, *train(root))
    assert code == 2 and "--resume" in err, "a second training in one place"
    _, out, _ = run(capsys, *train(root, "--name", "again", "--json"))
    result = json.loads(out)
    assert (result["epochs"], result["chance_rsum"]) == (3, pytest.approx(165.11, abs=0.01))
    assert Path(result["checkpoint"]).is_dir()


def test_folds_are_evaluated_alone_and_averaged(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three folds of the 18 test images, as the five folds of COCO's 5,000 are the 1K protocol."""
    _, out, _ = run(capsys, *train(root, "--json", settings=("training.epochs=1", *SMALL[1:])))
    checkpoint, where = json.loads(out)["checkpoint"], ("--data-root", str(root / "data"), "--device", "cpu")
    similarity = similarities_of_test(Path(checkpoint), root / "data")
    positives = torch.eye(6, dtype=torch.bool).repeat_interleave(5, 1)
    folds = [
        retrieval_metrics(similarity[start : start + 6, 5 * start : 5 * start + 30], positives) for start in (0, 6, 12)
    ]
    code, out, _ = run(capsys, "evaluate", checkpoint, "--folds", "3", *where, "--json")
    answer = json.loads(out)
    assert (code, answer["images"], answer["folds"]) == (0, 18, 3)
    assert answer["metrics"] == pytest.approx({name: sum(fold[name] for fold in folds) / 3 for name in folds[0]})
    _, out, _ = run(capsys, "evaluate", checkpoint, "--folds", "3", *where)
    assert "mean of 3 folds of 6 images" in out
    code, out, err = run(capsys, "evaluate", checkpoint, "--folds", "4", *where)
    assert (code, out) == (2, "")
    assert "--folds must divide the 18 images of pets's test split, got 4" in err


def similarities_of_test(checkpoint: Path, data_root: Path) -> torch.Tensor:
    model, config = load_best(checkpoint, load_dataset("pets", data_root))
    split = ResidentSplit(open_dataset(config, data_root).splits["test"], torch.device("cpu"))
    with evaluating(model):
        return encode_images(model, split) @ encode_captions(model, split).T


def test_val_images_are_the_first_ones(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the published code evaluates on the first 1,000 val images while it trains."""
    _, out, _ = run(capsys, *train(root, "--json", "--set", "val_images=6"))
    trained = json.loads(out)
    where = ("--data-root", str(root / "data"), "--json")
    _, out, _ = run(capsys, "evaluate", trained["checkpoint"], "--split", "val", *where)
    answer = json.loads(out)
    assert answer["images"] == 6
    assert answer["metrics"]["rsum"] == pytest.approx(trained["metrics"]["val/rsum"])
    _, out, _ = run(capsys, "evaluate", trained["checkpoint"], *where)
    assert json.loads(out)["images"] == 18


def test_cocos_counts_over_the_train_split(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, *train(root))
    directory, where = str(root / "runs" / "train" / "pets-vsepp-nt_xent-seed0"), ("--data-root", str(root / "data"))
    code, out, _ = run(capsys, "cocos", directory, *where, "--json")
    assert code == 0
    statistics = json.loads(out)["statistics"]
    assert 0 < statistics["i2t_negative_weight"]["mean"] < statistics["i2t_positive_weight"]["mean"] < 1
    code, out, _ = run(capsys, "cocos", directory, *where, "--convention", "published")
    assert (code, "i2t_negatives_per_query" in out) == (0, True)
    _, out, _ = run(capsys, "cocos", directory, *where, "--json", "--curve")
    curve = {entry["epsilon"]: entry["statistics"] for entry in json.loads(out)["curve"]}
    assert min(curve) == 0.0001
    for name in ("i2t_negative_weight", "gradient_positives"):
        assert curve[0.01][name] == statistics[name]
    counts = [curve[epsilon]["i2t_negatives_per_batch"]["mean"] for epsilon in sorted(curve)]
    assert counts == sorted(counts, reverse=True)
    _, out, _ = run(capsys, "cocos", directory, *where, "--curve")
    assert "mean of each counter by epsilon" in out
    code, _, err = run(capsys, "cocos", directory, *where, "--epsilon", "0")
    assert (code, "--epsilon" in err) == (2, True)


def test_a_learned_temperature_is_printed_and_counted_with(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    learning = (*SMALL, "loss_parameters.temperature=learned", "training.learning_rate=0.02")
    _, out, _ = run(capsys, *train(root, settings=learning))
    assert all("temperature 0.0" in line for line in out.splitlines() if line.startswith("epoch"))
    directory, where = root / "runs" / "train" / "pets-vsepp-nt_xent-seed0", ("--data-root", str(root / "data"))
    payload = read_file(resolve_checkpoint(directory), BEST)
    history = [json.loads(line)["metrics"] for line in (directory / "history.jsonl").read_text().splitlines()]
    value = history[payload["epoch"] - 1]["loss/temperature"]
    assert payload["learned"] == {"temperature": value}
    assert abs(value - 0.07) > 0.001
    _, out, _ = run(capsys, "cocos", str(directory), *where, "--json")
    counted = json.loads(out)["statistics"]
    # With any other temperature the same model has other weights.
    model, config = load_best(resolve_checkpoint(directory), load_dataset("pets", root / "data"))
    split = ResidentSplit(open_dataset(config, root / "data").splits["train"], torch.device("cpu"))
    batches = list(epoch_batches(split, config.training, generator(config.seed, "cocos")))
    means = {
        number: measure_contributions(model, build_loss("nt_xent", temperature=number), batches)
        for number in (value, 0.07)
    }
    assert counted["i2t_positive_weight"]["mean"] == pytest.approx(means[value]["i2t_positive_weight"].mean, rel=1e-5)
    assert counted["i2t_positive_weight"]["mean"] != pytest.approx(means[0.07]["i2t_positive_weight"].mean, rel=1e-3)


def test_cocos_has_the_batch_size_of_the_best_epoch(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a margin that no pair keeps, the largest count is the batch's other pairs."""
    schedule = "schedule=[{epoch: 2, training: {batch_size: 8}}]"
    settings = (*SMALL, "loss=triplet", "loss_parameters.margin=4", "training.duplicates=negatives", schedule)
    _, out, _ = run(capsys, *train(root, "--json", settings=settings))
    trained = json.loads(out)
    assert trained["best_epoch"] >= 2
    where = ("--data-root", str(root / "data"), "--json")
    _, out, _ = run(capsys, "cocos", trained["directory"], *where)
    statistics = json.loads(out)["statistics"]["i2t_negatives_per_batch"]
    assert statistics["mean"] <= 8 * 7 < 16 * 15 / 2


def test_the_published_convention_counts_without_the_mask_of_duplicates(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A batch of all captions of few images holds every image several times."""
    _, out, _ = run(capsys, *train(root, "--json", settings=(*SMALL[1:], "training.epochs=1", "loss=triplet")))
    directory = json.loads(out)["directory"]
    counts = {}
    for convention in ("paper", "published"):
        where = ("--data-root", str(root / "data"), "--convention", convention, "--json")
        _, out, _ = run(capsys, "cocos", directory, *where)
        counts[convention] = json.loads(out)["statistics"]
    for counter in ("i2t_negatives_per_batch", "gradient_negatives"):
        assert counts["published"][counter]["mean"] > counts["paper"][counter]["mean"]


def test_resume_resumes_and_ends_like_an_undisturbed_training(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, *train(root, "--name", "straight"))
    run(capsys, *train(root, "--name", "cut", settings=("training.epochs=1", *SMALL[1:])))
    code, out, _ = run(capsys, *train(root, "--name", "cut", "--resume"))
    assert code == 0
    assert [line.split()[1] for line in out.splitlines() if line.startswith("epoch")] == ["1/3", "2/3", "3/3"]

    def losses(name: str) -> list[float]:
        lines = (root / "runs" / "train" / name / "history.jsonl").read_text().splitlines()
        return [json.loads(line)["metrics"]["train/loss"] for line in lines]

    assert losses("cut") == losses("straight")


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        pytest.param(("--set", "training.epoch=4"), "training.epoch", id="unknown key"),
        pytest.param(("--set", "training.epochs=many"), "training.epochs", id="wrong type"),
        pytest.param(("--set", "training.epochs=0"), "training.epochs: must be at least 1, got 0", id="out of range"),
        pytest.param(("--set", "loss=tripelt"), "triplet", id="unknown loss"),
        pytest.param(("--set", "model=vse"), "vsepp", id="unknown model"),
        pytest.param(("--set", "dataset=pest"), "pets", id="unknown dataset"),
        pytest.param(("--set", "loss_parameters.temperature=0"), "temperature", id="loss parameter"),
        pytest.param(
            ("--set", "loss_parameters.temperature=learnd"),
            "temperature must be a number above 0, or 'learned', got 'learnd' (loss nt_xent)",
            id="misspelt learned",
        ),
        pytest.param(
            ("--set", "training.batch_size=100000"),
            "error: training.batch_size: 100000 is more than the 180 captions of pets's train split;",
            id="large batch",
        ),
        pytest.param(
            ("--set", "loss=polynomial_relative", "--set", "loss_parameters.coefficients=[0.5]"),
            "coefficients must hold a coefficient of power 1 or above",
            id="constant polynomial",
        ),
        pytest.param(("--set", "val_images=0"), "val_images must be at least 1, or null for all, got 0", id="no image"),
        pytest.param(
            ("--set", "val_images=19"),
            "val_images must be at most the 18 images of the val split of pets, got 19",
            id="more val images than there are",
        ),
        pytest.param(("--resume",), "no training to resume", id="nothing to resume"),
        pytest.param(("--device", "tpu"), "--device", id="unknown device"),
        pytest.param(("--output", "/proc/nowhere"), "cannot be written", id="unwritable output"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(
    root: Path, capsys: pytest.CaptureFixture[str], extra: tuple[str, ...], named: str
) -> None:
    code, out, err = run(capsys, *train(root, *extra))
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert named in err
    assert not list((root / "runs").rglob("config.yaml"))


def test_a_training_that_diverges_is_one_line(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wild = ("training.learning_rate=1e38", "training.gradient_clip=null")
    code, _, err = run(capsys, *train(root, *(part for setting in wild for part in ("--set", setting))))
    assert code == 1
    assert err.startswith("error: diverged: train/")
    assert err.count("\n") == 1


@pytest.mark.proof
def test_a_full_disk_is_one_line_and_the_training_resumes_with_room(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, *train(root, settings=("training.epochs=1", *SMALL[1:])))
    program = (
        "import resource, signal, sys\nfrom orchestrator.cli import main\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\nmain(sys.argv[1:])"
    )
    command = [sys.executable, "-c", program, *train(root, "--resume")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: ")
    assert "Traceback" not in done.stderr
    code, out, _ = run(capsys, *train(root, "--resume"))
    assert code == 0
    assert "epoch   3/3" in out


@pytest.mark.proof
def test_memory_that_runs_out_is_one_line_and_the_training_resumes_with_more(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, *train(root, settings=("training.epochs=1", *SMALL[1:])))
    # What the process holds once all is imported, and 64 MB, of which the gradients of the model want more.
    program = (
        "import resource, sys\nimport torch, trainables.trial, orchestrator.workload.single\n"
        "from orchestrator.cli import main\n"
        "held = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (held + 64 * 2**20, held + 64 * 2**20))\nmain(sys.argv[1:])"
    )
    large = train(root, "--name", "large", settings=(*SMALL[:2], "training.embedding_size=8192"))
    done = subprocess.run(
        [sys.executable, "-c", program, *large], capture_output=True, text=True, timeout=120, env=ONE_THREAD
    )
    assert done.returncode == 1, done.stderr
    [line] = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert line.startswith("error: out of memory (") and "lower training.batch_size" in line
    assert "Traceback" not in done.stderr
    code, out, _ = run(capsys, *train(root, "--resume"))
    assert code == 0
    assert "epoch   3/3" in out


@pytest.mark.parametrize("epochs", [0, 2])
def test_an_interrupted_training_names_the_command_that_resumes(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, epochs: int
) -> None:
    from orchestrator.commands.train import _Shown

    def interrupt(shown: object, happened: object) -> None:
        raise KeyboardInterrupt

    def report(shown: object, happened: EpochReport) -> None:
        if happened.epoch == epochs:
            raise KeyboardInterrupt

    monkeypatch.setattr(_Shown, *(("report", report) if epochs else ("start", interrupt)))
    code, _, err = run(capsys, *train(root))
    assert code == 130
    said = "epochs trained; resume with: " if epochs else "nothing was trained; start again with: "
    command = shlex.split(err.partition(said)[2])
    assert command[:2] == ["orchestrator", "train"]
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(root / "cache"))
    code, out, _ = run(capsys, *command[1:])
    assert code == 0
    trained = [line.split()[1] for line in out.splitlines() if line.startswith("epoch")]
    # The epoch from which a training resumes is reported again.
    assert trained[-2:] == ["2/3", "3/3"] and len(trained) == (2 if epochs else 3)


def test_steps_are_told_as_they_are_taken(root: Path) -> None:
    config = read_config(None, ["dataset=pets", "loss=nt_xent", *SMALL])
    data = open_dataset(config, root / "data")
    steps: list[int] = []
    for _ in run_trial(config, data, device="cpu", on_step=steps.append):
        pass
    assert steps == [*range(1, 13)] * 3
