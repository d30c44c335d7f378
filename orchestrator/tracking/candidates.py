"""The run of a confirmed candidate: its means and standard deviation over the seeds, and its verdict."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from orchestrator.journal.history import History
from orchestrator.journal.trial import Stage, Trial
from orchestrator.results.candidates import DatasetVerdict, Standing
from orchestrator.results.confirmed import verdicts_of
from orchestrator.tracking.description import best_of


@dataclass(frozen=True)
class ConfirmedCandidate:
    """A candidate whose confirmation is over.

    Attributes:
        trial: The trial of the search that was repeated.
        metrics: Means over the seeds by the names of a trial's metrics; for the metric that decides also the sample
            standard deviation (``_sd``) and the ends of the mean's 95 % interval (``_low``, ``_high``).
        tags: The verdict on the candidate, and its rank from 1.
        seeds: Number of the candidate's repeats that finished.
        ended: The date at which the candidate's last repeat ended, in seconds since the Unix epoch.
    """

    trial: Trial
    metrics: Mapping[str, float]
    tags: Mapping[str, str]
    seeds: int
    ended: float


def confirmed_candidates(history: History) -> Iterator[ConfirmedCandidate]:
    """Yield the candidates with a finished repeat, for every dataset whose confirmation is over."""
    for verdict in verdicts_of(history).values():
        for standing in verdict.standings:
            yield _described(history, verdict, standing)


def _described(history: History, verdict: DatasetVerdict, standing: Standing) -> ConfirmedCandidate:
    label, result = standing.candidate.label, standing.result
    means = {name: measure.mean for name, measure in standing.measures.items() if not name.endswith("_std")}
    ends = {} if standing.student is None else {"low": standing.student.low, "high": standing.student.high}
    spread = {
        # The selection metric under the name by which MLflow's table of trials is sorted.
        f"{verdict.selection}_best": standing.selected_by,
        **({} if result.sample_std is None else {f"{verdict.metric}_sd": result.sample_std}),
        **{f"{verdict.metric}_{end}": value for end, value in ends.items()},
    }
    repeats = [trial for trial in history.stage(Stage.CONFIRM) if trial.candidate == label]
    return ConfirmedCandidate(
        trial=history.trials[label],
        metrics={**spread, **means, **best_of(means), "seeds": float(result.seeds)},
        tags={"verdict": _verdict_on(verdict, standing), "rank": str(standing.rank)},
        seeds=result.seeds,
        ended=max(trial.ended or 0.0 for trial in repeats),
    )


def _verdict_on(verdict: DatasetVerdict, standing: Standing) -> str:
    """Return in a few words how a candidate compares with the winner."""
    if standing.rank == 1:
        return f"winner: {verdict.verdict}"
    compared = {comparison.label: str(comparison.verdict) for comparison in verdict.comparisons}
    return f"winner is {compared[standing.candidate.label]}" if standing.candidate.label in compared else "not compared"
