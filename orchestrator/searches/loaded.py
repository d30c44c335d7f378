"""An experiment that was searched, read from its folder: data frames of its trials, and the model that won."""

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.experiment.experiment import Experiment
from orchestrator.journal.directory import find_directory, read_history
from orchestrator.journal.history import History
from orchestrator.results import frames
from orchestrator.results.answer import Answer
from orchestrator.results.answers import Summary, summarise
from orchestrator.searches.resuming import begun_experiment
from orchestrator.views.html import render_html
from orchestrator.winners.winners import packed_champions
from trainables.errors import ConfigError
from trainables.extras import require

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

    from trainables.serving.retriever import Retriever


@dataclass(frozen=True)
class Best:
    """The winner of a dataset.

    Attributes:
        dataset: Name of the dataset in the experiment.
        trial: The trial whose settings won.
        parameters: Values of the searched parameters, by name.
        confirmed: Whether the settings were trained again with fresh seeds; else it is the best trial of the search.
        val: Metrics on the val split; for a confirmed winner, means over the seeds.
        test: Metrics on the test split, likewise; empty if the split was not opened.
        folder: Folder of the winner's packed model; ``None`` if it is not packed.
    """

    dataset: str
    trial: str
    loss: str
    parameters: Mapping[str, Any]
    confirmed: bool
    val: Mapping[str, float]
    test: Mapping[str, float]
    folder: Path | None

    def retriever(self, *, device: str = "cpu", trust_plugins: bool = False) -> "Retriever":
        """Return the trained model, ready to be asked: ``images_for(caption)``, ``captions_for(image)``.

        Args:
            device: See ``trainables.seeding``.
            trust_plugins: Run the packed code if the model is a plug-in's.

        Raises:
            ConfigError: If the search has packed no model.
            CheckpointError: If the model is damaged, or would run code that is not trusted.
        """
        if self.folder is None:
            raise ConfigError(f"{self.dataset}: no model is packed yet; resume the search until it has a winner")
        from trainables.serving.retriever import Retriever

        return Retriever(self.folder, device=device, trust_plugins=trust_plugins)


@dataclass(frozen=True)
class LoadedExperiment:
    """The results of the experiment in a directory so far; each access reads the journal anew."""

    directory: Path

    @property
    def history(self) -> History:
        """The present content of the journal."""
        return read_history(self.directory)

    @property
    def experiment(self) -> Experiment:
        """The experiment of the newest start."""
        return begun_experiment(self.directory, self.history)

    @property
    def summary(self) -> dict[str, Any]:
        """The content that ``summary.json`` would have now."""
        return summarise(self.history)

    @property
    def answers(self) -> list[Answer]:
        """The answers to all questions, those over several datasets first: headline, numbers, table, notes."""
        return Summary(self.history).answers

    def _repr_html_(self) -> str:
        """Return all answers as a notebook shows them, in a frame: the styles of the page stay in it."""
        page = escape(render_html(self.answers))
        return f'<iframe srcdoc="{page}" width="100%" height="640" style="border: 0" title="answers"></iframe>'

    @property
    def trials(self) -> "DataFrame":
        """A row for each trial, by its id, with its settings and its metrics at its best epoch."""
        return frames.trials_frame(self.history)

    @property
    def epochs(self) -> "DataFrame":
        """A row for each epoch of a trial, by trial and epoch, with the metrics of the epoch."""
        return frames.epochs_frame(self.history)

    @property
    def cocos(self) -> "DataFrame":
        """A row for each counter of a trial at its best epoch: mean and standard deviation over the counted batches."""
        return frames.cocos_frame(self.history)

    @property
    def candidates(self) -> "DataFrame":
        """A row for each confirmed candidate, best first: its metric on the test split over its seeds."""
        return frames.candidates_frame(self.history)

    @property
    def verdicts(self) -> "DataFrame":
        """A row for each comparison of a winner with another candidate: difference, interval, p values, verdict."""
        return frames.verdicts_frame(self.history)

    @property
    def winners(self) -> "DataFrame":
        """A row for each dataset: the winner's trial, settings and metrics."""
        return frames.winners_frame(self.history)

    @property
    def figures(self) -> "dict[str, Figure]":
        """The drawings of the report, by name, as Plotly's figures: ``figures["trials"].show()``.

        Raises:
            MissingExtraError: If Plotly's package is not installed.
        """
        require("figures", "`figures`", "plotly")
        from orchestrator.report.plotly_figures import plotly_figures

        return plotly_figures(self.history)

    @property
    def best(self) -> Best:
        """The winner of the only dataset; ``best_on`` names one of several.

        Raises:
            ConfigError: If there is no winner yet, or there are several datasets.
        """
        winners = Summary(self.history).winners
        if len(winners) > 1:
            raise ConfigError(f"{self.directory}: has winners on {', '.join(winners)}; name one: best_on(...)")
        return self.best_on(next(iter(winners), ""))

    def best_on(self, dataset: str) -> Best:
        """Return the winner of a dataset.

        Raises:
            ConfigError: If it has none yet.
        """
        winners = Summary(self.history).winners
        winner = winners.get(dataset)
        if winner is None:
            there = ", ".join(winners) or "none: no trial has finished"
            raise ConfigError(f"{self.directory}: no winner on {dataset or 'any dataset'}; there are: {there}")
        # A search that goes on may have another winner than the one that was packed.
        packed = {champion.trial: folder for folder, champion in packed_champions(self.directory).items()}
        return Best(
            dataset=dataset,
            trial=winner.trial,
            loss=winner.setting.config.loss,
            parameters=winner.setting.parameters,
            confirmed=winner.confirmed,
            val=winner.val,
            test=winner.test or {},
            folder=packed.get(winner.model.id),
        )


def load(experiment: str | Path, *, output: str | Path = "runs") -> LoadedExperiment:
    """Return an experiment that was begun: ``load("runs/flickr8k-losses")``.

    Args:
        experiment: Its folder, or its name under ``output``.
        output: Root of everything that searches write.

    Raises:
        JournalError: If there is no such experiment, or its journal is damaged.
        MissingExtraError: If pandas or SciPy is not installed.
    """
    require("report", "reading an experiment")
    return LoadedExperiment(find_directory(str(experiment), Path(output)).resolve())
