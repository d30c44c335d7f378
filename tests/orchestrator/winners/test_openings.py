"""A test split that several searches choose winners on: each of them says so, and counts it where it is asked to."""

import shutil
from pathlib import Path
from typing import Literal

import pytest

from orchestrator.experiment.sections import Confirm
from orchestrator.journal.directory import read_history
from orchestrator.journal.openings import openings_elsewhere
from orchestrator.results.answers import Summary
from orchestrator.results.confirmation import confirmations
from orchestrator.searches.search import run_search
from tests.faults.searches import SearchesHere, tiny
from tests.support.experiments import begun, make_experiment
from tests.support.in_process import without_ray
from tests.support.records import append


def run(searches: SearchesHere, name: str, looks: Literal["experiment", "output"] = "experiment") -> None:
    experiment = tiny().model_copy(update={"name": name, "confirm": Confirm(top=1, seeds=2, looks=looks)})
    with without_ray():
        run_search(experiment, searches.workload(), searches.output, quiet=True)


def caveats_of(searches: SearchesHere, name: str) -> list[str]:
    summary = Summary(read_history(searches.output / name))
    (sentences,) = summary.caveats.values()
    return [sentence for sentence in sentences if sentence.startswith("Other experiments")]


def test_the_same_search_under_other_names_says_how_often_test_was_opened(tmp_path: Path) -> None:
    searches = SearchesHere(tmp_path / "runs")
    for name in ("first", "second", "third"):
        run(searches, name)
    (confirmation,) = confirmations(read_history(searches.output / "third")).values()
    assert confirmation.plan.looks == 0
    assert caveats_of(searches, "first") == []
    said = "Other experiments of the output folder had opened the test split of these data"
    plain = "The level of the verdict does not count that; `confirm.looks: output` does."
    assert caveats_of(searches, "second") == [f"{said} 1 time: first. {plain}"]
    assert caveats_of(searches, "third") == [f"{said} 2 times: first and second. {plain}"]
    run(searches, "fourth", "output")
    history = read_history(searches.output / "fourth")
    (confirmation,) = confirmations(history).values()
    assert (confirmation.plan.looks, confirmation.level) == (3, pytest.approx(0.01 / 2**3))
    assert caveats_of(searches, "fourth") == [f"{said} 3 times: first, second and third."]
    # The same command again neither plans nor looks once more.
    run(searches, "fourth", "output")
    assert read_history(searches.output / "fourth").plans == history.plans


def test_only_openings_of_the_same_data_count_and_a_damaged_journal_counts_as_far_as_it_can_be_read(
    tmp_path: Path,
) -> None:
    for name, data, times in (("a", {"pets:global": "d1"}, 2), ("b", {"pets:global": "d2"}, 1), ("c", {}, 0)):
        with begun(tmp_path / name, make_experiment(name=name), data=data) as ledger:
            for _ in range(times):
                append(ledger, "test_opened", dataset="pets", trials=["x"])
    # The data of ``a`` under another name.
    with begun(tmp_path / "d", make_experiment(name="d"), data={"cats:global": "d1"}) as ledger:
        append(ledger, "test_opened", dataset="cats", trials=["x"])
    assert openings_elsewhere(tmp_path / "c", "pets", {"pets:global": "d1"}) == {"a": 2, "d": 1}
    assert openings_elsewhere(tmp_path / "a", "pets", {"pets:global": "d1"}) == {"d": 1}
    journal = tmp_path / "a" / "journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join([lines[0], "{damaged\n", lines[-2], lines[-1][:20]]))
    assert openings_elsewhere(tmp_path / "c", "pets", {"pets:global": "d1"}) == {"a": 1, "d": 1}
    shutil.rmtree(tmp_path / "a")
    assert openings_elsewhere(tmp_path / "c", "birds", {"pets:global": "d1"}) == {}
