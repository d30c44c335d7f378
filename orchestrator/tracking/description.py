"""Trials and confirmed candidates in MLflow's terms: names, tags, params, dataset, metrics, verdict, files.

The run of a confirmed candidate has its means and standard deviations over the seeds. Names of runs and metrics are
chosen for the order and the width of MLflow's pages.
"""

import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from orchestrator.experiment.experiment import data_key
from orchestrator.journal.history import History
from orchestrator.journal.trial import Stage, Trial
from orchestrator.reference.published import study_dataset
from orchestrator.results.answers import Summary, dataset_answers
from orchestrator.results.runs import Runs
from orchestrator.results.verdict import DatasetVerdict
from orchestrator.text.values import format_parameters, markdown, short_names, values_text, visible
from trainables.metric_table import (
    COCOS,
    COCOS_START,
    STD,
    VAL,
    is_in,
    is_value,
    name_parts,
    running_best,
    without_section,
)

if TYPE_CHECKING:
    from mlflow.entities import DatasetInput


PROTOCOLS = {"coco": "5K", "flickr30k": "1K", "flickr8k": "1K"}
"""Dataset -> name of its test protocol; other datasets are tested on all images."""


LONGEST = 120
"""Most characters of a run's name; MLflow's tables cut longer names, and its database refuses more than 250."""

DIGITS = 6
"""Significant digits of a metric in MLflow, whose pages show all digits; the journal keeps all digits."""


AT_BEST = "at_best/"
"""Start of the names of metrics as they were in a trial's best epoch; MLflow shows all others as of the last epoch."""

ORDER = f"{AT_BEST}order"
"""The metric that sorts the table of runs: the best value of a training; of a mean its own value and ``MEANS``."""

MEANS = 1000.0
"""What puts means over seeds above single trainings, of which the luckiest would be first; more than any rsum."""

BEST_EPOCH = f"{AT_BEST}epoch"
"""Metric with the number of the best epoch."""


def at_best(name: str) -> str:
    """Return the name under which MLflow holds a metric of the best epoch: ``val/i2t_r1`` is ``at_best/i2t_r1``."""
    return AT_BEST + (without_section(name) if is_in(name, VAL) else name)


def run_name(trial: Trial, history: History) -> str:
    """Return the name of a trial's run, which distinguishes the trial from others of its experiment.

    The number of the trial in its study comes first, then dataset and model where the experiment has several, the loss,
    and the searched settings: ``0003 nt_xent τ=0.008``. A trial that repeats the settings of another trial has the
    other trial's number, and before it a seed: ``seed=7 0003 nt_xent τ=0.008``. A narrow window cuts the end of a name.
    """
    repeated = history.trials.get(trial.candidate or "", trial)
    number = [] if trial.stage is Stage.REGRESS else [f"{repeated.number:04d}"]
    seed = [f"seed={trial.config.seed}"] if trial.candidate or trial.stage is Stage.REGRESS else []
    return _name([*seed, *number, *_settings(trial, history)])


def candidate_name(trial: Trial, history: History, seeds: int) -> str:
    """Return the name of the run with the means of a confirmed trial, of which ``seeds`` repeats finished."""
    return _name([f"mean of {seeds} seeds", f"{trial.number:04d}", *_settings(trial, history)])


VARIATIONS = {COCOS: "variation", COCOS_START: "variation_start"}
"""Section of counts -> that of their spread over batches in MLflow."""


def stored_metric(name: str) -> str:
    """Return the name under which MLflow holds a metric of the journal.

    MLflow sorts the charts of an experiment by the names of the metrics. The spread of every COCOS count over the
    batches and the durations would come before ``val/rsum``. The spread of ``cocos/NAME`` over the batches,
    ``cocos/NAME_std`` in the journal, is ``variation/NAME``, that of ``cocos_start/NAME`` is ``variation_start/NAME``;
    ``time/NAME`` is ``wall_time/NAME``.
    """
    parts = name_parts(name)
    if parts.ending == STD and parts.section in VARIATIONS:
        return str(parts._replace(section=VARIATIONS[parts.section], ending=""))
    return str(parts._replace(section="wall_time")) if parts.section == "time" else name


def stored_value(value: float) -> float:
    """Return a metric rounded to ``DIGITS`` significant digits."""
    return float(f"{value:.{DIGITS}g}")


def _settings(trial: Trial, history: History) -> list[str]:
    config = trial.config
    begun = history.experiment
    several = [name for name, all_ in (("dataset", begun.datasets), ("model", begun.models)) if len(all_) > 1]
    values = {name: value for name, value in trial.parameters.items() if name != "loss"}
    names = [Path(config.dataset).name if name == "dataset" else trial.combination[name] for name in (*several, "loss")]
    return [*names, format_parameters(short_names(values))]


def _name(parts: list[str]) -> str:
    whole = visible(" ".join(part for part in parts if part))
    return whole if len(whole) <= LONGEST else f"{whole[: LONGEST - 1]}…"


NAMED = ("dataset", "model", "loss", "seed", "vocabulary", "val_images")
"""Keys of a training that, where set, are params of its run under their own names."""

COUNTS = ("cocos/i2t_queries_without_gradient", "cocos/i2t_negatives_per_query")
"""The COCOS counts that are shown beside the scores of a trial's best epoch."""

NOTE = "mlflow.note.content"
"""Tag that MLflow shows as the description of a run or an experiment, in Markdown."""

NOT_COMPARED = "not compared"
"""Verdict on a candidate that the newest verdict does not name."""

ERROR = 2000
"""Characters of an error that a tag keeps; the journal has the whole error."""


