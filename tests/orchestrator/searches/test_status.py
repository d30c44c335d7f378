"""The state of an experiment, from another terminal: both stages, the budget, and what came of it in the end."""

from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from orchestrator.journal.ledger import Ledger
from orchestrator.journal.lock import hold
from orchestrator.journal.trial import TrialState
from orchestrator.searches.resuming import extend_experiment
from orchestrator.searches.status import Followed, read_status
from tests.support.commands import CommandLine
from tests.support.experiments import add_repeat, add_trial, begun, make_experiment, open_test
from tests.support.records import append

BUDGET = {"hours": 2, "gpu_hours": 1, "target": 60, "plateau": 5}


def begin(folder: Path, *, options: dict[str, str] | None = None, **changes: object) -> AbstractContextManager[Ledger]:
    search = {"sampler": "random", "trials": 3}
    return begun(folder, make_experiment(losses=["nt_xent"], search=search, **changes), options=options or {})


def test_a_search_tells_what_is_done_and_to_come_and_what_of_its_budget_is_used(tmp_path: Path) -> None:
    with begin(tmp_path, budget=BUDGET, confirm={"top": 1, "seeds": 2}) as ledger:
        add_trial(ledger, [30.0])
        add_trial(ledger, [20.0], state=TrialState.STOPPED_EARLY)
        (search,) = read_status(Followed(tmp_path)).stages
        assert (search.stage, search.total, search.waiting) == ("search", 3, 1)
        assert search.to_dict() == {
            "total": 3,
            "ended": 2,
            "waiting": 1,
            "finished": 1,
            "stopped_early": 1,
            "not_begun": 1,
        }
        budget = read_status(Followed(tmp_path)).budget
        assert budget.keys() == BUDGET.keys()
        assert (budget["target"], budget["plateau"]) == ((30.0, 60.0), (1.0, 5.0))
        assert 0 <= budget["hours"][0] < 0.1


def test_a_caveat_of_the_data_names_its_dataset_once(tmp_path: Path, cli: CommandLine) -> None:
    caveats = {"pets": ["pets: val: 2 captions are there several times."]}
    with begun(tmp_path, make_experiment(losses=["nt_xent"]), data_caveats=caveats) as ledger:
        add_trial(ledger, [30.0])
    lines = cli.shows("status", tmp_path).splitlines()
    assert [line for line in lines if "several times" in line] == [caveats["pets"][0]]


def test_what_waits_for_room_or_for_the_next_start_is_to_come(tmp_path: Path) -> None:
    with begin(tmp_path) as ledger:
        add_trial(ledger, [30.0], state=TrialState.RUNNING)
        waits = add_trial(ledger, [20.0], state=TrialState.RUNNING)
        append(ledger, "trial_retried", trial=waits.id, error="RuntimeError: no luck")
        with hold(tmp_path):
            (search,) = read_status(Followed(tmp_path)).stages
            assert (search.states, search.waiting) == ({"running": 1, "half_trained": 1, "not_begun": 1}, 2)
            assert read_status(Followed(tmp_path)).command is None
        followed = Followed(tmp_path)
        killed = read_status(followed)
        assert (killed.words, killed.stages[0].states) == ("killed", {"half_trained": 2, "not_begun": 1})
        assert followed.history.spending.actors == ledger.history.spending.actors != {}, (
            "the history is the journal's, as before"
        )


@pytest.mark.parametrize(
    "ends", [[], [{"outcome": "interrupted", "ended_by": "signal"}]], ids=["killed", "interrupted"]
)
def test_json_and_table_agree_on_what_is_left_and_the_command(
    here: Path, cli: CommandLine, ends: list[dict[str, str]]
) -> None:
    with begin(here / "my runs" / "tiny", options={"data-root": "/data"}) as ledger:
        add_trial(ledger, [30.0])
        add_trial(ledger, [20.0], state=TrialState.RUNNING)
        for end in ends:
            append(ledger, "experiment_ended", **end)
    table = cli.shows("status", "tiny", "--output", "my runs")
    command = "orchestrator resume tiny --output 'my runs' --data-root /data"
    assert "search: 1 finished, 1 half trained, 1 not begun of 3" in table
    assert f"to resume: {command}" in table
    best = "pets: NT-Xent (τ = 0.1) has the best val rsum of its search, 30.0 in one training."
    assert best in " ".join(table.split())
    assert "all answers: orchestrator summarise tiny --output 'my runs'" in table
    said = cli.json("status", "tiny", "--output", "my runs")
    assert said["command"] == command
    assert said["stages"]["search"]["half_trained"] == said["stages"]["search"]["not_begun"] == 1
    assert [row["state"] for row in said["trials"]] == ["finished", "half_trained"]


