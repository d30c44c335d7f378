"""The confirmation of a dataset, built once from a history: its trainings, its rounds, its candidates and its verdict.

A person who has seen values and then changes the design looks twice. So the first plan of a dataset has the whole
level, and all later plans together have ``RESERVE``. A plan counts as seen once test was opened. It also counts as
seen once two of its candidates had two ended trainings each, because val of a confirmation can be watched.

The trainings of a design are those of the rounds so far (``race.py``); a fixed design has a single round. They follow
from the journal, so a confirmation that was killed resumes with the trainings that are missing.

A dataset is judged only when its confirmation is over. Then every repeated trial has ended and, where it finished, has
been evaluated on the test split. Until then the best trial of the search is an unconfirmed winner.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from statistics import fmean
from typing import Any

from msgspec import structs

from orchestrator.experiment.experiment import Experiment, known_experiment
from orchestrator.journal.history import History
from orchestrator.journal.points import differing, points_of
from orchestrator.journal.records import ConfirmationPlan, TrialCreated
from orchestrator.journal.trial import Stage, Trial, TrialState
from orchestrator.results.confirmation_plan import (
    level_of_plan,
    published_default,
    repeat,
    seeds_of,
    share_runs,
    wanted_plans,
)
from orchestrator.results.luck import variance_of_best
from orchestrator.results.race import LEAST, Race, run_race
from orchestrator.results.runs import RunId, Runs
from orchestrator.results.statistics import Sample
from orchestrator.results.verdict import DatasetVerdict, judge
from orchestrator.text.values import in_digits
from orchestrator.text.wording import at_setting, listed, loss_of_model, parameter_names, setting_text
from trainables.errors import ConfigError
from trainables.metric_table import BEST, TEST, in_section, name_parts, without_section
from trainables.metric_values import image_values
from trainables.ranks import Ranks, unpack_numbers

LEVEL_OF_0_2 = 0.04
"""Level of a fixed design of version 0.2 whose plan has no level."""

OUTSIDE = "outside"
"""Name of the model of a candidate that was trained elsewhere; the name of its loss is its label."""


@dataclass(frozen=True)
class Confirmation:
    """The confirmation of a dataset so far by its design; each result is computed when first asked for, and kept."""

    history: History
    dataset: str
    plan: ConfirmationPlan

    @property
    def is_raced(self) -> bool:
        """Whether the design gives out its later trainings round by round, to the candidates in front."""
        return self.plan.trainings is not None

    @cached_property
    def race(self) -> Race:
        """The rounds of the design so far."""
        plan, history = self.plan, self.history
        labels = [label for label in plan.candidates if label not in self._once]
        trials = {label: [trial for trial in self._trained if trial.candidate == label] for label in labels}
        first = plan.first or plan.seeds or LEAST
        most = plan.trainings or first * len(trials)
        places = {label: {seed: place for place, seed in enumerate(self._seeds(label, most))} for label in trials}
        ended = {
            label: {
                places[label][training.config.seed]: training.at_best[history.metric]
                if _has_finished(training)
                else None
                for training in repeats
                if training.has_ended and training.config.seed in places[label]
            }
            for label, repeats in trials.items()
        }
        return run_race(ended, first, most, range(most))

    def _seeds(self, label: str, count: int) -> list[int]:
        """Return the fresh seeds of a candidate, in the order in which it gets them."""
        return seeds_of(self.history.trials[label], self.history.seed, count)

    @cached_property
    def _once(self) -> list[str]:
        """The candidates of repeated searches that are evaluated once, because nothing of them is trained."""
        return [label for label in self.plan.candidates if self.is_repeated and self.history.trials[label].is_zero_shot]

    @cached_property
    def trainings(self) -> list[tuple[int, TrialCreated]]:
        """The trainings that the plan has given out, ended or not, each with the place of its seed."""
        counts = {**self.race.seeds, **dict.fromkeys(self._once, 1)}
        seeds = {label: self._seeds(label, count) for label, count in counts.items()}
        return [
            (index, repeat(self.history.trials[label], index, seeds[label][index]))
            for index in range(max(counts.values(), default=0))
            for label, count in counts.items()
            if index < count
        ]

    @cached_property
    def _trained(self) -> list[Trial]:
        trials = self.history.stage(Stage.CONFIRM)
        return [trial for trial in trials if trial.config.dataset == self.dataset]

    @property
    def is_repeated(self) -> bool:
        """Whether the studies were searched several times, so that losses are compared, and not settings."""
        return self.history.experiment.repeats > 1

    @cached_property
    def repeats(self) -> list[Trial]:
        """The trainings on which the verdict rests: of a race or repeated searches, those that the plan gave out."""
        if not self.is_raced and not self.is_repeated:
            return self._trained
        trial_ids = {training.trial for _, training in self.trainings}
        return [trial for trial in self._trained if trial.id in trial_ids]

    @property
    def is_over(self) -> bool:
        """Whether the dataset can be judged: its trainings have ended and, where finished, been evaluated on test."""
        if not self._trained or (self.is_raced and self.race.ended is None):
            return False
        if any(training.trial not in self.history.trials for _, training in self.trainings):
            # A kill came before these trainings; those that have ended may all have diverged.
            return False
        return all(
            trial.has_ended and (not _has_finished(trial) or trial.id in self.history.tests) for trial in self.repeats
        )

    @property
    def level(self) -> float:
        """Level of the verdict, which earlier looks have lowered."""
        return level_of_plan(self.plan.level or LEVEL_OF_0_2, self.plan.looks)

    @cached_property
    def candidates(self) -> list[Runs]:
        """The settings that were trained again, with the metrics of their seeds, without the values of the images."""
        return self._candidates("", {})

    def _candidates(self, metric: str, images: Mapping[str, Sample]) -> list[Runs]:
        """Return the candidates; with the images' values of a metric (by trial) where all seeds have them."""
        if self.is_repeated:
            return self._losses(metric, images)
        groups: dict[str, list[Trial]] = {}
        for trial in self.repeats:
            groups.setdefault(str(trial.candidate), []).append(trial)
        candidates = []
        for label, trials in groups.items():
            config, seeds = trials[0].config, self.race.seeds[label] if self.is_raced else None
            finished = {trial.config.seed: trial for trial in trials if _has_finished(trial)}
            has_images = bool(images) and all(trial.id in images for trial in finished.values())
            candidate = Runs.of_seeds(
                label,
                {seed: metrics_of(trial, self.history) for seed, trial in finished.items()},
                missing={trial.config.seed: str(trial.state) for trial in trials if not _has_finished(trial)},
                images={metric: {seed: images[trial.id] for seed, trial in finished.items()}} if has_images else {},
                dataset=self.dataset,
                model=config.model,
                loss=trials[0].compared_loss,
                parameters=trials[0].parameters,
                planned=seeds,
            )
            candidates.append(candidate)
        return candidates

    def _losses(self, metric: str, images: Mapping[str, Sample]) -> list[Runs]:
        """Return a candidate for each loss that was searched repeatedly; with ``each_of``, for each of its values.

        A search has the trainings of its best setting. The label is the best setting over all searches, by the
        selection metric of the fresh seeds. A search of which a training was lost is missing, because the rest may
        flatter it. A pretrained model that is not trained is a constant beside them.
        """
        each_of, history = self.history.confirm.each_of, self.history
        groups: dict[tuple[str, str, Any], dict[int, list[Trial]]] = {}
        for trial in self.repeats:
            key = trial.config.model, trial.compared_loss, trial.params.get(each_of) if each_of else None
            groups.setdefault(key, {}).setdefault(trial.search, []).append(trial)
        candidates = []
        for key, searches in groups.items():
            lost = {number: trial.state for number, of in searches.items() for trial in of if not _has_finished(trial)}
            whole = {number: trainings for number, trainings in searches.items() if number not in lost}
            trials = {RunId(number, trial.config.seed): trial for number, of in whole.items() for trial in of}
            means = {number: fmean(trial.at_best[history.metric] for trial in of) for number, of in whole.items()}
            best = max(means, key=means.__getitem__, default=min(searches))
            has_images = bool(trials) and all(trial.id in images for trial in trials.values())
            setting = history.trials[str(searches[best][0].candidate)]
            studies = [history.study(trainings[0].study) for trainings in searches.values()]
            sizes = {len(trials_of) for trials_of in studies}
            luck = variance_of_best([self._ends(trials_of, each_of, key[-1]) for trials_of in studies])
            is_constant = setting.is_zero_shot
            candidate = Runs(
                setting.id,
                {run: metrics_of(trial, history) for run, trial in trials.items()},
                dataset=self.dataset,
                model=setting.config.model,
                loss=setting.compared_loss,
                parameters=setting.parameters,
                missing={RunId(number, 0): str(state) for number, state in lost.items()},
                images={metric: {run: images[trial.id] for run, trial in trials.items()}} if has_images else {},
                has_seeds=not is_constant,
                is_repeated=not is_constant,
                is_constant=is_constant,
                trials=sizes.pop() if len(sizes) == 1 and not is_constant else None,
                luck={} if luck is None or is_constant else {in_section(history.metric, TEST): luck},
            )
            candidates.append(candidate)
        return candidates

    def _ends(self, trials: Sequence[Trial], parameter: str | None, value: Any) -> list[float | None]:
        """Return the values of trials, of a parameter those with a value; ``None`` where not trained to the end."""
        name = self.history.metric
        return [
            trial.at_best[name] if _has_finished(trial) and name in trial.at_best else None
            for trial in trials
            if not trial.is_zero_shot and (parameter is None or trial.params.get(parameter) == value)
        ]

    @cached_property
    def alike(self) -> Mapping[str, tuple[str, ...]]:
        """Candidate -> further settings of the search that share its runs, because they trained alike in every epoch.

        Settings that an older version trained again anyway have runs of their own.
        """
        if self.is_repeated:
            # Each search counts with its own best setting, whatever another search found.
            return {}
        confirm = self.history.confirm
        labels = dict.fromkeys(
            [*self.plan.candidates, *(training.candidate for training in self._trained if training.candidate)]
        )
        searched = [point.first for point in points_of(self.history.stage(Stage.SEARCH))]
        alike = {}
        for label in labels:
            sharing = [trial.id for trial in searched if share_runs(self.history.trials[label], trial, confirm.each_of)]
            if len(sharing) > 1 and labels.keys() & sharing == {label}:
                alike[label] = tuple(name for name in sharing if name != label)
        return alike

    @cached_property
    def verdict(self) -> DatasetVerdict:
        """The verdict by the metric and the rule of the experiment; the confirmation must be over."""
        return self.judge()

    @cached_property
    def by_other_test(self) -> DatasetVerdict | None:
        """The verdict by the other of the two tests, with or without images that vary; ``None`` where there is none."""
        if self.verdict.winner is None:
            return None
        other = self.judge(rule="seeds_and_images" if self.verdict.images is None else "seeds")
        return None if other.decided_by == self.verdict.decided_by else other

    @property
    def champion(self) -> Trial | None:
        """The trial whose model is the winner's: the training of the seed with the best validation value.

        ``None`` where no seed of any candidate finished.
        """
        winner, metric = self.verdict.winner, self.verdict.selection
        if winner is None:
            return None
        trials = [trial for trial in self.repeats if trial.candidate == winner.label and _has_finished(trial)]
        return max(trials, key=lambda training: training.at_best[metric])

    def judge(
        self,
        *,
        metric: str | None = None,
        images: Mapping[str, Sample] | None = None,
        rule: str | None = None,
        outside: Sequence[Runs] = (),
    ) -> DatasetVerdict:
        """Return the verdict by another metric, by another rule or beside further candidates.

        Args:
            metric: Metric of the test split that decides; ``None`` for the metric that selects, on the test split.
            images: Trial -> value of each image in this metric, shape (I,); ``None`` computes the values from the kept
                ranks.
            rule: ``seeds`` or ``seeds_and_images``, which vary in the test that decides; ``None`` for the journal's
                rule.
            outside: Candidates that were trained elsewhere, with the metrics that select and decide.

        Raises:
            ConfigError: If a seed lacks the metric.
            DataError: If kept ranks are damaged.
        """
        selection = self.history.metric
        decisive = metric or in_section(selection, TEST)
        confirm = self.history.confirm
        varying = rule or confirm.verdict
        baseline, problem = self._baseline
        verdict = judge(
            [*self._candidates(decisive, self.kept_values(decisive) if images is None else images), *outside],
            metric=decisive,
            selection=selection,
            baseline=baseline,
            level=self.level,
            over_images=varying == "seeds_and_images",
            smallest_difference=confirm.smallest_difference if metric is None else 0.0,
        )
        further = problem
        if self.plan.looks:
            times = "once" if self.plan.looks == 1 else f"{self.plan.looks} times"
            level = in_digits(self.level, 2)
            further.append(
                f"its values had been looked at {times} before this plan, so p must be at most {level}; "
                f"plan all seeds, or a race, at once"
            )
        for label, others in self.alike.items():
            trials = [self.history.trials[name] for name in (label, *others)]
            # A setting that was trained twice is no finding.
            if names := differing(trials):
                further.append(
                    f"{len(trials)} settings that differ in {listed(parameter_names(names).values())} gave identical "
                    f"results in every epoch; only {setting_text(trials[0].parameters, names)} was confirmed"
                )
        named = confirm.baseline is not None
        return replace(verdict, warnings=(*verdict.warnings, *further), named_baseline=named)

    @cached_property
    def _baseline(self) -> tuple[str | None, list[str]]:
        """The label or loss of the baseline, or a sentence about why there is no baseline."""
        confirm = self.history.confirm
        loss = confirm.baseline
        if loss is not None:
            known = any(candidate.loss == loss for candidate in self.candidates)
            return (loss, []) if known else (None, [f"the baseline {loss!r} was not confirmed on {self.dataset}"])
        labels = [candidate.label for candidate in self.candidates]
        if self.is_repeated:
            # The zero-shot model of the plan, if there is one.
            return self.plan.baseline if self.plan.baseline in labels else None, []
        if known_experiment(self.history) is None:
            # Without the search spaces, e.g. because a plug-in is missing, the plan says which settings are published.
            unknown = "this version refuses the experiment, so the published settings are not known"
            return (self.plan.baseline, []) if self.plan.baseline in labels else (None, [unknown])
        default = published_default(self.history, self.dataset)
        if default is None:
            return None, ["no trial had the published settings of its loss, so there is no baseline; name one"]
        label = next((label for label in labels if default.id in (label, *self.alike.get(label, ()))), None)
        return label, [] if label else [f"the published settings, {default.id}, were not confirmed"]

    @property
    def kept_ranks(self) -> Ranks | None:
        """The first kept ranks on test, which say what the queries are; ``None`` where none were kept."""
        texts = (self.history.test_ranks.get(training.id) for training in self.repeats)
        text = next(filter(None, texts), None)
        return None if text is None else Ranks.from_text(text)

    def kept_values(self, metric: str) -> dict[str, Sample]:
        """Return trial -> values of the images, of trials whose kept ranks have the queries of the first kept ranks.

        Raises:
            KeyError: If the metric is no mean over queries.
        """
        texts = self.history.test_ranks
        kept = {training.id: Ranks.from_text(texts[training.id]) for training in self.repeats if training.id in texts}
        name, first = without_section(metric), self.kept_ranks
        return {
            trial: image_values(ranks, name, self._values_of(trial))
            for trial, ranks in kept.items()
            if first is not None and ranks.has_queries_of(first)
        }

    def _values_of(self, trial: str) -> dict[str, Sample]:
        """Return metric of a plug-in, of one direction -> the kept values of the images (``DataError`` if damaged)."""
        return {name: unpack_numbers(text) for name, text in self.history.test_values.get(trial, {}).items()}

    def trained_elsewhere(self, label: str, runs: Sequence[tuple[Mapping[str, float], Ranks]]) -> Runs:
        """Return a model that was trained elsewhere as a candidate for ``judge``.

        Each run has metrics on val and test, and ranks on test. A single run counts as that of a model without seeds,
        whose further runs would give equal values.

        Raises:
            ConfigError: If the label is taken, or the queries of a run are not the queries of the experiment.
        """
        taken = {name for trial in self.history.trials.values() for name in (trial.id, trial.config.loss)}
        if label in taken:
            raise ConfigError(
                f"--candidate {label}: the experiment has a candidate or a loss of this name; take another"
            )
        texts = [
            self.history.test_ranks[training.id] for training in self._trained if training.id in self.history.test_ranks
        ]
        if texts and not all(ranks.has_queries_of(Ranks.from_text(texts[0])) for _, ranks in runs):
            raise ConfigError(
                f"--candidate {label}: answers other queries than the test split of {self.dataset} on which the "
                "experiment was confirmed; take the data that the experiment had"
            )
        metric = without_section(self.history.metric)
        return Runs.of_seeds(
            label,
            {index: metrics for index, (metrics, _) in enumerate(runs)},
            images={
                in_section(metric, TEST): {index: image_values(ranks, metric) for index, (_, ranks) in enumerate(runs)}
            },
            dataset=self.dataset,
            model=OUTSIDE,
            loss=label,
            planned=len(runs),
            has_seeds=len(runs) > 1,
        )


