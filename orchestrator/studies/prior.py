"""Settings that did best on other datasets, which a study tries right after the published settings (``search.prior``).

They are read once, before the first trial, and copied into the search's journal: afterwards the search does not depend
on the other journals. The space stays as it is, and the sampler learns from the values that these settings reach in
this study alone. ``tests.benchmarks prior`` compares the regrets.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from orchestrator.experiment.experiment import Cell, Experiment
from orchestrator.journal.directory import JOURNAL_FILE, read_history
from orchestrator.journal.history import History
from orchestrator.journal.journal import JournalError
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.points import points_by_study, ranked
from orchestrator.journal.records import PriorRead
from orchestrator.journal.trial import PriorPoint
from orchestrator.studies.warm_start import is_alike
from orchestrator.text.terminal import say
from orchestrator.text.values import count_text

SHARE = 4
"""Of this many trials of a study, at most one is taken from the prior; one trial in any case."""


def read_prior(experiment: Experiment, output: Path) -> Mapping[str, Sequence[PriorPoint]]:
    """Return study -> the settings from elsewhere that it is to try, in their order; empty without ``search.prior``.

    An experiment that has begun keeps the settings of its journal. A damaged journal of another experiment is left out,
    with a line on standard error.

    Raises:
        JournalError: If the experiment's own journal is damaged.
    """
    directory = output / experiment.name
    if experiment.search.prior == "none":
        return {}
    recorded = read_history(directory).prior if (directory / JOURNAL_FILE).is_file() else None
    if recorded is not None:
        return recorded
    elsewhere = _histories(experiment, output)
    return {
        cell.name: tuple(islice(_best(elsewhere, cell, experiment), max(1, experiment.trials_in(cell) // SHARE)))
        for cell in experiment.cells()
    }


def start_from_prior(prior: Mapping[str, Sequence[PriorPoint]], ledger: Ledger) -> list[str]:
    """Record, once and before the first trial, the settings that ``read_prior`` returned.

    Returns:
        A sentence about them, where they are recorded now.
    """
    history = ledger.history
    if not prior or history.prior is not None or history.trials:
        return []
    ledger.append(PriorRead(studies=prior))
    settings, having = sum(map(len, prior.values())), sum(map(bool, prior.values()))
    return [f"search.prior: {count_text(settings, 'setting')} of other datasets for {having} of {len(prior)} studies"]


def _histories(experiment: Experiment, output: Path) -> list[History]:
    """Return the other experiments under the output that maximised the same metric, the newest first."""
    histories = []
    for path in output.glob(f"*/{JOURNAL_FILE}"):
        if path.parent.name != experiment.name:
            try:
                histories.append(read_history(path.parent))
            except JournalError:
                # No reason to refuse this search.
                name = path.parent.name
                line = f"search.prior: {name} is left out, its journal is damaged; see `orchestrator status {name}`"
                say(line, error=True)
    alike = [history for history in histories if history.trials and history.metric == experiment.search.metric]
    return sorted(alike, key=lambda history: max(trial.created for trial in history.trials.values()), reverse=True)


def _best(histories: Sequence[History], cell: Cell, experiment: Experiment) -> Iterator[PriorPoint]:
    """Yield the best setting of each other dataset, of its newest search that trained like the study."""
    config = experiment.trial_config(cell, {})
    datasets, known = {Path(cell.dataset).name}, [*cell.space.first_points(), *cell.enqueued]
    for history in histories:
        for study, points in points_by_study(history.trials.values()).items():
            theirs = points[0].first.config
            dataset = Path(theirs.dataset).name
            best = ranked(points)
            is_same = (theirs.model, theirs.loss) == (cell.model, cell.loss)
            if dataset in datasets or not best or not is_same or not is_alike(points[0].first, config, cell):
                continue
            datasets.add(dataset)
            params = best[0].first.params
            if cell.space.holds(params) and params not in known:
                known.append(params)
                yield PriorPoint(params, study)
