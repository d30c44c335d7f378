"""Two trials side by side, and what is delivered to MLflow afterwards."""

import math
import re
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
from scipy.stats import ttest_ind

from orchestrator.journal.journal import JournalError
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import TrialState
from orchestrator.results.question import Verdict
from orchestrator.results.questions import answer_questions
from orchestrator.results.runs import Runs
from orchestrator.results.trial_comparison import (
    DEPTHS,
    SHOWN,
    NoSuchTrialError,
    Side,
    compare_queries,
    compare_trials,
    find_side,
    largest_leads,
    median_ranks,
    pair_of_any,
    which_is_better,
)
from orchestrator.results.verdict import judge
from orchestrator.text.wording import p_equals
from tests.support.commands import CommandLine
from tests.support.experiments import add_repeats, add_trial, begun, make_experiment, open_test
from tests.support.ranked import draw_ranks
from tests.support.records import append
from trainables.ranks import Ranks


def begin(folder: Path, name: str, **fields: Any) -> AbstractContextManager[Ledger]:
    return begun(folder / name, make_experiment(name=name, **fields))


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """Two experiments: in the first a trial of each loss ended, in the second one that was killed."""
    for name, losses in (("one", ("nt_xent", "triplet_sh")), ("two", ("nt_xent",))):
        with begin(tmp_path, name) as ledger:
            for loss in losses:
                add_trial(ledger, [100.0, 120.0, 110.0], loss=loss)
            if name == "two":
                add_trial(ledger, [90.0], state=TrialState.RUNNING)
            else:
                append(ledger, "experiment_ended", outcome="finished", ended_by="trials")
    return tmp_path


def test_a_damaged_journal_of_another_experiment_refuses_no_comparison(output: Path) -> None:
    rerun = output / "suite" / "20261126T215000Z"
    with begun(rerun, make_experiment(name="suite")) as ledger:
        trial = add_trial(ledger, [5.0], dataset="birds")
    (output / "one" / "journal.jsonl").write_text("{damaged\n{damaged\n")
    assert find_side("two/pets-vsepp-nt_xent-0000", output).experiment == "two"
    assert find_side(f"suite/20261126T215000Z/{trial.id}", output).trial.id == trial.id
    assert find_side(trial.id, output).experiment == "suite"
    with pytest.raises(NoSuchTrialError, match="not read, because their journals are damaged: one"):
        find_side("pets-vsepp-triplet_sh-0000", output)
    with pytest.raises(JournalError):
        find_side("one/pets-vsepp-triplet_sh-0000", output)


def test_what_differs_is_shown_at_the_best_epochs(output: Path) -> None:
    sides = [find_side(name, output) for name in ("one/pets-vsepp-nt_xent-0000", "pets-vsepp-triplet_sh-0000")]
    _, settings, metrics = compare_trials(*sides)
    assert settings.table.rows == (
        ("loss", "nt_xent", "triplet_sh"),
        ("loss_parameters.margin", None, "0.2"),
        ("loss_parameters.temperature", "0.1", None),
    )
    assert [row[0] for row in metrics.table.rows] == ["val/rsum", "val/i2t_r1", "train/loss"]
    assert metrics.table.rows[0] == ("val/rsum", 120.0, 120.0, 0.0)
    assert compare_trials(sides[0], find_side("two", output))[1].headline == "No setting differs."


@pytest.mark.parametrize(
    ("repeats", "winner", "why"),
    [
        # The highest of the search, though three that cannot win reached more.
        ([], 1, "the best of the search, unconfirmed"),
        # Confirmed, the other is the better one on average, though a repeat of the first is the highest value of all.
        ([(1, [10.0, 999.0, 11.0]), (0, [350.0, 351.0, 352.0])], 0, "the winner of the confirmation"),
        # A confirmation that is not over names no winner.
        ([(0, [350.0, 351.0])], 1, "the best of the search, unconfirmed"),
    ],
    ids=["searched", "confirmed", "half confirmed"],
)
def test_only_what_can_win_stands_for_an_experiment(
    tmp_path: Path, repeats: list[tuple[int, list[float]]], winner: int, why: str
) -> None:
    with begin(tmp_path, "one", confirm={"top": 2, "seeds": 3}) as ledger:
        trials = [add_trial(ledger, [value]) for value in (100.0, 120.0)]
        for state in (TrialState.STOPPED_EARLY, TrialState.DIVERGED, TrialState.FAILED, TrialState.RUNNING):
            add_trial(ledger, [500.0], state=state)
        done = add_repeats(ledger, [(trials[number], values) for number, values in repeats], 0)
        if len(done) > 2:
            open_test(ledger, done)
    side = find_side("one", tmp_path)
    assert (side.trial.id, side.why) == (trials[winner].id, why)


