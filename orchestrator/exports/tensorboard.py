"""Trials as event files of TensorBoard: curves of every metric, and its HParams page.

The folder has an event file for each trial, and an event file with the description of the HParams page. TensorBoard
takes the page's columns from the first description that it finds. A description for each trial would hide columns that
the first trial does not have.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto import api_pb2
from tensorboardX.proto import plugin_hparams_pb2 as hparams
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData
from tensorboardX.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboardX.summary import scalar

from orchestrator.experiment.experiment import Experiment
from orchestrator.exports.trial_run import BEST, TrialRun, replaced_folder, trial_runs
from orchestrator.journal.history import History
from orchestrator.journal.trial import TrialState
from trainables.metric_table import TEST, VAL, in_section, parts_of

EVENT_FILES = "*events.out.tfevents.*"
RECALLS = parts_of("rsum")[0]
"""Metrics that the HParams page shows beside the searched metrics; all other metrics are curves alone."""


TRUTH, NUMBER, WORD = "DATA_TYPE_BOOL", "DATA_TYPE_FLOAT64", "DATA_TYPE_STRING"
FIELDS = {TRUTH: "bool_value", NUMBER: "number_value", WORD: "string_value"}
"""TensorBoard's name of the type of a column -> field of its message that holds a value."""


def write_events(history: History, experiment: Experiment, folder: Path) -> int:
    """Write the trials into a folder that ``tensorboard --logdir`` opens; return how many.

    A curve has a point an epoch, at the date of the epoch. The HParams page has a row for each setting, with the mean
    over its trainings. The columns are the settings of ``TrialRun``, then the searched metrics and recalls at the best
    epoch (``best/val/rsum``). Where the test split was opened, those on test follow.

    Event files in the folder are replaced.

    Raises:
        ConfigError: If the folder holds other files than event files.
        OSError: If a file cannot be written, e.g. because the disk is full; nothing is left of the export.
    """
    runs = list(trial_runs(history))
    types = _columns(runs)
    with replaced_folder(folder, EVENT_FILES) as partial:
        _write_description(experiment, runs, types, partial)
        for run in runs:
            _write_run(run, types, partial / run.trial.id)
    return len(runs)


def _write_description(
    experiment: Experiment, runs: Sequence[TrialRun], types: Mapping[str, str], folder: Path
) -> None:
    created = min((run.trial.created for run in runs), default=0.0)
    description = api_pb2.Experiment(
        name=experiment.name,
        description=experiment.description,
        time_created_secs=created,
        hparam_infos=[api_pb2.HParamInfo(name=name, type=api_pb2.DataType.Value(kind)) for name, kind in types.items()],
        metric_infos=[
            api_pb2.MetricInfo(name=api_pb2.MetricName(tag=tag), display_name=tag) for tag in _shown(experiment, runs)
        ],
    )
    with _event_file(folder) as writer:
        _add(writer, "experiment", HParamsPluginData(experiment=description), created)


def _write_run(run: TrialRun, types: Mapping[str, str], folder: Path) -> None:
    trial = run.trial
    start = hparams.SessionStartInfo(group_name=run.group, start_time_secs=trial.created)
    for name, value in run.settings.items():
        if name in types:
            setattr(start.hparams[name], FIELDS[types[name]], str(value) if types[name] == WORD else value)
    with _event_file(folder) as writer:
        _add(writer, "session_start_info", HParamsPluginData(session_start_info=start), trial.created)
        for epoch, metrics in sorted(trial.epochs.items()):
            for name, value in metrics.items():
                _write(writer, scalar(name, value), trial.times.get(epoch, trial.created), epoch)
        for name, value in run.best.items():
            _write(writer, scalar(name, value), run.moment, trial.best_epoch)
        if trial.has_ended:
            broken = trial.state in (TrialState.DIVERGED, TrialState.FAILED)
            status = api_pb2.Status.Value("STATUS_FAILURE" if broken else "STATUS_SUCCESS")
            end = hparams.SessionEndInfo(status=status, end_time_secs=run.moment)
            _add(writer, "session_end_info", HParamsPluginData(session_end_info=end), run.moment)


@contextmanager
def _event_file(folder: Path) -> Iterator[EventsWriter]:
    """Give the writer of an event file, whose records are on the disk when the block ends.

    ``EventsWriter`` writes in this thread. ``SummaryWriter`` writes in a thread of its own, which ends at the first
    record that a full disk refuses. Closing the ``SummaryWriter`` then waits for that thread for ever.
    """
    folder.mkdir(exist_ok=True)
    writer = EventsWriter(str(folder / "events"))
    yield writer
    writer.close()


def _add(writer: EventsWriter, tag: str, data: HParamsPluginData, moment: float) -> None:
    plugin = SummaryMetadata.PluginData(plugin_name="hparams", content=data.SerializeToString())
    value = Summary.Value(tag=f"_hparams_/{tag}", metadata=SummaryMetadata(plugin_data=plugin))
    _write(writer, Summary(value=[value]), moment)


def _write(writer: EventsWriter, summary: Summary, moment: float, epoch: int | None = None) -> None:
    writer.write_event(Event(wall_time=moment, step=epoch, summary=summary))


def _columns(runs: Sequence[TrialRun]) -> dict[str, str]:
    """Return the settings in which trials differ, because the page first shows few columns; of one trial, all."""
    columns = {}
    for name in dict.fromkeys(name for run in runs for name in run.settings):
        values = [run.settings.get(name) for run in runs]
        if len(set(values)) > 1 or len(runs) == 1:
            kinds = {type(value) for value in values if value is not None}
            columns[name] = TRUTH if kinds == {bool} else NUMBER if kinds <= {int, float} else WORD
    return columns


def _shown(experiment: Experiment, runs: Sequence[TrialRun]) -> list[str]:
    """Return the metrics of the HParams page that any trial has, the searched metrics first."""
    measured: Mapping[str, None] = dict.fromkeys(name for run in runs for name in run.best)
    goals = [f"{BEST}{goal.metric}" for goal in experiment.search.goals]
    goals += [f"{BEST}{cell.metric}" for cell in experiment.cells()]
    on_test = [in_section(goal, TEST) for goal in goals]
    recalls = [f"{prefix}{name}" for prefix in (f"{BEST}{VAL}/", f"{TEST}/") for name in RECALLS]
    return [name for name in dict.fromkeys([*goals, *on_test, *recalls]) if name in measured]
