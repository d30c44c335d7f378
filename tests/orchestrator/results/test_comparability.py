"""Beside the results stands whether each loss had its own learning rate, and which baseline a space leaves out."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from orchestrator.journal.directory import JOURNAL_FILE
from orchestrator.journal.history import History
from orchestrator.journal.ledger import Ledger
from orchestrator.report.page import build_page
from orchestrator.results.answers import summarise
from orchestrator.results.caveats import comparability
from tests.support.experiments import add_trial, make_experiment, start

RATE = 3e-4
PAIR = ["nt_xent", "triplet_sh"]


def history(tmp_path: Path, losses: list[str], **fields: Any) -> History:
    experiment = make_experiment(losses=losses, **{"training": {"learning_rate": RATE}, **fields})
    with closing(Ledger(tmp_path / JOURNAL_FILE)) as ledger:
        start(ledger, experiment)
        add_trial(ledger, [10.0], loss=losses[0])
        return ledger.history


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        pytest.param(
            {}, "All losses were trained at learning rate 0.0003: another rate may suit another loss better.", id="held"
        ),
        pytest.param(
            {"search": {"trials": 24, "training": {"learning_rate": [2e-4, 3e-3], "gradient_clip": [1, 8]}}},
            "Each loss had its own search of learning rate in [0.0002, 0.003] and gradient clip in [1, 8], "
            "beside its parameters, in 24 trials.",
            id="searched",
        ),
        pytest.param(
            {"overrides": [{"losses": ["nt_xent"], "training": {"learning_rate": 1e-3}}]},
            "The losses were trained at learning rates 0.001, 0.0003, which were not searched.",
            id="overridden",
        ),
    ],
)
def test_the_summary_and_the_report_say_whose_the_learning_rate_was(
    tmp_path: Path, fields: dict[str, Any], sentence: str
) -> None:
    found = history(tmp_path, PAIR, **fields)
    assert sentence in summarise(found)["caveats"]["pets"]
    assert sentence in build_page(found).answers["pets"][-1].notes


def test_a_baseline_that_a_space_leaves_out_stands_there_too(tmp_path: Path) -> None:
    found = history(tmp_path, ["triplet_sh", "polynomial_relative"], search={"space_version": 1})
    _, told = comparability(found)["pets"]
    assert told.startswith("Polynomial (relative) could be Triplet SH with margin = 0.2, which is outside its space")


def test_of_one_loss_nothing_is_compared(tmp_path: Path) -> None:
    assert comparability(history(tmp_path, ["nt_xent"])) == {}