@pytest.mark.parametrize(
    ("limit", "command"),
    [
        ({"hours": 2}, "orchestrator extend --hours 2 tiny"),
        ({"gpu_hours": 1.5}, "orchestrator extend --set budget.gpu_hours=3 tiny"),
    ],
    ids=lambda given: "" if isinstance(given, str) else next(iter(given)),
)
def test_what_reached_a_limit_goes_on_with_a_larger_one(tmp_path: Path, limit: dict[str, float], command: str) -> None:
    with begin(tmp_path / "tiny", budget=limit) as ledger:
        add_trial(ledger, [20.0], state=TrialState.RUNNING)
        append(ledger, "experiment_ended", outcome="budget_spent", ended_by=next(iter(limit)))
        assert str(read_status(Followed(tmp_path / "tiny")).command).startswith(command)
        # The command is taken: what it asks for is larger than what was.
        larger = ["budget.gpu_hours=3"] * ("gpu_hours" in limit)
        extend_experiment(tmp_path / "tiny", ledger.history, None, limit.get("hours"), larger)


def test_a_confirmation_is_a_stage_of_its_own(tmp_path: Path) -> None:
    with begin(tmp_path, confirm={"top": 1, "seeds": 2}) as ledger:
        trials = [add_trial(ledger, [value]) for value in (30.0, 40.0, 50.0)]
        assert [(one.stage, one.total) for one in read_status(Followed(tmp_path)).stages] == [
            ("search", 3),
            ("confirm", 2),
        ]
        add_repeat(ledger, trials[2], 0, 7, None)
        confirm = read_status(Followed(tmp_path)).stages[1]
        assert (confirm.total, confirm.waiting, confirm.states) == (2, 1, {"diverged": 1, "not_begun": 1})
        with hold(tmp_path):
            assert read_status(Followed(tmp_path)).words.startswith("running as process")


def test_an_experiment_that_has_only_begun_has_a_status(tmp_path: Path) -> None:
    Ledger(tmp_path / "journal.jsonl").close()
    status = read_status(Followed(tmp_path))
    assert (status.words, status.stages, status.budget, status.command) == ("killed", (), {}, None)


@pytest.mark.parametrize("watch", [[], ["--watch"]], ids=["once", "watch what has ended"])
def test_the_command_says_it_all(tmp_path: Path, cli: CommandLine, watch: list[str]) -> None:
    with begin(tmp_path, budget={"hours": 2}, confirm={"top": 1, "seeds": 2}) as ledger:
        trials = [add_trial(ledger, [value]) for value in (30.0, 20.0, 10.0)]
        open_test(ledger, [add_repeat(ledger, trials[0], index, index + 1, 21.0 + index) for index in (0, 1)])
        append(ledger, "experiment_ended", outcome="finished", ended_by="trials")
    shown = cli.shows("status", tmp_path, *watch)
    assert "search: 3 finished of 3" in shown
    assert "confirm: 2 finished of 2" in shown
    assert "budget.hours: " in shown
    assert "pets: Only one candidate was confirmed, so nothing was compared." in shown
    said = cli.json("status", tmp_path, *watch)
    assert said["command"] is None
    assert said["stages"]["confirm"] == {"total": 2, "ended": 2, "waiting": 0, "finished": 2}
    assert said["budget"]["hours"]["limit"] == 2
    assert said["winners"]["pets"]["confirmed"]
