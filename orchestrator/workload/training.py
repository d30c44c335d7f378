"""The workload of a real search: trials that train a model by ``trainables``."""

import platform
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.experiment.experiment import Cell, Experiment, data_key
from orchestrator.storage.bucket import ObjectStore, fetch_dataset, is_bucket
from orchestrator.workload.workload import Stream, TestEvaluation, TrialGroup
from search_spaces.study import Suggestion
from trainables.checkpoint import EpochReport, Outcome, run_ahead
from trainables.config import NO_FEATURES, PIXELS, TEXT, TOKENIZERS, TrialConfig, idle_rates, similarity_notes
from trainables.data.dataset import (
    check_batch_size,
    check_modality,
    check_region_counts,
    check_widths,
    data_notes,
    data_settings,
    load_dataset,
    made_by_tokenizer,
    members_of,
)
from trainables.data.features import description_of
from trainables.data.meta_split import check_meta_split
from trainables.data.repeats import repeat_warnings
from trainables.data.source import find_source
from trainables.errors import DataError
from trainables.judged_ranks import named_metrics
from trainables.judgement_files import load_judgements
from trainables.parameter_values import LEARNED
from trainables.plugins.in_use import use
from trainables.plugins.plugin import Plugin

if TYPE_CHECKING:
    import torch

    from trainables.cost import Pace


