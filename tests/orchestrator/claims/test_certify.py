"""``orchestrator certify``: the claims of the paper's own tables, of a confirmation, and what it refuses."""

import json
from pathlib import Path

import pytest

from orchestrator.claims.cells import confirmed_cells
from orchestrator.claims.claims import load_claims
from orchestrator.cli import main
from orchestrator.commands.certify import cells_experiment
from orchestrator.journal.ledger import Ledger
from tests.support.experiments import add_repeat, add_trial, make_experiment, open_test, start


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["certify", *arguments])
    return int(ended.value.code or 0)


def test_the_claims_of_the_papers_tables_are_answered_without_training(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("ecir-2022", "--published") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "Of 14 claims 12 hold and 2 were not run here (16 cells)."
    assert any(line.startswith("Claim 3 holds in 8 tests, p < 0.001.") for line in lines)


def test_the_certificate_holds_questions_answers_and_digests(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("ecir-2022", "--published", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["claims_digest"]) == 64 and found["level"] == 0.05
    by_id = {finding["id"]: finding for finding in found["findings"]}
    assert by_id["triplet-sh-beats-triplet"]["answer"] == "holds"
    assert by_id["triplet-sh-beats-triplet"]["holds_if"][0]["kind"] == "beats"
    assert by_id["thresholds-change-little"]["missing"]
    assert {cell["dataset"] for cell in found["cells"]} == {"flickr30k", "coco"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ecir-2022",), "--datasets must name a dataset"),
        (("ecir-2020", "--published"), "did you mean 'ecir-2022'"),
        (("ecir-2022", "--with", "nothing"), "nothing"),
        (("ecir-2022", "--datasets", "pets", "--set", "training.epoch=3"), "training.epoch"),
    ],
)
def test_a_mistake_is_one_message_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert call(*arguments, "--output", str(tmp_path)) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_cells_are_trained_at_the_published_settings_with_fresh_seeds() -> None:
    experiment = cells_experiment(load_claims("ecir-2022"), ["pets"], ["vsepp", "vsrn"], 5, ["training.epochs=2"])
    assert len(experiment.cells()) == 8 and experiment.confirm is not None
    assert (experiment.confirm.seeds, experiment.training.epochs, experiment.training.learning_rate) == (5, 2, 2e-4)
    (smooth,) = {cell.training.batches for cell in experiment.cells() if cell.loss == "smooth_ap"}
    assert smooth == "images"


def test_cells_are_means_over_the_seeds_of_the_published_setting(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "journal.jsonl")
    start(ledger, make_experiment(losses=["nt_xent"], confirm={"top": 2, "seeds": 3}))
    searched = add_trial(ledger, [20.0], params={"temperature": 0.05})
    published = add_trial(ledger, [10.0], params={"temperature": 0.1})
    for candidate, values in ((searched, [80.0, 81.0, 82.0]), (published, [50.0, 52.0, 57.0])):
        repeats = [add_repeat(ledger, candidate, seed, 100 + seed, value) for seed, value in enumerate(values)]
        open_test(ledger, repeats)
    ledger.close()
    measure = confirmed_cells([ledger.history])["pets", "vsepp"]["nt_xent"]["rsum"]
    assert (measure.mean, measure.seeds) == (53.0, 3)
    assert measure.sample_std == pytest.approx(3.6055512)
