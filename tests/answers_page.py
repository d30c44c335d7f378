"""Makes docs/answers.md: the sentences with which the product answers a question, from small studies made here.

    python -m tests.answers_page > docs/answers.md

The numbers are made up; the sentences are those of ``orchestrator.results``.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from orchestrator.experiment.sections import Objective
from orchestrator.journal.begun_experiment import BegunConfirm, BegunExperiment
from orchestrator.journal.epochs import Epochs
from orchestrator.journal.history import History
from orchestrator.journal.points import points_of
from orchestrator.journal.records import ConfirmationPlan
from orchestrator.journal.trial import PriorPoint, Stage, Trial, TrialState, best_first
from orchestrator.results.analyses import describe_early_epochs, equal_budget_answer, front_answer, optimism_answer
from orchestrator.results.answer import Answer, Json
from orchestrator.results.answers import Summary, analyses_of, over_datasets, unconfirmed
from orchestrator.results.bands import band_answers
from orchestrator.results.caveats import caveats, comparability, remarks, search_remarks
from orchestrator.results.confirmation import confirmations
from orchestrator.results.equal_budget import UNITS
from orchestrator.results.judged import judged_answer
from orchestrator.results.questions import answer_questions
from orchestrator.results.race import describe_race, run_race
from orchestrator.results.runs import RunId, Runs
from orchestrator.results.taken_back import taken_back
from orchestrator.results.trends import find_trend, trend_answer
from orchestrator.results.verdict import DatasetVerdict, judge
from tests.support.experiments import add_trial, make_experiment
from tests.support.two_coefficients import history_of
from tests.support.unwritten_ledger import UnwrittenLedger

INTRODUCTION = """# Answers

With which sentences do `orchestrator summarise`, the report and the files answer? The studies are made up; this page is
made by `python -m tests.answers_page > docs/answers.md`. `compare`, `regress`, `certify` and `evaluate` have other
sentences. [How the tests work](reference/confirmation.md), [what a term means](glossary.md).