@dataclass(frozen=True)
class TrainablesWorkload:
    """Trains, tests and packs models with ``trainables``.

    Attributes:
        data_root: Folder of the datasets, an absolute path that every node has, or ``s3://bucket/prefix``, from which
            each node fetches a dataset once.
        threads: CPU threads of PyTorch in an actor, >= 1.
        device: See ``trainables.seeding``.
        digests: Required digests by ``data_key``; data without a digest here may be anything.
        plugins: Plug-ins whose code trials run. An actor gets the text of their code with the workload.
    """

    data_root: str
    threads: int = 1
    device: str = "auto"
    digests: Mapping[str, str] = field(default_factory=dict)
    plugins: tuple[Plugin, ...] = ()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Load the plug-ins in another process, because the config of a trial may need their names."""
        vars(self).update(state)
        use(self.plugins)

    def check(self, experiment: Experiment) -> dict[str, str]:
        """Open every dataset in the way its models need.

        Raises:
            ConfigError: If the weights of a backbone are missing, or a batch is larger than the train split.
            DataError: If a dataset is missing or damaged.
        """
        if is_bucket(self.data_root):
            ObjectStore.parse(self.data_root).reach()
        digests: dict[str, str] = {}
        # All searches of a study read the same data.
        for cell in experiment.studies():
            config = experiment.trial_config(cell, {})
            config.check_weights()
            data = self.open_data(config)
            # Damaged judgements are refused now rather than when the test split is opened.
            _judgements(config.dataset, self.data_root, data)
            digests |= {data_key(config): data.digest, **_encoder_digest(config)}
            _check_encoder(cell, config, data)
            check_modality(config, data)
            check_region_counts(config, data)
            check_widths(config, data)
            check_meta_split(config, data)
            for key, size in _batch_sizes(experiment, cell):
                check_batch_size(data, replace(cell.training, batch_size=size), key)
        return digests

    def tokenizers(self, experiment: Experiment) -> dict[str, str]:
        """Return dataset -> what cuts its captions, or cut them when the features of captions were made."""
        configs = [experiment.trial_config(cell, {}) for cell in experiment.studies()]
        return {config.dataset: name for config in configs if (name := self._tokenizer(config)) is not None}

    def data_caveats(self, experiment: Experiment) -> dict[str, list[str]]:
        """Return dataset -> sentences about pictures and captions that are there several times."""
        configs = [experiment.trial_config(cell, {}) for cell in experiment.studies()]
        caveats: dict[str, list[str]] = {}
        # Studies mostly read the same data, in which repeats are looked for once.
        for config in {data_key(config): config for config in configs}.values():
            splits = self.open_data(config).splits
            if splits["train"].labels is None and splits["train"].caption_labels is None:
                of_data = repeat_warnings({name: members_of(split) for name, split in splits.items()})
                caveats.setdefault(config.dataset, []).extend(f"{config.dataset}: {sentence}." for sentence in of_data)
        return {dataset: list(dict.fromkeys(sentences)) for dataset, sentences in caveats.items() if sentences}

    def notes(self, experiment: Experiment) -> list[str]:
        """Return what trainings do with their data that the experiment does not say, a sentence each."""
        studies = experiment.studies()
        configs = [experiment.trial_config(cell, {}) for cell in studies]
        notes = [note for config in configs for note in data_notes(config, self.open_data(config))]
        # A study may choose among several losses.
        for cell in studies:
            for loss, part in cell.space.losses.items():
                config = experiment.suggested(cell, Suggestion(loss, dict(part.fixed)))
                may_learn = any(LEARNED in bound.ends() for bound in part.bounds.values())
                notes += [*similarity_notes(config), *idle_rates(config, cell.space.training, may_learn=may_learn)]
        notes += [
            f"{config.dataset}: the features of its captions were made with the tokenizer {name}"
            for config in configs
            if config.reads_text_features and (name := self._tokenizer(config)) not in (None, TOKENIZERS[0])
        ]
        return list(dict.fromkeys(notes))

    def expecting(self, digests: Mapping[str, str]) -> "TrainablesWorkload":
        """Return a workload that refuses data of other digests."""
        return replace(self, digests=digests)

    def measure(self, config: TrialConfig) -> tuple[int, int]:
        """Measure the GPU memory of a training in a few of its steps."""
        import torch

        from trainables.cost import measure_peak
        from trainables.seeding import choose_device

        device = choose_device("cuda")
        # What this process still holds of an earlier measurement is free; memory of other processes is not.
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info(device)
        return measure_peak(config, self.open_data(config), device), free

    def rates(self, config: TrialConfig, sizes: tuple[int, ...] | None = None) -> Mapping[int, float]:
        """Time fused trials; ``sizes`` are the numbers of trials to time, by default those of ``cost``."""
        from trainables.cost import SIZES, measure_rates

        return measure_rates(config, self.open_data(config), self._choose_device(), sizes or SIZES)

    def rates_in_turns(self, config: TrialConfig) -> Mapping[int, float]:
        """Time trials that take turns on a GPU."""
        from trainables.cost import measure_rates

        device = self._choose_device()
        return {} if device.type == "cpu" else measure_rates(config, self.open_data(config), device, in_turns=True)

    def together(self, in_turns: Collection[tuple[str, str]] = ()) -> TrialGroup:
        """Return an empty group of fused trials."""
        return _Fused(self, in_turns)

    def pace(self, config: TrialConfig) -> "Pace":
        """Return how fast a training is, after a few of its steps."""
        from trainables.cost import measure_pace

        return measure_pace(config, self.open_data(config), self._choose_device())

    def _choose_device(self) -> "torch.device":
        """Return the device of trainings, whose threads are set first."""
        import torch

        from trainables.seeding import choose_device

        torch.set_num_threads(self.threads)
        return choose_device(self.device)

    def train(self, config: TrialConfig, resume: Path | None) -> Stream:
        """Train, and yield a report an epoch; the next epoch trains meanwhile."""
        import torch

        from trainables.trial import run_trial

        torch.set_num_threads(self.threads)
        data = self.open_data(config)
        yield from run_ahead(partial(run_trial, config, data, resume, device=self.device))

    def test(self, config: TrialConfig, checkpoint: Path) -> TestEvaluation:
        """Evaluate on the test split, and rank the queries of val and test."""
        from trainables.evaluation import rank_checkpoint

        data = self.open_data(config)
        judgements = _judgements(config.dataset, self.data_root, data)
        results = rank_checkpoint(checkpoint, data, ("val", "test"), judgements=judgements, device=self.device)
        test = results["test"]
        metrics = {**test.metrics, **named_metrics(test.judged)}
        return TestEvaluation(
            metrics, {split: result.ranks for split, result in results.items()}, test.judged, test.values
        )

    def pack(self, config: TrialConfig, checkpoint: Path, folder: Path) -> None:
        """Pack the model with the images and captions of the test split, which it has not seen."""
        from trainables.serving.packed import write_retriever

        data = self.open_data(config)
        has_file = config.features not in (PIXELS, NO_FEATURES)
        pictures = self._feature_file(config, config.features) if has_file else None
        texts = self._feature_file(config, TEXT) if config.reads_text_features else None
        write_retriever(folder, checkpoint, data, "test", pictures=pictures, texts=texts)

    def write_weights(self, checkpoint: Path, path: Path) -> None:
        """Write the best model as safetensors."""
        from trainables.serving.packed import write_weights

        write_weights(checkpoint, path)

    def _tokenizer(self, config: TrialConfig) -> str | None:
        """Return what cuts the captions of a training; ``None`` where none are cut."""
        data = self.open_data(config)
        if data.splits["train"].labels is not None:
            return None
        if not config.reads_text_features:
            return str(data.vocabulary.tokenizer.identity)
        return made_by_tokenizer(description_of(self._feature_file(config, TEXT)) or {})

    def _feature_file(self, config: TrialConfig, kind: str) -> Path:
        source = find_source(config.dataset, _root(self.data_root, config.dataset))
        return source.feature_files(kind)["test"]

    def open_data(self, config: TrialConfig) -> Any:
        """Return a trial's dataset.

        Raises:
            DataError: If it is missing or damaged, or differs from the driver's dataset.
        """
        data = _dataset(config.dataset, self.data_root, **data_settings(config))
        expected = self.digests.get(data_key(config), data.digest)
        for key, digest in _encoder_digest(config).items():
            if self.digests.get(key, digest) != digest:
                raise DataError(
                    f"{platform.node()}: {config.encoder} holds other files than the driver's folder; put the same on "
                    "every node"
                )
        if data.digest != expected:
            raise DataError(
                f"{platform.node()}: {config.dataset} under {self.data_root} is not what the driver has: its digest is "
                f"{data.digest[:12]}, the driver's {expected[:12]}; put the same data on every node"
            )
        return data


class _Fused:
    """Fused trials, each with its dataset, which trials of one dataset share."""

    def __init__(self, training: TrainablesWorkload, in_turns: Collection[tuple[str, str]]) -> None:
        import torch

        from trainables.fused import FusedTrials

        torch.set_num_threads(training.threads)
        self._training, self._trials = training, FusedTrials(training.device, in_turns)

    def add(self, name: str, config: TrialConfig, resume: Path | None) -> EpochReport | None:
        return self._trials.add(name, config, self._training.open_data(config), resume)

    def remove(self, name: str) -> None:
        self._trials.remove(name)

    def run_epoch(self, names: Sequence[str]) -> Mapping[str, Outcome]:
        return self._trials.run_epoch(names)


def _encoder_digest(config: TrialConfig) -> dict[str, str]:
    """Return the digest of the encoder that is trained, by a key as those of data; empty where there is none."""
    if config.encoder is None:
        return {}
    from trainables.encoders.pretrained import folder_digest

    return {f"{config.encoder}:encoder": folder_digest(Path(config.encoder))}


def _check_encoder(cell: Cell, config: TrialConfig, data: Any) -> None:
    """Refuse an encoder that cannot be read, or that has fewer blocks than a trial may train."""
    if config.encoder is None:
        return
    from trainables.models import build_model

    blocks = cell.space.model_parameters.get("blocks")
    most = {} if blocks is None else {"blocks": max(blocks.ends())}
    build_model(replace(config, model_parameters={**config.model_parameters, **most}), data)


def _batch_sizes(experiment: Experiment, cell: Cell) -> list[tuple[str, int]]:
    """Return the batch sizes of a study, or the ends of their range, each with its key in the experiment."""
    if searched := cell.space.training.get("batch_size"):
        return [("search.training.batch_size", int(size)) for size in searched.ends()]
    changes = [
        f"overrides.{number}.training.batch_size"
        for number, change in enumerate(experiment.overrides)
        if "batch_size" in change.training and change.concerns(cell.dataset, cell.model, cell.loss)
    ]
    return [(["training.batch_size", *changes][-1], cell.training.batch_size)]


@lru_cache(maxsize=4)
def _dataset(name: str, data_root: str, **settings: Any) -> Any:
    """Open a dataset once in a process; its arrays are mapped from the disk and shared by all processes."""
    return load_dataset(name, _root(data_root, name), **settings)


@lru_cache(maxsize=4)
def _judgements(name: str, data_root: str, data: Any) -> Any:
    """Return the judgements beside a dataset by split, read once in a process."""
    return load_judgements(name, _root(data_root, name), data.splits)


def _root(data_root: str, name: str) -> Path:
    """Return the folder that holds a dataset, fetched first if the data root is a bucket."""
    return fetch_dataset(ObjectStore.parse(data_root), name) if is_bucket(data_root) else Path(data_root)