def tags_of(trial: Trial, history: History) -> dict[str, str]:
    """Return the tags by which trials are found and compared."""
    config = trial.config
    # A trial may be delivered after a start with other versions, e.g. to another store.
    environment = trial.environments[-1] if trial.environments else history.environment
    tags = {
        **trial.combination,
        "seed": str(config.seed),
        "protocol": PROTOCOLS.get(study_dataset(config.dataset), "full"),
        "stage": str(trial.stage),
        **({"candidate": trial.candidate} if trial.candidate else {}),
        **({"plugins": ", ".join(config.plugins)} if config.plugins else {}),
        "experiment": history.name,
        # The way back from a run to the page with all charts, which is found by the experiment's name.
        "report": shlex.join(["orchestrator", "report", history.name, "--open"]),
        "data_digest": history.data.get(data_key(config), ""),
        "git_revision": str(environment.get("git_revision")),
        **{f"version.{name}": value for name, value in environment.get("versions", {}).items()},
        # MLflow shows these tags as source and version.
        "mlflow.source.name": "orchestrator",
        "mlflow.source.type": "LOCAL",
        **({"mlflow.source.git.commit": str(revision)} if (revision := environment.get("git_revision")) else {}),
    }
    # A database may refuse control characters, and pages do not show them.
    return {name: visible(str(value)) for name, value in tags.items()}


def note_of(trial: Trial) -> dict[str, str]:
    """Return the tag that MLflow shows as the description of a run: its hyper-parameters, and its row in the report."""
    values = markdown(values_text(trial.parameters) or "defaults")
    # The report of a rerun has no leaderboard. MLflow's pages cannot link to a file, so the address is a text.
    address = f"`report.html?find={quote(trial.candidate or trial.id)}`"
    return {NOTE: values if trial.stage is Stage.REGRESS else f"{values}\n\nReport: {address}"}


def end_of(trial: Trial) -> dict[str, str]:
    """Return the tags that say how a trial ended."""
    return {"state": str(trial.state), **({"error": visible(trial.error)[:ERROR]} if trial.error else {})}


def params_of(trial: Trial) -> dict[str, Any]:
    """Return the params of a run: coefficients by their names, all other settings by dotted names."""
    config = trial.config.to_dict()
    rest = {f"training.{name}": value for name, value in config["training"].items()}
    names = {name: config[name] for name in NAMED if name in config}
    coefficients = dict(_coefficients(config["loss_parameters"]))
    model = {f"model.{name}": value for name, value in config["model_parameters"].items()}
    return {**coefficients, **names, **model, **rest}


def best_of(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return the validation metrics and COCOS counts of a best epoch, by the names for one row of MLflow's table."""
    kept = ((name, value) for name, value in metrics.items() if is_in(name, VAL) or name in COUNTS)
    return {at_best(name): value for name, value in kept if is_value(name)}


def _coefficients(parameters: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield hyper-parameters; each coefficient also as a number (``coefficients.1``), which charts put on an axis."""
    for name, value in parameters.items():
        if isinstance(value, list | tuple):
            # Numbers first, because pages of comparisons begin with the first params.
            yield from ((f"{name}.{power}", number) for power, number in enumerate(value))
        yield name, json.dumps(value) if isinstance(value, list | tuple) else value


def dataset_of(trial: Trial, history: History) -> "DatasetInput":
    """Return the dataset of a run, as MLflow shows it."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    config = trial.config
    key = data_key(config)
    digest = history.data.get(key, "")
    source = json.dumps({"dataset": config.dataset, "features": config.features, "digest": digest})
    # MLflow keeps 36 characters of a digest.
    dataset = Dataset(name=config.dataset[-500:], digest=digest[:36], source_type="local", source=source)
    return DatasetInput(dataset, [InputTag("mlflow.data.context", "training")])


def confirmed_candidates(history: History) -> Iterator[tuple[Runs, dict[str, float], dict[str, str]]]:
    """Yield the candidates with a finished repeat, with metrics and tags, for every dataset whose confirmation is over.

    The metrics are means over the seeds by the names of a trial's metrics. The metric that decides also has the sample
    standard deviation (``_sd``) and the ends of the mean's 95 % interval (``_low``, ``_high``). The tags are the
    verdict on the candidate, its rank from 1, and of the winner the description of its run.
    """
    summary = Summary(history)
    for dataset, verdict in summary.verdicts.items():
        answers = dataset_answers(summary, dataset)
        for rank, candidate in enumerate(verdict.candidates, start=1):
            tags = {"verdict": verdict.word_on(candidate.label), "rank": str(rank)}
            if rank == 1:
                setting = note_of(history.trials[candidate.label])[NOTE]
                tags |= {
                    "verdict": f"winner: {answers[0].badge}",
                    NOTE: "\n\n".join([setting, *map(markdown, (answers[0].headline, *answers[0].taken_back))]),
                }
            yield candidate, _means_of(candidate, verdict), tags


def _means_of(candidate: Runs, verdict: DatasetVerdict) -> dict[str, float]:
    result, student = candidate.measure(verdict.metric), candidate.interval(verdict.metric)
    means = {name: measure.mean for name, measure in candidate.measures().items() if is_value(name)}
    # The selection metric under the name of the column of trials.
    spread = {running_best(verdict.selection): candidate.mean(verdict.selection), ORDER: MEANS + result.mean}
    if result.sample_std is not None:
        spread[f"{verdict.metric}_sd"] = result.sample_std
    if student is not None:
        spread |= {f"{verdict.metric}_low": student.low, f"{verdict.metric}_high": student.high}
    return {**spread, **means, **best_of(means), "seeds": float(result.seeds)}
