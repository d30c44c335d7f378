"""``orchestrator train`` and ``evaluate`` as a person types them, on a small dataset in the folder format of VSE++."""

import json
import os
import random
import re
import shlex
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from orchestrator.workload.evaluation import chance_in_folds, evaluate
from orchestrator.workload.single import directory_of, read_config
from tests.support.child_process import running
from tests.support.commands import CommandLine
from tests.support.precomputed_folder import write_precomputed
from tests.support.waiting import wait_until
from tests.trainables.tiny import tiny_dataset
from trainables.checkpoint import BEST, EpochReport, epoch_of, find_latest, read_file, resolve_checkpoint
from trainables.data.batches import ResidentSplit, epoch_batches
from trainables.data.dataset import load_dataset, open_dataset
from trainables.errors import ConfigError, DataError
from trainables.evaluation import encode_captions, encode_images, evaluating, load_best, measure_contributions
from trainables.losses import build_loss
from trainables.metrics import retrieval_metrics
from trainables.ranks import chance_rsum
from trainables.seeding import generator
from trainables.trial import run_trial

SMALL = ("training.epochs=3", "training.batch_size=16", "training.embedding_size=32", "training.learning_rate=0.01")


ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
"""An environment in which a process does not set address space aside for threads."""


class Shell:
    def __init__(self, root: Path, cli: CommandLine) -> None:
        self.root, self.data_root, self.run = root, root / "data", cli.run
        self.directory = root / "runs" / "train" / "pets"

    def words(self, *extra: str, settings: tuple[str, ...] = SMALL) -> tuple[str, ...]:
        sets = [part for setting in ("dataset=pets", "loss=nt_xent", *settings) for part in ("--set", setting)]
        places = ("--data-root", str(self.data_root), "--output", str(self.root / "runs"), "--device", "cpu")
        return ("train", *sets, *places, *([] if "--name" in extra else ["--name", self.directory.name]), *extra)

    def train(self, *extra: str, settings: tuple[str, ...] = SMALL) -> tuple[int, str, str]:
        return self.run(*self.words(*extra, settings=settings))

    def trained(self, *extra: str, settings: tuple[str, ...] = SMALL) -> dict[str, Any]:
        return json.loads(self.train("--json", *extra, settings=settings)[1])

    def read(self, command: str, checkpoint: str | Path, *options: str) -> tuple[int, str, str]:
        return self.run(command, checkpoint, "--data-root", self.data_root, "--device", "cpu", *options)

    def answer(self, command: str, checkpoint: str | Path, *options: str) -> dict[str, Any]:
        code, out, err = self.read(command, checkpoint, *options, "--json")
        assert code == 0, err
        return json.loads(out)

    def history(self, name: str = "pets") -> list[dict[str, Any]]:
        lines = (self.directory.with_name(name) / "history.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]


@pytest.fixture
def shell(here: Path, cli: CommandLine) -> Shell:
    write_precomputed(here / "data" / "pets")
    return Shell(here, cli)


def epochs_of(printed: str) -> list[str]:
    return [line.split()[1] for line in printed.splitlines() if line.startswith("epoch")]


def test_a_training_says_what_it_does_and_can_be_evaluated(shell: Shell) -> None:
    code, out, _ = shell.train("--set", "loss_parameters.temperature=0.2")
    lines = out.splitlines()
    # 180 captions in batches of 16.
    assert lines[0] == "training vsepp with nt_xent (temperature 0.2) on pets: 3 epochs of 12 steps, on cpu"
    assert lines[1] == f"files: {shell.directory}"
    assert (code, epochs_of(out)) == (0, ["1/3", "2/3", "3/3"])
    # 18 images of five captions each.
    assert any(line.endswith("; the rsum of chance is 165.1") for line in lines)
    history = shell.history()
    assert [row["epoch"] for row in history] == [1, 2, 3]
    best = max(row["metrics"]["val/rsum"] for row in history)
    answer = shell.answer("evaluate", shell.directory, "--split", "val")
    assert answer["metrics"]["rsum"] == pytest.approx(best)
    assert answer["chance_rsum"] == pytest.approx(165.11, abs=0.01)
    assert f"rsum {best:.1f} (chance 165.1)" in shell.read("evaluate", shell.directory, "--split", "val")[1]
    code, _, err = shell.train()
    assert code == 2 and "--resume" in err, "a second training in one place"
    result = shell.trained("--name", "again")
    assert (result["epochs"], result["chance_rsum"]) == (3, pytest.approx(165.11, abs=0.01))
    assert Path(result["checkpoint"]).is_dir()


def test_the_default_name_differs_where_the_settings_do(shell: Shell) -> None:
    def name(*settings: str) -> str:
        config = read_config(None, ["dataset=pets", "loss=nt_xent", *settings])
        return directory_of(config, shell.root, None).name

    assert name() == name("training.epochs=5") == name("training.patience=2") == "pets-vsepp-nt_xent-seed0"
    assert name("training.learning_rate=0.002") == "pets-vsepp-nt_xent-learning_rate0.002-seed0"
    assert name("loss_parameters.temperature=0.2", "seed=3") == "pets-vsepp-nt_xent-temperature0.2-seed3"
    settings = [
        *("training.learning_rate=0.0020000001", "training.embedding_size=64", "training.batch_size=32", "seed=1"),
        *("training.learning_rate_drop_epochs=2", "training.learning_rate_drop_epochs=3", "metric=val/i2t_r1"),
        *("dataset=here/pets", "dataset=there/pets", "vocabulary=published", "val_images=5", "training.optimizer=sgd"),
        *("schedule=[{epoch: 2, training: {learning_rate: 0.1}}]", "schedule=[{epoch: 3, training: {batch_size: 8}}]"),
    ]
    names = [name(setting) for setting in settings]
    many = ("training.batch_size=8", "training.embedding_size=8", "training.weight_decay=0.1", "val_images=4")
    names += [name(*many, f"training.learning_rate={rate}") for rate in (0.1, 0.2)]
    assert len({*names, name()}) == len(names) + 1, names
    assert all(re.fullmatch(r"[A-Za-z0-9._-]{1,100}", each) for each in names)


@pytest.mark.parametrize("name", ["../../elsewhere", "a/b", ".hidden", "a b", "", "ü", "-x", "x" * 101])
def test_a_name_that_a_search_refuses_is_refused(shell: Shell, name: str) -> None:
    code, out, err = shell.train(f"--name={name}", "--name", name)
    assert (code, out) == (2, "")
    assert err.startswith("error: --name must be 1 to 100 letters") and err.count("\n") == 1
    assert not (shell.root / "elsewhere").exists() and not (shell.root / "runs").exists()


def test_a_training_that_runs_is_left_alone(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second command comes while the first has trained an epoch."""
    from orchestrator.commands.train import _Shown

    second: list[tuple[int, str, str]] = []
    report = _Shown.report

    def meanwhile(shown: _Shown, happened: EpochReport) -> None:
        report(shown, happened)
        if happened.epoch == 1:
            second.extend(shell.train(*extra) for extra in ((), ("--resume",)))

    with monkeypatch.context() as patch:
        patch.setattr(_Shown, "report", meanwhile)
        code, out, _ = shell.train()
    # The end of the output of the first: the second command took what came before.
    assert (code, epochs_of(out)) == (0, ["2/3", "3/3"])
    for code, out, err in second:
        assert (code, out) == (3, "")
        assert err.startswith(f"error: {shell.directory}: already running: process {os.getpid()} ")
        assert err.endswith("; wait for its end\n") and "status" not in err
    assert [row["epoch"] for row in shell.history()] == [1, 2, 3]


def test_a_training_that_is_not_there_is_said_with_those_that_are(shell: Shell) -> None:
    shell.train("--name", "small", settings=("training.epochs=1", *SMALL[1:]))
    code, _, err = shell.train("--name", "smal", "--resume")
    assert code == 2 and err.endswith("start it without --resume; --name names another: small\n")
    assert not shell.directory.with_name("smal").exists()


def test_a_metric_that_is_none_is_refused_before_anything_is_written(shell: Shell) -> None:
    code, out, err = shell.train("--set", "metric=val/rsun")
    assert (code, out) == (2, "")
    assert "metric must be one of val/rsum" in err and "got 'val/rsun'" in err
    assert not shell.directory.exists()


def test_chance_in_folds_is_that_of_all_folds() -> None:
    split = tiny_dataset(60, (5,) * 10 + (1,) * 10).splits["test"]
    parts = [chance_rsum(np.arange(10).repeat(count)) for count in (5, 1)]
    assert abs(parts[0] - parts[1]) > 30
    assert chance_in_folds(split, 2) == pytest.approx(sum(parts) / 2)


def test_folds_are_evaluated_alone_and_averaged(shell: Shell) -> None:
    """Three folds of the 18 test images, as the five folds of COCO's 5,000 are the 1K protocol."""
    checkpoint = shell.trained(settings=("training.epochs=1", *SMALL[1:]))["checkpoint"]
    similarity = similarities_of_test(Path(checkpoint), shell.data_root)
    positives = torch.eye(6, dtype=torch.bool).repeat_interleave(5, 1)
    folds = [
        retrieval_metrics(similarity[start : start + 6, 5 * start : 5 * start + 30], positives) for start in (0, 6, 12)
    ]
    answer = shell.answer("evaluate", checkpoint, "--folds", "3")
    assert (answer["images"], answer["folds"]) == (18, 3)
    assert answer["metrics"] == pytest.approx({name: sum(fold[name] for fold in folds) / 3 for name in folds[0]})
    assert "mean of 3 folds of 6 images" in shell.read("evaluate", checkpoint, "--folds", "3")[1]
    code, out, err = shell.read("evaluate", checkpoint, "--folds", "4")
    assert (code, out) == (2, "")
    assert "--folds must divide the 18 images of pets's test split, got 4" in err
    with pytest.raises(ConfigError, match="--folds must divide the 18 images of pets's test split, got 0"):
        evaluate(checkpoint, data_root=shell.data_root, folds=0, device="cpu")


def similarities_of_test(checkpoint: Path, data_root: Path) -> torch.Tensor:
    model, config = load_best(checkpoint, load_dataset("pets", data_root))
    split = ResidentSplit(open_dataset(config, data_root).splits["test"], torch.device("cpu"))
    with evaluating(model):
        return encode_images(model, split) @ encode_captions(model, split).T


def test_val_images_are_the_first_ones(shell: Shell) -> None:
    """As the published code evaluates on the first 1,000 val images while it trains."""
    trained = shell.trained("--set", "val_images=6")
    answer = shell.answer("evaluate", trained["checkpoint"], "--split", "val")
    assert answer["images"] == 6
    assert answer["metrics"]["rsum"] == pytest.approx(trained["metrics"]["val/rsum"])
    assert shell.answer("evaluate", trained["checkpoint"])["images"] == 18


def test_cocos_counts_over_the_train_split(shell: Shell) -> None:
    directory = shell.trained()["directory"]
    statistics = shell.answer("cocos", directory)["statistics"]
    assert 0 < statistics["i2t_negative_weight"]["mean"] < statistics["i2t_positive_weight"]["mean"] < 1
    code, out, _ = shell.read("cocos", directory, "--convention", "published")
    assert (code, "i2t_negatives_per_query" in out, "std over batches (ddof 0)" in out) == (0, True, True)
    curve = {entry["epsilon"]: entry["statistics"] for entry in shell.answer("cocos", directory, "--curve")["curve"]}
    assert min(curve) == 0.0001
    for name in ("i2t_negative_weight", "gradient_positives"):
        assert curve[0.01][name] == statistics[name]
    counts = [curve[epsilon]["i2t_negatives_per_batch"]["mean"] for epsilon in sorted(curve)]
    assert counts == sorted(counts, reverse=True)
    assert "mean of each counter by epsilon" in shell.read("cocos", directory, "--curve")[1]
    code, _, err = shell.read("cocos", directory, "--epsilon", "0")
    assert (code, "--epsilon" in err) == (2, True)


def test_a_learned_temperature_is_printed_and_counted_with(shell: Shell) -> None:
    learning = (*SMALL, "loss_parameters.temperature=learned", "training.learning_rate=0.02")
    _, out, _ = shell.train(settings=learning)
    assert all("temperature 0.0" in line for line in out.splitlines() if line.startswith("epoch"))
    payload = read_file(resolve_checkpoint(shell.directory), BEST)
    value = shell.history()[payload["epoch"] - 1]["metrics"]["loss/temperature"]
    assert payload["learned"] == {"temperature": value}
    assert abs(value - 0.07) > 0.001
    counted = shell.answer("cocos", shell.directory)["statistics"]
    # With any other temperature the same model has other weights.
    model, config = load_best(resolve_checkpoint(shell.directory), load_dataset("pets", shell.data_root))
    split = ResidentSplit(open_dataset(config, shell.data_root).splits["train"], torch.device("cpu"))
    batches = list(epoch_batches(split, config.training, generator(config.seed, "cocos")))
    means = {
        number: measure_contributions(model, build_loss("nt_xent", temperature=number), batches)
        for number in (value, 0.07)
    }
    assert counted["i2t_positive_weight"]["mean"] == pytest.approx(means[value]["i2t_positive_weight"].mean, rel=1e-5)
    assert counted["i2t_positive_weight"]["mean"] != pytest.approx(means[0.07]["i2t_positive_weight"].mean, rel=1e-3)


@pytest.mark.parametrize("extra", [(), ("--resume",)])
def test_a_batch_above_the_split_is_refused_with_its_place(shell: Shell, extra: tuple[str, ...]) -> None:
    """Also one that comes midway, after hours of training."""
    if extra:
        shell.train("--set", "training.epochs=1")
    later = "schedule=[{epoch: 2, training: {learning_rate: 0.1}}, {epoch: 3, training: {batch_size: 181}}]"
    code, _, err = shell.train("--set", later, *extra)
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith("error: schedule.1.training.batch_size: 181 is more than the 180 captions of pets's train")
    code, _, err = shell.train("--set", "training.batch_size=181", *extra)
    assert code == 2 and err.startswith("error: training.batch_size: 181 is more than")
    wrong = "schedule=[{epoch: 2, loss_parameters: {temperature: -1}}]"
    code, _, err = shell.train("--set", wrong, *extra)
    assert code == 2 and "schedule.0.loss_parameters: temperature" in err


def test_cocos_has_the_batch_size_of_the_best_epoch(shell: Shell) -> None:
    """With a margin that no pair keeps, the largest count is the batch's other pairs."""
    schedule = "schedule=[{epoch: 2, training: {batch_size: 8}}]"
    settings = (*SMALL, "loss=triplet", "loss_parameters.margin=4", "training.duplicates=negatives", schedule)
    trained = shell.trained(settings=settings)
    assert trained["best_epoch"] >= 2
    statistics = shell.answer("cocos", trained["directory"])["statistics"]["i2t_negatives_per_batch"]
    assert statistics["mean"] <= 8 * 7 < 16 * 15 / 2


def test_the_published_convention_counts_without_the_mask_of_duplicates(shell: Shell) -> None:
    """A batch of all captions of few images holds every image several times."""
    directory = shell.trained(settings=(*SMALL[1:], "training.epochs=1", "loss=triplet"))["directory"]
    paper, published = (
        shell.answer("cocos", directory, "--convention", convention)["statistics"]
        for convention in ("paper", "published")
    )
    for counter in ("i2t_negatives_per_batch", "gradient_negatives"):
        assert published[counter]["mean"] > paper[counter]["mean"]


def test_resume_resumes_and_ends_like_an_undisturbed_training(shell: Shell) -> None:
    shell.train("--name", "straight")
    shell.train("--name", "cut", settings=("training.epochs=1", *SMALL[1:]))
    code, out, _ = shell.train("--name", "cut", "--resume")
    assert (code, epochs_of(out)) == (0, ["1/3", "2/3", "3/3"])
    cut, straight = ([row["metrics"]["train/loss"] for row in shell.history(name)] for name in ("cut", "straight"))
    assert cut == straight


def test_resume_with_another_config_is_refused_before_a_file_is_written(shell: Shell) -> None:
    shell.train()
    before = {path: path.read_bytes() for path in shell.directory.rglob("*") if path.is_file()}
    code, _, err = shell.train("--resume", "--set", "loss_parameters.temperature=0.2")
    assert code == 2 and "written by a trial with another config" in err
    assert {path: path.read_bytes() for path in shell.directory.rglob("*") if path.is_file()} == before


def test_the_command_that_evaluates_can_be_pasted_into_a_shell(shell: Shell) -> None:
    _, out, _ = shell.train("--name", "my-training", settings=("training.epochs=1", *SMALL[1:]))
    words = shlex.split(out.partition("evaluate it on test: ")[2])
    assert words[1:3] == ["evaluate", str(shell.directory.with_name("my-training") / "epoch_0001")]
    assert shell.run(*words[1:])[0] == 0


def test_a_training_without_its_history_still_knows_its_best_epoch(shell: Shell) -> None:
    # A rate that spoils the model from the second epoch on.
    settings = (*SMALL, "schedule=[{epoch: 2, training: {learning_rate: 10}}]")
    first = shell.trained(settings=settings)
    assert first["best_epoch"] < first["epochs"]
    (shell.directory / "history.jsonl").unlink()
    again = shell.trained("--resume", settings=settings)
    assert (again["epochs"], again["best_epoch"]) == (first["epochs"], first["best_epoch"])
    assert again["metrics"] == {"val/rsum": first["metrics"]["val/rsum"]}


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        pytest.param(("--set", "training.epoch=4"), "training.epoch", id="unknown key"),
        pytest.param(("--set", "dataset=pest"), "pets", id="unknown dataset"),
        pytest.param(("--set", "loss_parameters.temperature=0"), "temperature", id="loss parameter"),
        pytest.param(
            ("--set", "training.batch_size=100000"),
            "error: training.batch_size: 100000 is more than the 180 captions of pets's train split;",
            id="large batch",
        ),
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
def test_a_mistake_is_one_line_and_nothing_is_written(shell: Shell, extra: tuple[str, ...], named: str) -> None:
    code, out, err = shell.train(*extra)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert named in err
    assert not list((shell.root / "runs").rglob("config.yaml"))


@pytest.mark.parametrize("error", [ConfigError, DataError])
def test_a_training_that_the_model_refuses_leaves_its_name_free(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise error("embedding_size or a file is refused")

    with monkeypatch.context() as patch:
        patch.setattr("trainables.trial.run_trial", refuse)
        assert shell.train()[0] == 2
    assert shell.train()[0] == 0


def test_a_training_that_diverges_is_one_line(shell: Shell) -> None:
    code, _, err = shell.train(settings=(*SMALL, "training.learning_rate=1e38", "training.gradient_clip=null"))
    assert code == 1
    assert err.startswith("error: diverged: train/")
    assert err.count("\n") == 1


def limited(program: str, words: tuple[str, ...]) -> str:
    code = f"import resource, signal, sys\nfrom orchestrator.cli import main\n{program}\nmain(sys.argv[1:])"
    command = [sys.executable, "-c", code, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, env=ONE_THREAD)
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    return done.stderr


@pytest.mark.proof
def test_a_full_disk_is_one_line_and_the_training_resumes_with_room(shell: Shell) -> None:
    shell.train(settings=("training.epochs=1", *SMALL[1:]))
    full = "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nresource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))"
    assert limited(full, shell.words("--resume")).splitlines()[-1].startswith("error: ")
    code, out, _ = shell.train("--resume")
    assert code == 0 and "epoch   3/3" in out


@pytest.mark.proof
def test_memory_that_runs_out_is_one_line_and_the_training_resumes_with_more(shell: Shell) -> None:
    shell.train(settings=("training.epochs=1", *SMALL[1:]))
    # What the process holds once all is imported, and 64 MB, of which the gradients of the model want more.
    short = (
        "import torch, trainables.trial, orchestrator.workload.single\n"
        "held = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (held + 64 * 2**20, held + 64 * 2**20))"
    )
    large = shell.words("--name", "large", settings=(*SMALL[:2], "training.embedding_size=8192"))
    [line] = [line for line in limited(short, large).splitlines() if line.startswith("error: ")]
    assert line.startswith("error: out of memory (") and "lower training.batch_size" in line
    code, out, _ = shell.train("--resume")
    assert code == 0 and "epoch   3/3" in out


@pytest.mark.parametrize("epochs", [0, 2])
def test_an_interrupted_training_names_the_command_that_resumes(shell: Shell, epochs: int) -> None:
    from orchestrator.commands.train import _Shown

    def interrupt(shown: object, happened: object) -> None:
        raise KeyboardInterrupt

    def report(shown: object, happened: EpochReport) -> None:
        if happened.epoch == epochs:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("orchestrator.commands.train.typed_program", lambda: ".venv/bin/orchestrator")
        patch.setattr(_Shown, *(("report", report) if epochs else ("start", interrupt)))
        code, _, err = shell.train()
    assert code == 130
    said = "epochs trained; resume with: " if epochs else "nothing was trained; start again with: "
    command = shlex.split(err.partition(said)[2])
    assert command[:2] == [".venv/bin/orchestrator", "train"], "as this shell finds it"
    code, out, _ = shell.run(*command[1:])
    assert code == 0
    # The epoch from which a training resumes is reported again.
    assert epochs_of(out)[-2:] == ["2/3", "3/3"] and len(epochs_of(out)) == (2 if epochs else 3)


def test_steps_are_told_as_they_are_taken(shell: Shell) -> None:
    config = read_config(None, ["dataset=pets", "loss=nt_xent", *SMALL])
    data = open_dataset(config, shell.data_root)
    steps: list[int] = []
    for _ in run_trial(config, data, device="cpu", on_step=steps.append):
        pass
    assert steps == [*range(1, 13)] * 3


@pytest.mark.proof
@pytest.mark.parametrize("trained", [(), ("model=head", "loss=meta_weights")], ids=["plain", "by meta-steps"])
def test_a_training_that_is_killed_at_any_moment_ends_like_one_that_is_not(
    shell: Shell, trained: tuple[str, ...]
) -> None:
    """Each process is killed a little later than the one before, while it trains, writes, or does both."""
    if trained:
        extracted = shell.run("data", "extract", "pets", "--text", "tfidf-svd", "--data-root", str(shell.data_root))
        assert extracted[0] == 0, extracted[2]
    settings = ("training.epochs=24", *SMALL[1:], *trained)
    shell.train("--name", "whole", settings=settings)
    program = "import sys\nfrom orchestrator.cli import main\nmain(sys.argv[1:])"
    moments = random.Random(65)
    for kill in range(8):
        command = shell.words(*(["--resume"] if kill else []), settings=settings)
        before = _newest_epoch(shell.directory)
        with running([sys.executable, "-c", program, *command], env=ONE_THREAD) as process:
            is_further = partial(_is_further, process, shell.directory, before)
            wait_until(is_further, "another epoch")
            time.sleep(moments.uniform(0, 0.1))
            process.kill()
        assert _newest_epoch(shell.directory) > before
    assert shell.train("--resume", settings=settings)[0] == 0
    whole, killed = (
        [{name: value for name, value in row["metrics"].items() if not name.startswith("time/")} for row in rows]
        for rows in (shell.history("whole"), shell.history())
    )
    assert killed == whole


def _newest_epoch(directory: Path) -> int:
    """Return the epoch of the newest whole checkpoint, 0 where there is none."""
    newest = find_latest(directory)
    return 0 if newest is None else epoch_of(newest.name) or 0


def _is_further(process: subprocess.Popen[bytes], directory: Path, epoch: int) -> bool:
    return process.poll() is not None or _newest_epoch(directory) > epoch