def confirmations(history: History) -> dict[str, Confirmation]:
    """Return dataset -> its confirmation by the newest plan, in the journal's order."""
    return {dataset: Confirmation(history, dataset, plan) for dataset, plan in history.plans.items()}


def race_names(history: History, race: Race) -> dict[str, str]:
    """Return label -> printed name of each candidate: its loss at the first parameter of its setting.

    The trial's number follows where another has the same name.
    """
    trials = {label: history.trials[label] for label in race.seeds}
    several = len({trial.config.model for trial in trials.values()}) > 1
    names = {}
    for label, trial in trials.items():
        loss = loss_of_model(trial.compared_loss, trial.config.model if several else None)
        names[label] = at_setting(loss, trial.parameters)
    counts = Counter(names.values())
    return {label: f"{name} {label.rpartition('-')[2]}" if counts[name] > 1 else name for label, name in names.items()}


def current_plans(experiment: Experiment, history: History) -> list[ConfirmationPlan]:
    """Return the plan of each dataset: the recorded plan, or a new plan where a changed design needs more trainings."""
    return [_current_plan(plan, history) for plan in wanted_plans(experiment, history)]


def _current_plan(wanted: ConfirmationPlan, history: History) -> ConfirmationPlan:
    recorded = history.plans.get(wanted.dataset)
    if recorded is None:
        return wanted
    same_design = structs.replace(wanted, looks=recorded.looks, baseline=recorded.baseline)
    if structs.replace(same_design, level=recorded.level) == recorded:
        # Where only the level changed with the version, nobody chose a design for the values.
        return recorded
    # The test split was opened for every training of the wanted plan, so no further look has to be planned.
    if all(training.trial in history.tests for _, training in Confirmation(history, wanted.dataset, wanted).trainings):
        return recorded
    # Values on val can be compared once two candidates have two ended trainings each.
    ended = [str(trial.candidate) for trial in history.stage(Stage.CONFIRM) if trial.has_ended]
    seen = sum(ended.count(name) > 1 for name in recorded.candidates) > 1
    return structs.replace(wanted, looks=max(wanted.looks, recorded.looks + seen))