def test_a_trial_may_be_named_by_the_end_of_its_id_as_status_shows_it(output: Path) -> None:
    for name in ("one/nt_xent-0000", "triplet_sh-0000"):
        assert find_side(name, output).trial.id == f"pets-vsepp-{name.removeprefix('one/')}"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("one/0000", "there are several: one/pets-vsepp-nt_xent-0000, one/pets-vsepp-triplet_sh-0000"),
        ("pets-vsepp-nt_xent-0000", "there are several: .*one/pets.*two/pets"),
        ("nothing", "no such trial or experiment"),
        ("none", "no trial of its search has finished"),
        ("both", "both/birds-.*, both/pets-.*name one"),
    ],
)
def test_a_name_that_is_not_clear_is_refused(output: Path, name: str, message: str) -> None:
    with begin(output, "none") as ledger:
        add_trial(ledger, [100.0], state=TrialState.STOPPED_EARLY)
    with begin(output, "both", datasets=["birds", "pets"]) as ledger:
        for dataset in ("birds", "pets"):
            add_trial(ledger, [100.0], dataset=dataset)
    with pytest.raises(NoSuchTrialError, match=message):
        find_side(name, output)


def side(experiment: str, ledger: Ledger, value: float | None, dataset: str = "pets") -> Side:
    values = [] if value is None else [value]
    state = TrialState.RUNNING if value is None else TrialState.FINISHED
    return Side(experiment, add_trial(ledger, values, dataset=dataset, state=state), {})


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (("one", 120.0), ("one", 100.0), r"^pets-\S+-0000 leads by 20.0 val rsum, 120.0 against 100.0\. "),
        (("one", 100.0), ("one", 120.0), r"^pets-\S+-0001 leads by 20.0 val rsum, 120.0 against 100.0\. "),
        (("one", 100.0), ("two", 120.0), r"^two/pets-\S+-0001 leads.* other seeds may reverse"),
        (("one", 100.0), ("one", 100.0), r"^the two have equal val rsum: 100.0$"),
        (("one", 100.0), ("one", None), r"^neither is called better: not both have a value"),
        (("one", 120.0), ("one", 100.0, "birds"), r"^neither is called better: .*different datasets"),
    ],
    ids=["first", "second", "two experiments", "equal", "without a value", "two datasets"],
)
def test_which_is_better_is_said_with_how_sure_that_is(
    ledger: Ledger, first: tuple[str, float], second: tuple[str, float | None], said: str
) -> None:
    sides = [side(experiment, ledger, *about) for experiment, *about in (first, second)]  # type: ignore[arg-type]
    assert re.search(said, which_is_better(*sides))


def test_a_confirmed_trial_is_what_the_verdict_says_also_where_no_table_has_it(ledger: Ledger) -> None:
    """Every pair with the winner has the word and the p-value of the verdict, whichever of the two is named first."""
    rng = np.random.default_rng(1)
    candidates = []
    for number, loss in enumerate(("nt_xent", "nt_xent", "triplet", "triplet", "circle")):
        values = {run: {"val/rsum": 100.0 - number, "test/rsum": 100 - number / 2 + rng.normal()} for run in range(5)}
        trial = add_trial(ledger, [100.0 - number])
        candidates.append(Runs.of_seeds(trial.id, values, loss=loss, parameters={"scale": float(number)}))
    verdict = judge(candidates)
    sides = {trial.id: Side("one", trial, {}, verdict=verdict) for trial in ledger.history.trials.values()}
    winner = sides[candidates[0].label]
    for pair in verdict.pairs:
        said = which_is_better(winner, sides[pair.second])
        assert said == which_is_better(sides[pair.second], winner)
        assert f" is {pair.verdict}: " in said and said.endswith(p_equals(pair.p))


def test_two_candidates_that_did_not_win_pay_for_every_pair(ledger: Ledger) -> None:
    candidates = [
        Runs.of_seeds(add_trial(ledger, [100.0 - gap]).id, values, loss=f"loss{gap}")
        for gap in (0, 2, 4)
        for values in [{run: {"val/rsum": 100.0 - gap, "test/rsum": run / 1.5 - gap} for run in range(5)}]
    ]
    pair = pair_of_any(judge(candidates), candidates[1].label, candidates[2].label)
    samples = [candidate.sample("test/rsum") for candidate in candidates[1:]]
    assert pair.p == pytest.approx(3 * ttest_ind(*samples, equal_var=False).pvalue)
    assert pair.verdict is Verdict.TIE and pair.p > 0.035 > pair.p / 3


def test_a_baseline_without_a_row_has_one_word_in_every_question(ledger: Ledger) -> None:
    """As the only pair that was named beforehand it is worse, and so it is wherever the pair is shown."""
    candidates = [
        Runs.of_seeds(add_trial(ledger, [100.0 - number]).id, values, loss=loss, parameters={"scale": float(number)})
        for number, (loss, gap) in enumerate((("nt_xent", 0.0), ("nt_xent", 0.1), ("triplet", 0.1), ("triplet", 2.3)))
        for values in [{run: {"val/rsum": 100.0 - number, "test/rsum": run / 1.5 - gap} for run in range(5)}]
    ]
    verdict = judge(candidates, baseline=candidates[3].label)
    winner, *_, baseline = (Side("one", trial, {}, verdict=verdict) for trial in ledger.history.trials.values())
    answers = {answer.key: answer for answer in answer_questions(verdict)}
    assert answers["published"].verdict == verdict.pair_of[candidates[3].label].verdict == "better"
    assert verdict.word_on(candidates[3].label) == "worse"
    assert " is better: +2.3 " in which_is_better(winner, baseline)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["winner first", "winner second"])