An answer has a verdict. `better`: the winner leads by more than chance. `tie`: no significant difference. `worse`: the
winner was best on val and is worse on test. `untested`: the values do not suffice for a test. `unconfirmed`: no
fresh seeds have been trained yet. A sentence is shown once, with the names and numbers of its first case.
"""

Case = tuple[str, Sequence[str]]
"""When a sentence is said, and the sentences."""

NOISE = np.array([-1.0, 0.0, 1.0])


def candidate(
    label: str,
    loss: str,
    mean: float,
    *,
    seeds: int = 3,
    val: float | None = None,
    images: float = 0.0,
    noise: float = 1.0,
    model: str = "vsepp",
    missing: Mapping[int, str] | None = None,
    **parameters: float,
) -> Runs:
    """Return a candidate with a mean on test; ``images`` is the spread of its values over 100 images."""
    values = {seed: mean + noise * float(NOISE[(seed + len(label)) % 3]) for seed in range(seeds)}
    metrics = {seed: {"val/rsum": mean if val is None else val, "test/rsum": value} for seed, value in values.items()}
    of_image = images * np.random.default_rng(sum(map(ord, label))).standard_normal(100)
    of_image -= of_image.mean()
    kept = {seed: value + of_image for seed, value in values.items()} if images else {}
    about = {"dataset": "flickr8k", "model": model, "loss": loss, "parameters": parameters}
    return Runs.of_seeds(label, metrics, missing=missing, images={"test/rsum": kept} if kept else {}, **about)


def verdict_of(candidates: Sequence[Runs], baseline: str | None = None) -> DatasetVerdict:
    return judge(candidates, baseline=baseline, over_images=all(one.images for one in candidates))


NT = candidate("a", "nt_xent", 197.8, temperature=0.1)
COLD = candidate("bb", "nt_xent", 191.0, temperature=0.0079)
NEAR = candidate("bb", "nt_xent", 196.9, temperature=0.0079)
SH = candidate("ccc", "triplet_sh", 182.5, margin=0.2)
SH_NEAR = candidate("ccc", "triplet_sh", 196.9, margin=0.2)
CIRCLE = candidate("dddd", "circle", 160.0, margin=0.4)
HIDDEN = candidate("hh", "triplet_sh", 197.0, val=180.0, margin=0.4)
BEST_ON_VAL = candidate("e", "circle", 170.0, val=200.0, margin=0.4)
IMAGES = [
    candidate("a", "nt_xent", 197.8, images=20.0, temperature=0.1),
    candidate("ccc", "triplet_sh", 182.5, images=20.0, margin=0.2),
]
LOST = candidate("w", "warp", 150.0, seeds=1, missing={1: "diverged", 2: "diverged"})
FAR = [candidate(loss, loss, 150.0) for loss in ("sigmoid", "smooth_ap", "warp")]
ALIKE = (("a", "nt_xent"), ("b", "triplet_sh"))
CLOSE_IMAGES = [IMAGES[0], candidate("ccc", "triplet_sh", 195.0, images=20.0, margin=0.2)]

ZERO_SHOT = replace(NT, label="z", model="clip", loss="zero_shot", parameters={"model.trained": "none"})

STUDIES: Sequence[tuple[str, Sequence[Runs], str | None]] = (
    ("two losses, over seeds and images", IMAGES, None),
    ("two losses that tie, over seeds and images", CLOSE_IMAGES, None),
    ("three losses", [NT, SH, CIRCLE], None),
    ("three losses, two of which tie", [NT, SH_NEAR, CIRCLE], None),
    ("a setting that val ranks lower decides", [NT, HIDDEN, replace(SH, label="f")], None),
    ("best on val, worse on test", [BEST_ON_VAL, SH], None),
    ("one seed", [candidate("a", "nt_xent", 197.8, seeds=1), candidate("ccc", "triplet_sh", 182.5, seeds=1)], None),
    ("every candidate lost a seed", [replace(one, missing={RunId(0, 9): "diverged"}) for one in (NT, SH)], None),
    ("a loss that lost its seeds", [NT, SH, CIRCLE, LOST], None),
    ("all other candidates lost their seeds", [NT, LOST], None),
    (
        "the choice among many settings decides",
        [
            *(candidate("c" * n, "circle", 198 - n / 10, margin=n / 10) for n in range(1, 9)),
            candidate("t", "triplet_sh", 194.4, margin=0.2),
        ],
        None,
    ),
    ("most settings are beaten", [NT, SH_NEAR, CIRCLE, *FAR], None),
    ("a setting that lost its seeds", [NT, replace(LOST, loss="nt_xent"), SH], None),
    ("no spread", [candidate(label, loss, 190.0, noise=0.0) for label, loss in ALIKE], None),
    (
        "no spread, and a difference",
        [candidate(label, loss, 190.0 + len(loss), noise=0.0) for label, loss in ALIKE],
        None,
    ),
    ("two models", [NT, candidate("v", "nt_xent", 180.0, model="vsrn", temperature=0.1)], None),
    (
        "no training finished",
        [Runs.of_seeds("a", {}, missing={1: "diverged"}, dataset="flickr8k", model="vsepp", loss="warp")],
        None,
    ),
    ("two settings", [NT, COLD], None),
    ("two settings that tie", [NT, NEAR], None),
    ("three settings", [NT, COLD, candidate("g", "nt_xent", 170.0, temperature=1.0)], None),
    ("a single candidate", [NT], None),
    ("two settings of others lead", [BEST_ON_VAL, SH, candidate("bb", "warp", 172.45, val=160.0)], None),
    ("better than the published settings", [NT, SH], "ccc"),
    ("no better than the published settings", [NT, SH_NEAR], "ccc"),
    ("the published settings win", [NT, SH], "a"),
    ("worse than the published settings", [BEST_ON_VAL, SH], "ccc"),
    ("a pretrained model, not trained, wins", [ZERO_SHOT, replace(SH, model="clip")], "z"),
)


def question_cases() -> Iterator[tuple[str, Answer]]:
    """Yield when an answer of ``questions`` is given, and the answer."""
    for when, candidates, baseline in STUDIES:
        for answer in answer_questions(verdict_of(candidates, baseline)):
            if baseline is None or answer.key == "published":
                yield when, answer
    for when, losses in (
        ("two losses, searched repeatedly", IMAGES),
        ("two losses that tie, searched repeatedly", CLOSE_IMAGES),
        ("three losses, searched repeatedly", [NT, SH, CIRCLE]),
        ("a loss that lost its searches", [NT, SH, CIRCLE, LOST]),
    ):
        yield when, answer_questions(verdict_of([searched_repeatedly(loss) for loss in losses]))[0]
    value = {RunId(0, 0): {"test/rsum": 150.0, "val/rsum": 150.0}}
    constant = replace(ZERO_SHOT, values=value, has_seeds=False, is_constant=True)
    tuned = [replace(searched_repeatedly(loss), model="clip") for loss in (NT, SH)]
    for answer in answer_questions(verdict_of([*tuned, constant], "z")):
        yield "beside a pretrained model, not trained", answer
    for answer in answer_questions(replace(verdict_of([NT, SH], "ccc"), named_baseline=True)):
        if answer.key == "published":
            yield "better than a baseline that the experiment names", answer


def searched_repeatedly(candidate: Runs) -> Runs:
    """Return a candidate whose runs are searches of six trials each, instead of seeds."""

    def by_search(of_run: Mapping[RunId, Any]) -> dict[RunId, Any]:
        return {RunId(run.seed + 1, 0): value for run, value in of_run.items()}

    images = {metric: by_search(of_run) for metric, of_run in candidate.images.items()}
    runs, missing = by_search(candidate.values), by_search(candidate.missing)
    return replace(candidate, values=runs, images=images, missing=missing, is_repeated=True, trials=6)


def warned_cases() -> Iterator[tuple[str, Answer]]:
    """Yield what an answer says of a verdict that rests on less than was planned."""
    yield "the ranks of a candidate were not kept", answer_questions(judge([IMAGES[0], SH], over_images=True))[0]
    yield "the baseline has no seed", answer_questions(judge([NT, SH], baseline="warp"))[0]
    plain = BegunConfirm(verdict="seeds")
    for when, nt_xent, confirm, first, looks in (
        ("the values had been looked at", [190.0], plain, 0.1, 1),
        ("settings without effect", [190.0, 190.0], plain, 0.1, 0),
        ("the baseline was not confirmed", [190.0], replace(plain, baseline="warp"), 0.1, 0),
        ("the published settings were not searched", [190.0], plain, 0.3, 0),
        ("the published settings were not confirmed", [180.0, 190.0], plain, 0.1, 0),
    ):
        history = trials_of("flickr8k", {"nt_xent": nt_xent, "triplet_sh": [170.0]}, first=first)
        history.confirm = confirm
        yield when, answer_questions(confirmed(history, looks))[0]
    history = trials_of("flickr8k", {"nt_xent": [190.0], "triplet_sh": [170.0]})
    refused = BegunExperiment.of({**history.experiment.values, "losses": ["loss_of_a_plugin"]})
    history.experiment, history.confirm = refused, plain
    yield "a plug-in is not installed", answer_questions(confirmed(history))[0]


def confirmed(history: History, looks: int = 0) -> DatasetVerdict:
    """Return the verdict after the best trial of each loss was trained again with three seeds."""
    studies = dict.fromkeys(trial.study for trial in history.trials.values())
    best = [best_first(history.study(study))[0] for study in studies]
    history.plans["flickr8k"] = ConfirmationPlan(
        dataset="flickr8k",
        candidates=tuple(trial.id for trial in best),
        seeds=len(NOISE),
        trainings=None,
        baseline=None,
        looks=looks,
    )
    for trial in best:
        for seed, noise in enumerate(NOISE):
            repeat = replace(trial, id=f"{trial.id}-seed{seed}", stage=Stage.CONFIRM, candidate=trial.id)
            repeat.config = replace(trial.config, seed=seed)
            history.trials[repeat.id], history.tests[repeat.id] = repeat, {"rsum": (trial.best_value or 0.0) + noise}
    (confirmation,) = confirmations(history).values()
    return confirmation.verdict


def trials_of(
    dataset: str, values: Mapping[str, Sequence[float]], states: Sequence[TrialState] = (), first: float = 0.1
) -> History:
    """Return a search of losses with a value a trial; the last trials of the last loss have other states."""
    ledger = UnwrittenLedger(make_experiment(losses=list(values), datasets=[dataset], training={"epochs": 2}))
    for loss, of_loss in values.items():
        name = "temperature" if loss == "nt_xent" else "margin"
        for number, value in enumerate(of_loss):
            params = {name: first + number / 10}
            add_trial(ledger, [value - 1, value], loss=loss, dataset=dataset, params=params)
    for trial, state in zip(reversed(ledger.history.trials.values()), states, strict=False):
        trial.state = state
    return ledger.history


def summary_of(verdicts: Mapping[str, DatasetVerdict]) -> Summary:
    """Return the summary of datasets with these verdicts."""
    history = History(experiment=BegunExperiment.of(make_experiment(datasets=list(verdicts)).to_dict()))
    for dataset in verdicts:
        history.trials |= trials_of(dataset, {"nt_xent": [190.0], "triplet_sh": [170.0]}).trials
    summary = Summary(history)
    vars(summary)["verdicts"] = dict(verdicts)
    vars(summary)["taken_back"] = dict.fromkeys(verdicts, ())
    return summary


def over_cases() -> Iterator[tuple[str, Answer]]:
    """Yield the answers over several datasets: the same order of losses on both, and another order."""
    same = {"flickr8k": 1.0, "flickr8k_zh": 1.0}
    for when, sign in (("the same order on all datasets", same), ("another order", {**same, "flickr8k_zh": -1.0})):
        verdicts = {}
        for dataset, direction in sign.items():
            pair = [
                candidate(label, loss, 190.0 + direction * lead, images=20.0)
                for label, loss, lead in (("a", "nt_xent", 9.0), ("ccc", "triplet_sh", -9.0))
            ]
            verdicts[dataset] = verdict_of([replace(one, dataset=dataset) for one in pair])
        for answer in over_datasets(summary_of(verdicts)):
            yield when, answer


def unconfirmed_cases() -> Iterator[tuple[str, Answer]]:
    """Yield the answers before a confirmation."""
    for when, values, states in (
        ("before a confirmation", {"nt_xent": [451.3, 440.0], "triplet_sh": [430.0]}, ()),
        ("no training has ended", {"nt_xent": [451.3]}, (TrialState.RUNNING,)),
        ("before the first epoch", {"nt_xent": []}, ()),
    ):
        yield when, unconfirmed(Summary(trials_of("flickr8k", values, states)), "flickr8k")  # type: ignore[arg-type]
    history = trials_of("flickr8k", {"nt_xent": [451.3, 440.0]})
    first, again = history.trials.values()
    again.candidate = first.id
    yield "a setting with two trainings", unconfirmed(Summary(history), "flickr8k")
    history.experiment = replace(history.experiment, datasets=("flickr8k", "flickr8k_zh"))
    history.trials |= trials_of("flickr8k_zh", {"nt_xent": [440.0]}).trials
    for answer in over_datasets(Summary(history)):
        yield "before a confirmation", answer


BUDGET: Json = {
    "metric": "val/rsum",
    "hours_are": "GPU hours",
    "losses": [
        {
            "label": loss,
            "model": "vsepp",
            "loss": loss,
            "candidates": 6,
            **{unit: [1.0, 2.0, 4.0, 6.0] for unit in UNITS},
            **{name: [150.0 + lead, 160.0 + lead, 170.0 + lead, 175.0 + lead] for name in ("expected", "low", "high")},
        }
        for loss, lead in (("nt_xent", 4.2), ("triplet_sh", 0.0))
    ],
    "comparisons": [
        {
            "first": "nt_xent",
            "other": "triplet_sh",
            "trials": 6,
            "difference": 4.2,
            "crossings": {"trials": [], "epochs": [], "hours": []},
            "further_trials": 6,
        }
    ],
}


def _crossing(**changes: object) -> Json:
    return {**BUDGET, "comparisons": [BUDGET["comparisons"][0] | changes]}


def _early(tau: float, grace: int | None, *, settings: int = 9, first: int | None = 6, loss: str = "nt_xent") -> Json:
    about = {"loss": loss, "settings": settings, "begun": 9 if settings == 9 else 24, "grace_epochs": grace}
    return {**about, "first_telling_epoch": first, "tau": {"3": tau, "6": 0.7}}


def taken_back_cases() -> Iterator[tuple[str, str, Sequence[str]]]:
    """Yield question, case and sentences of what takes a headline back."""
    values = ((190.0, 191.0, 189.0), (187.0, 188.0, 120.0))
    settings = [
        Runs.of_seeds(label, {seed: {"val/rsum": of, "test/rsum": of} for seed, of in enumerate(seeds)}, loss="nt_xent")
        for label, seeds in zip("ab", values, strict=True)
    ]
    collapsed = verdict_of([*settings, candidate("ccc", "triplet_sh", 150.0)])
    over, alone = (judge(CLOSE_IMAGES, over_images=over_images) for over_images in (True, False))
    for when, sentences in (
        ("the seeds alone say more", taken_back(over, alone, None, None)),
        ("new images say less", taken_back(alone, over, None, None)),
        ("a seed of another setting collapsed", taken_back(collapsed, None, None, None)),
        ("nothing is better than chance", taken_back(verdict_of([NT, SH]), None, None, 210.0)),
    ):
        yield "What takes the headline back?", when, sentences


def analysis_cases() -> Iterator[tuple[str, str, Sequence[str]]]:
    """Yield question, case and sentences of the analyses."""
    budget = "Whose trials lead at an equal budget?"
    crossing = [{"at": 5.0, "ahead": "nt_xent"}]
    crossed = _crossing(crossings={"trials": crossing, "epochs": [{"at": 24.2, "ahead": "nt_xent"}], "hours": crossing})
    twice = _crossing(difference=-1.0, crossings={"trials": crossing * 2, "epochs": [], "hours": []})
    slow = {**BUDGET["losses"][0], "epochs": [2.5, 5.0, 10.0, 15.0]}
    for when, found in (
        ("the leader leads at every budget", BUDGET),
        ("the leader needs more epochs a trial", {**BUDGET, "losses": [slow, *BUDGET["losses"][1:]]}),
        ("the curves cross", crossed),
        ("the curves cross twice", twice),
    ):
        answer = equal_budget_answer("flickr8k", found)
        assert answer is not None
        yield budget, when, answer.sentences
    optimism = "How optimistic was the search?"
    pair = [{"trial": "a", "search": 261.1, "fresh": 257.6}, {"trial": "b", "search": 255.0, "fresh": 256.0}]
    optimistic: Json = {"metric": "val/rsum", "candidates": pair}
    for when, excess, label in (("the winner is known", 1.25, "a"), ("the confirmation goes on", -1.25, None)):
        answer = optimism_answer("flickr8k", {**optimistic, "excess": excess}, label)
        assert answer is not None
        yield optimism, when, answer.sentences
    early = "Do early epochs rank trials like the last epoch?"
    cases = (
        ("early stopping began late enough", _early(0.62, 3)),
        ("early stopping began too early", _early(0.1, 3)),
        ("the same, where the search chose the loss", _early(0.1, 3, loss="any")),
        ("no later epoch is better", _early(0.1, 3, first=None)),
        ("most settings were stopped", _early(0.1, 3, settings=7)),
        ("without early stopping", _early(0.1, None)),
        ("without early stopping, and no epoch suffices", _early(0.1, None, first=None)),
    )
    for when, data in cases:
        yield early, when, describe_early_epochs("flickr8k-vsepp-any", data)
    spread = np.array([-0.5, 0.0, 0.5])
    for when, means in (("a curve", [190.0, 199.0, 203.0, 200.0]), ("no trend", [190.0, 190.2, 190.1, 190.0])):
        samples = {2.0**power: mean + spread for power, mean in enumerate(means)}
        trend = find_trend(samples, "negatives", "test/rsum", "triplet", "vsepp")
        answer = trend_answer("flickr8k", [trend] if trend else [])
        assert answer is not None
        yield answer.question, when, answer.sentences
    known = {"test/judged_flickr8k/i2t_top10_judged": 0.62}
    nt = replace(NT, values={run: {**metrics, **known} for run, metrics in NT.values.items()})
    for when, before, after in (
        ("the same verdict", [nt, SH], [nt, SH]),
        ("another verdict", [NT, SH], [NT, SH_NEAR]),
        ("a candidate alone", [NT], [NT]),
    ):
        answer = judged_answer(verdict_of(before), {"flickr8k": {"rsum": verdict_of(after)}})
        assert answer is not None
        yield answer.question, when, answer.sentences
    stopped = history_of(24)
    for trial in list(stopped.trials.values())[:6]:
        trial.state, trial.epochs = TrialState.STOPPED_EARLY, Epochs({1: trial.epochs[1]})
    studies = (
        ("one of two coefficients matters", history_of(24), "triplet_sh"),
        ("two coefficients belong together", history_of(48, tilt=0.6), "triplet_sh"),
        ("few trials and much noise", history_of(12, noise=12.0), "triplet_sh"),
        ("settings were stopped early", stopped, "triplet_sh"),
        ("nothing but noise", history_of(12, noise=60.0), "triplet_sh"),
        ("the winner's loss has too few trials", history_of(24), "nt_xent"),
    )
    for when, searched, loss in studies:
        for answer in band_answers("pets", list(Summary(searched).bands.values()), ("vsepp", loss)):
            yield answer.question, when, answer.sentences
    edges = [{"loss": "nt_xent", "parameter": "training.learning_rate", "key": "search.training.learning_rate"}]
    edges[0] |= {"bound": "[0.0002, 0.003] log", "lowest": 0.0027, "highest": 0.0029, "is_upper": True, "settings": 3}  # type: ignore[dict-item]
    states = (TrialState.RUNNING, TrialState.DIVERGED, TrialState.STOPPED_EARLY, TrialState.FAILED)
    values = {"nt_xent": [250.0, 260.0], "triplet_sh": [240.0, 270.0, 280.0, 1.0, 2.0]}
    summary = Summary(trials_of("flickr8k", values, states))
    vars(summary)["edges"] = {"flickr8k-vsepp-nt_xent": edges}
    for answer in analyses_of(summary, "flickr8k"):
        yield answer.question, "", answer.sentences
    goals = (Objective(metric="val/rsum"),)
    front = front_answer("flickr8k", points_of(trials_of("flickr8k", {"nt_xent": [190.0]}).trials.values()), goals)
    assert front is not None
    yield front.question, "several objectives", front.sentences


def caveat_cases() -> Iterator[tuple[str, str, Sequence[str]]]:
    """Yield question, case and sentences about what limits the results of a dataset."""

    def searched(*values: float) -> list[Trial]:
        return list(trials_of("flickr8k", {"nt_xent": values}).trials.values())

    limits, happened = "What limits these results?", "What else happened in the search?"
    first, second = searched(190.0, 180.0)
    first.environments, second.environments = ({"versions": {"torch": "2.9.0"}},), ({"versions": {"torch": "2.8.0"}},)
    yield limits, "versions of libraries differ", caveats([first, second])
    first, again = searched(190.0, 180.0)
    again.candidate = first.id
    yield happened, "a setting with two trainings", remarks([first, again])
    yield happened, "settings that trained alike", remarks(searched(190.0, 190.0))
    (rising,) = searched(190.0)
    rising.epochs = Epochs({epoch: {"val/rsum": 20.0 * epoch} for epoch in range(1, 10)})
    yield limits, "the metric still rises at the end", caveats([rising])
    rates: dict[str, Any] = {"training": {"learning_rate": [1e-4, 1e-2]}}
    for when, settings in (
        ("a search for each loss", {"search": rates}),
        ("one search of all losses", {"search": {**rates, "loss": "choose"}}),
        ("one learning rate", {}),
    ):
        experiment = make_experiment(losses=["nt_xent", "triplet_sh"], datasets=["flickr8k"], **settings)
        begun = History(experiment=BegunExperiment.of(experiment.to_dict()))
        said = comparability(begun, "flickr8k")
        yield (limits, when, said) if said else (happened, when, search_remarks(begun, "flickr8k"))
    history = trials_of("flickr8k", {"nt_xent": [190.0, 180.0]})
    history.prior = {trial.study: [PriorPoint(trial.params, "flickr8k_zh")] for trial in history.trials.values()}
    yield happened, "settings of another dataset were tried first", search_remarks(history, "flickr8k")


def race_cases() -> Iterator[tuple[str, str, Sequence[str]]]:
    """Yield question, case and sentences about the rounds of a race."""
    names = {"a": "Polynomial (self) at degree = 2", "b": "Circle at margin = 0.25"}
    draws = np.random.default_rng(0).standard_normal((2, 6))
    apart, close = ((236.9 - gap, 236.9) for gap in (40.0, 0.4))
    for when, means, seeds in (
        ("its trainings go on", close, 4),
        ("its trainings are used up", close, 6),
        ("the leader is clear", apart, 6),
    ):
        values = [(mean + noise).tolist()[:seeds] for mean, noise in zip(means, draws, strict=True)]
        race = run_race({label: dict(enumerate(row)) for label, row in zip("ba", values, strict=True)}, 4, 12, range(6))
        yield "How were the seeds given out?", when, describe_race(race, "val/rsum", names)


TITLES = {"coefficients": "Which coefficients?", "loss": "Which loss?"}
"""Key of an answer -> its title on the page."""

LOSS = re.compile(r"(?:NT-Xent|Triplet SH|Triplet|Circle|Polynomial \(self\))(?:(?: at|,| \() ?\w+ = [\d.]*\d\)?)?")
"""A loss, and its setting where one follows."""


def form(sentence: str) -> str:
    """Return a sentence without its names of losses, settings and numbers."""
    without = re.sub(r"Candidate \w+", "LOSS", LOSS.sub("LOSS", sentence))
    return re.sub(r"(?:[<>=≤]|above) ?(?=#)", "", re.sub(r"[−+-]?\d+(?:[.,]\d+)*", "#", without))


def page() -> str:
    """Return the page."""
    groups: dict[str, list[tuple[str, str, Sequence[str]]]] = {}
    warned = [("", answer) for _, answer in warned_cases()]
    answers = [*question_cases(), *warned, *over_cases(), *unconfirmed_cases()]
    for when, answer in answers:
        question = TITLES.get(answer.key, answer.question)
        groups.setdefault(question, []).append((when, answer.verdict, answer.sentences))
    for question, when, sentences in (*taken_back_cases(), *analysis_cases(), *race_cases(), *caveat_cases()):
        groups.setdefault(question, []).append((when, "", sentences))
    parts, known = [INTRODUCTION], set[str]()
    for question, cases in groups.items():
        parts.append(f"## {question}\n")
        for when, verdict, said in cases:
            new = [sentence for sentence in said if form(sentence) not in known]
            known.update(map(form, new))
            label = f"{when[:1].upper()}{when[1:]}{f': *{verdict}*' if verdict else ''}. " if when else ""
            parts += [f"- {label}{' '.join(new)}"] if new else []
        parts.append("")
    return "\n".join(parts)


if __name__ == "__main__":
    print(page(), end="")
