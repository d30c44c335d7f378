"""What the package promises without extras, tried out; run as a program in an environment of the core.

    python light_core.py FOLDER EXPERIMENTS

``FOLDER`` is written to, ``EXPERIMENTS`` holds the experiment ``begun``. It prints what came of each try as JSON.
"""

import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

SMALL = (
    "dataset=scenes",
    "model=wsabie",
    "loss=nt_xent",
    "training.epochs=1",
    "training.batch_size=16",
    "training.embedding_size=8",
)


def command(*words: str) -> dict[str, Any]:
    """Run a command here; return its exit code, and what it said."""
    from orchestrator.cli import main

    out, error, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        try:
            main(list(words))
        except SystemExit as end:
            code = int(end.code or 0)
    return {"code": code, "out": out.getvalue(), "error": error.getvalue()}


def losses() -> dict[str, list[float]]:
    """Return value and largest gradient of each loss that needs no parameters, its counts taken on the way."""
    import torch

    from trainables.cocos import count_contributions
    from trainables.losses import LOSSES, build_loss
    from trainables.metrics import retrieval_metrics

    found = {}
    positives = torch.eye(6, dtype=torch.bool)
    for name in LOSSES:
        if name.startswith("polynomial"):
            continue
        similarity = torch.linspace(-0.9, 0.9, 36).reshape(6, 6).requires_grad_()
        loss = build_loss(name)
        value = loss(similarity, positives)
        value.sum().backward()
        counts = count_contributions(loss, similarity.detach(), positives, epsilon=0.01)
        assert similarity.grad is not None and counts
        found[name] = [float(value.detach()), float(similarity.grad.abs().max())]
    assert retrieval_metrics(torch.eye(6), positives)["rsum"] == 600.0
    return found


def training(folder: Path) -> dict[str, Any]:
    """Generate pictures, train on them and evaluate, from Python; return the metrics."""
    import orchestrator as icr

    data = folder / "data"
    made = command("data", "generate", "scenes", "--images", "60", "--out", str(data / "scenes"), "--json")
    trained = icr.train(overrides=SMALL, data_root=data, output=folder / "runs", device="cpu")
    tested = icr.evaluate(trained.checkpoint, data_root=data, device="cpu")
    return {"made": made, "checkpoint": str(trained.checkpoint), "rsum": tested.metrics["rsum"]}


def promised(folder: Path, checkpoint: str) -> dict[str, dict[str, Any]]:
    """Run the commands that the core has."""
    data, runs = ["--data-root", str(folder / "data")], ["--output", str(folder / "runs")]
    tries = {
        "train": [*(f"--set={key}" for key in SMALL), *data, *runs, "--name", "again", "--device", "cpu", "--json"],
        "evaluate": [checkpoint, *data, "--json"],
        "cocos": [checkpoint, *data, "--json"],
        "data describe": ["scenes", *data, "--json"],
        "init": [str(folder / "mine.yaml")],
        "plugins": [],
        "doctor": [*data, *runs, "--json"],
        **{f"list {what}": ["--json"] for what in ("losses", "models", "metrics", "keys", "experiments", "suites")},
    }
    return {name: command(*name.split(), *words) for name, words in tries.items()}


def refused(folder: Path, experiments: str) -> dict[str, dict[str, Any]]:
    """Run the commands that an extra has, each named after the extra."""
    runs = ["--output", experiments]
    pictures = ["scenes", "--data-root", str(folder / "data")]
    tries = {
        "search": [
            ["search", "scenes-smoke"],
            ["search", "scenes-smoke", "--dry-run"],
            ["resume", "begun", *runs],
            ["extend", "begun", "--trials", "1", *runs],
            ["confirm", "begun", *runs],
            ["regress", "scenes-quick"],
        ],
        "report": [
            ["status", "begun", *runs],
            ["summarise", "begun", *runs],
            ["report", "begun", *runs],
            ["compare", "begun", "begun", *runs],
            ["doctor", "begun", *runs],
            ["export", "begun", *runs, "--to", str(folder / "trials.csv")],
            ["regress", "accept", "scenes-quick", "--why", "well", *runs],
        ],
        "tracking": [["sync", *runs], ["ui", *runs], ["retrieve", "two dogs", "--dataset", "scenes", *runs]],
        "pictures": [["data", "extract", *pictures]],
    }
    return {" ".join(words[:2]): {"extra": extra, **command(*words)} for extra, each in tries.items() for words in each}


def refused_calls(experiments: str) -> dict[str, dict[str, str]]:
    """Call the functions that an extra has; return what each raises."""
    import orchestrator as icr
    from trainables.data.tokenizers import tokenize_english as tokenize

    calls = {
        "icr.search": ("search", lambda: icr.search("scenes-smoke", quiet=True)),
        "icr.load": ("report", lambda: icr.load("begun", output=experiments)),
        "tokenize": ("captions", lambda: tokenize("the dog's 2 balls")),
    }
    found = {}
    for name, (extra, call) in calls.items():
        try:
            call()
        except Exception as error:  # noqa: BLE001 - what it is is what is looked at
            found[name] = {"extra": extra, "kind": type(error).__name__, "error": str(error)}
    return found


def main(folder: Path, experiments: str) -> None:
    """Try everything and print what came of it."""
    trained = training(folder)
    found = {
        "losses": losses(),
        "training": trained,
        "promised": promised(folder, trained["checkpoint"]),
        "refused": refused(folder, experiments),
        "refused calls": refused_calls(experiments),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