def trainings_of(plans: Sequence[ConfirmationPlan], history: History) -> list[TrialCreated]:
    """Return the trainings of plans that are known so far, including trainings that have ended.

    The trainings are ordered by seed, so that the candidates of an interrupted confirmation have equal seeds.
    """
    known = chain.from_iterable(Confirmation(history, plan.dataset, plan).trainings for plan in plans)
    return [training for _, training in sorted(known, key=lambda pair: pair[0])]


def most_trainings(plans: Sequence[ConfirmationPlan], history: History) -> int:
    """Return the largest possible number of trainings of a confirmation, including trainings of former plans."""
    known = {trial.id for trial in history.stage(Stage.CONFIRM)} | {
        training.trial for training in trainings_of(plans, history)
    }
    races = [Confirmation(history, plan.dataset, plan).race for plan in plans]
    return len(known) + sum(race.trainings - race.used for race in races if race.ended is None)


def best_metrics(trial: Trial) -> dict[str, float]:
    """Return the metrics of the best epoch, except running bests."""
    return {name: value for name, value in trial.at_best.items() if name_parts(name).ending != BEST}


def metrics_of(trial: Trial, history: History) -> dict[str, float]:
    """Return a trial's metrics at its best epoch and, under ``test/``, its metrics on the test split."""
    test = {f"{TEST}/{name}": value for name, value in history.tests.get(trial.id, {}).items()}
    return best_metrics(trial) | test


def _has_finished(trial: Trial) -> bool:
    return trial.state is TrialState.FINISHED
