"""A search that chooses its loss: one study, with summary, tracking and report as of any other."""

from collections import Counter
from pathlib import Path

from mlflow import MlflowClient

from orchestrator.journal.history import History
from orchestrator.journal.journal import read_journal
from orchestrator.report.experiment_report import report_experiments
from orchestrator.searches.search import run_search
from orchestrator.tracking.address import default_uri
from tests.support.experiments import make_experiment
from tests.support.fake_workload import FakeWorkload


def test_the_loss_is_searched_from_the_first_trial_to_the_report(output: Path, trials_run: None) -> None:
    experiment = make_experiment(search={"loss": "choose", "sampler": "tpe", "trials": 10})
    result = run_search(experiment, FakeWorkload(), output, quiet=True)
    history = History.of(read_journal(output / "tiny" / "journal.jsonl"))
    trials = list(history.trials.values())
    assert {trial.study for trial in trials} == {"pets-vsepp-any"}
    assert [trial.config.loss for trial in trials[:2]] == ["nt_xent", "triplet_sh"]
    assert all(f"{trial.config.loss}." in name for trial in trials for name in trial.params if name != "loss")
    winner = result.summary["winners"]["pets"]
    assert history.trials[winner["trial"]].config.loss == winner["loss"]
    assert_tracked(output, history)
    page = report_experiments([output / "tiny"], output, data_root=None, device="cpu")[0].read_text()
    assert "nt_xent.temperature" in page and "triplet_sh.margin" in page


def assert_tracked(output: Path, history: History) -> None:
    """Every trial is a run with its own loss; that of the study says that it is any."""
    client = MlflowClient(default_uri(output))
    found = client.get_experiment_by_name("tiny")
    tags = [run.data.tags for run in client.search_runs([found.experiment_id])]
    of_trials = Counter((tag["trial"], tag["loss"]) for tag in tags if tag["kind"] == "trial")
    assert of_trials == Counter((trial.id, trial.config.loss) for trial in history.trials.values())
    assert [tag["loss"] for tag in tags if tag["kind"] == "study"] == ["any"]