def test_what_a_confirmation_found_is_said_before_single_trainings(tmp_path: Path, order: tuple[int, int]) -> None:
    with begin(tmp_path, "one", confirm={"top": 1, "seeds": 3}) as ledger:
        # The search had the second ahead; fresh seeds have the first ahead.
        trials = [add_trial(ledger, [value], loss=loss) for value, loss in ((100.0, "nt_xent"), (120.0, "triplet_sh"))]
        values = ([300.0, 301.0, 302.0], [100.0, 101.0, 102.0])
        open_test(ledger, add_repeats(ledger, zip(trials, values, strict=True), 0))
    said = which_is_better(*(find_side(f"one/{trials[place].id}", tmp_path) for place in order))
    assert said.startswith(f"with fresh seeds {trials[0].id} is better: +200.0 test rsum")


def test_fresh_seeds_decide_also_against_the_last_candidate_on_val(tmp_path: Path) -> None:
    with begin(tmp_path, "one", confirm={"top": 3, "seeds": 3}) as ledger:
        trials = [add_trial(ledger, [value]) for value in (110.0, 100.0, 120.0)]
        values = ([300.0, 301.0, 302.0], [200.0, 201.0, 202.0], [100.0, 101.0, 102.0])
        open_test(ledger, add_repeats(ledger, zip(trials, values, strict=True), 0))
    sides = [find_side(f"one/{trials[place].id}", tmp_path) for place in (2, 0)]
    assert which_is_better(*sides).startswith(f"with fresh seeds {trials[0].id} is better: +200.0 test rsum")


def test_compare_begins_with_which_is_better(output: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.commands.results.comparison_page", lambda uri, trials: f"/#/{trials}")
    sides = ["one/pets-vsepp-nt_xent-0000", "pets-vsepp-triplet_sh-0000"]
    page = "/#/[('one', 'pets-vsepp-nt_xent-0000'), ('one', 'pets-vsepp-triplet_sh-0000')]"
    arguments = ("compare", *sides, "--output", output)
    assert cli.json(*arguments)["page"] == page
    lines = cli.shows(*arguments).splitlines()
    assert lines[:3] == [
        "Which of two trials is better?",
        "the two have equal val rsum: 120.0.",
        "A: one/pets-vsepp-nt_xent-0000: τ = 0.1",
    ]
    assert lines[-2:] == [
        f"in the browser, with `orchestrator ui --output {output}` running:",
        f"http://127.0.0.1:5000{page}",
    ]


OWNER = np.repeat(np.arange(30, dtype=np.int32), 2)


def ranks_of(seed: int, typical: float = 4.0) -> Ranks:
    return draw_ranks(seed, typical, OWNER)


def test_counts_and_leads_are_those_of_a_loop() -> None:
    first, second = [ranks_of(1), ranks_of(2), ranks_of(3)], [ranks_of(4, 9.0), ranks_of(5, 9.0)]
    rows = compare_queries(first, second, ("a", "b")).rows
    for way, query in (("i2t", "an image"), ("t2i", "a caption")):
        queries = range(30) if way == "i2t" else range(60)
        medians = [
            [median(int(one.i2t[q == OWNER].min() if way == "i2t" else one.t2i[q]) for one in runs) for q in queries]
            for runs in (first, second)
        ]
        pairs = list(zip(*medians, strict=True))
        for depth, counts in zip(DEPTHS, (row for row in rows if row[0] == query), strict=True):
            assert counts == (
                query,
                depth,
                sum(a <= depth and b <= depth for a, b in pairs),
                sum(a <= depth < b for a, b in pairs),
                sum(b <= depth < a for a, b in pairs),
                sum(a > depth and b > depth for a, b in pairs),
            )
        medians_of = [median_ranks(runs)[query] for runs in (first, second)]
        assert [of.tolist() for of in medians_of] == medians
        for ahead, behind in (medians_of, medians_of[::-1]):
            leads = [math.log(behind[place] / ahead[place]) for place in largest_leads(ahead, behind)]
            best = sorted((math.log(b / a) for a, b in zip(ahead, behind, strict=True) if b > a), reverse=True)
            assert leads == pytest.approx(best[:SHOWN])


def test_equal_ranks_are_no_lead_and_other_queries_are_refused() -> None:
    assert all(largest_leads(ranks, ranks) == [] for ranks in median_ranks([ranks_of(1)]).values())
    with pytest.raises(ValueError, match="other queries"):
        compare_queries([ranks_of(1)], [replace(ranks_of(1), queries="cd" * 32)], ("a", "b"))
