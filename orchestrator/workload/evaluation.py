"""Evaluates the best model of a checkpoint, or one from elsewhere; counts the samples that contribute to its gradient.

The samples (COCOS) are counted in one pass over the train split, in the batches of the training.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from orchestrator.experiment.plugins import load_plugins
from orchestrator.workload.vectors import rank_files
from trainables.checkpoint import BEST, read_best_config, read_file, resolve_checkpoint
from trainables.config import TrialConfig
from trainables.data.dataset import load_dataset, open_dataset
from trainables.errors import ConfigError, DataError
from trainables.files import make_writable
from trainables.judged_ranks import judged_metrics
from trainables.judgement_files import load_judgements
from trainables.parameter_values import LEARNED
from trainables.ranks import Ranks, chance_rsum, read_ranks, write_ranks
from trainables.seeding import choose_device, generator

if TYPE_CHECKING:
    from trainables.cocos import Convention
    from trainables.data.dataset import Split


SPLITS = ("val", "test")


def read_outside_run(folder: Path, dataset: str, data_root: Path) -> tuple[dict[str, float], Ranks]:
    """Read the results of a run on val and test.

    Args:
        folder: Holds ``ranks_val.npz`` and ``ranks_test.npz``, as a trial's folder does; or embeddings, compared by
            dot products: ``val_images.npy`` (I, D) and ``val_captions.npy`` (C, D), and those of test; or similarities,
            larger is closer: ``val_similarity.npy`` (I, C) and ``test_similarity.npy``. Rows are in the order of the
            split: its images, and its captions image by image.
        dataset: Dataset whose queries the run answers; read if the folder holds embeddings or similarities.
        data_root: Folder of the datasets.

    Returns:
        The metrics ``val/rsum`` ..., ``test/rsum`` ..., and the ranks behind those of test.

    Raises:
        DataError: If a file is missing, damaged, or does not fit the split.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; a candidate is a folder with {_forms('val')}, and so for test")
    ranks = {split: _read_split(folder, split, dataset, data_root) for split in SPLITS}
    metrics = {f"{split}/{name}": value for split in SPLITS for name, value in _metrics(ranks[split]).items()}
    return metrics, ranks["test"]


def _read_split(folder: Path, split: str, dataset: str, data_root: Path) -> "Ranks":
    kept = folder / f"ranks_{split}.npz"
    if not kept.exists():
        return _rank_vectors(folder, split, dataset, data_root)
    ranks = read_ranks(kept)
    if ranks.split != split:
        raise DataError(f"{kept}: holds ranks of {ranks.split}, not of {split}")
    return ranks


def _rank_vectors(folder: Path, split: str, dataset: str, data_root: Path) -> "Ranks":
    """Return the ranks of embeddings or similarities."""
    similarities, images, captions = (folder / f"{split}_{name}.npy" for name in ("similarity", "images", "captions"))
    if not similarities.exists() and not (images.exists() and captions.exists()):
        raise DataError(f"{folder}: holds nothing about {split}; it must have {_forms(split)}")
    part: Split = load_dataset(dataset, data_root, features=None).splits[split]
    files = [similarities] if similarities.exists() else [images, captions]
    return rank_files(files, part).folds[0]


def _metrics(ranks: "Ranks") -> dict[str, float]:
    import torch

    from trainables.metrics import metrics_of_ranks

    arrays = (ranks.i2t, ranks.t2i, ranks.image_of_caption)
    return metrics_of_ranks(*(torch.from_numpy(array.astype("int64")) for array in arrays))


def _forms(split: str) -> str:
    return f"ranks_{split}.npz, or {split}_images.npy and {split}_captions.npy (embeddings), or {split}_similarity.npy"


@dataclass(frozen=True)
class JudgedEvaluation:
    """Counts of judgements, and the metrics of ``trainables.judged_ranks``.

    Candidates that people judged to fit count as right.
    """

    judgements: Mapping[str, Any]
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class Evaluation:
    """Retrieval metrics of a checkpoint's best model on a split, beside the numbers of its images and captions.

    Attributes:
        folds: Number of equal parts of the split that were evaluated alone, and averaged.
        metrics: ``i2t_r1`` ... ``rsum``.
        chance_rsum: The rsum of a random ranking of a fold, the mean over the folds.
        ranks: The file of the ranks of each query's positives; ``None`` if no file was asked for.
        judged: The metrics under people's judgements, for each source that lies beside the dataset; empty with several
            folds, because people judged the whole split.
    """

    checkpoint: Path
    dataset: str
    model: str
    loss: str
    split: str
    images: int
    captions: int
    folds: int
    metrics: Mapping[str, float]
    chance_rsum: float
    ranks: Path | None = None
    judged: Sequence[JudgedEvaluation] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for ``--json``."""
        about = {name: getattr(self, name) for name in ("dataset", "split", "images", "folds")}
        return {
            "checkpoint": str(self.checkpoint),
            **about,
            **({} if self.ranks is None else {"ranks": str(self.ranks)}),
            "metrics": dict(self.metrics),
            "chance_rsum": self.chance_rsum,
            **({"judged": [asdict(evaluation) for evaluation in self.judged]} if self.judged else {}),
        }


def evaluate(
    checkpoint: str | Path,
    *,
    data_root: str | Path = "data",
    split: Literal["val", "test"] = "test",
    folds: int = 1,
    ranks: str | Path | None = None,
    device: str = "auto",
    plugins: Sequence[str] = (),
) -> Evaluation:
    """Evaluate the best model of a checkpoint on val or test.

    Args:
        checkpoint: An ``epoch_NNNN`` directory, or the directory of a training.
        data_root: Folder that holds the datasets.
        split: The split in which queries are ranked.
        folds: Number of equal parts of the split that are evaluated alone and averaged, >= 1.
        ranks: Write the rank of each query's positives to this ``.npz`` file, to compare models query by query.
        device: See ``trainables.seeding``.
        plugins: Python files or installed distributions, as with ``--plugin``.

    Raises:
        UserError: If checkpoint, data, device or a plug-in is refused, or the folds do not divide the images.
    """
    load_plugins(plugins)
    ranks_file = None if ranks is None else _checked_ranks_file(Path(ranks), folds)
    directory = resolve_checkpoint(Path(checkpoint))
    config = read_best_config(directory)
    data = open_dataset(config, Path(data_root))
    images = len(data.splits[split].image_rows)
    if folds < 1 or images % folds:
        raise ConfigError(f"--folds must divide the {images:,} images of {data.name}'s {split} split, got {folds}")
    part = data.splits[split]
    if folds > 1 and (part.labels is not None or part.caption_labels is not None):
        raise ConfigError(f"--folds: an image of {data.name} may have its class in another fold; leave it out")
    from trainables.evaluation import evaluate_checkpoint, rank_checkpoint

    judgements = load_judgements(config.dataset, Path(data_root), {split: data.splits[split]}) if folds == 1 else {}
    judged: list[JudgedEvaluation] = []
    if ranks_file is None and not judgements:
        metrics: Mapping[str, float] = evaluate_checkpoint(directory, data, split, device=device, folds=folds)
    else:
        result = rank_checkpoint(directory, data, [split], judgements=judgements, device=device)[split]
        metrics, pairs = result.metrics, zip(judgements.get(split, ()), result.judged, strict=True)
        judged = [JudgedEvaluation(source.counts(), judged_metrics(ranked)) for source, ranked in pairs]
        if ranks_file is not None:
            write_ranks(ranks_file, result.ranks)
    return Evaluation(
        checkpoint=directory,
        dataset=data.name,
        model=config.model,
        loss=config.loss,
        split=split,
        images=images,
        captions=len(data.splits[split].captions),
        folds=folds,
        metrics=metrics,
        chance_rsum=chance_in_folds(data.splits[split], folds),
        ranks=ranks_file,
        judged=judged,
    )


def chance_in_folds(split: "Split", folds: int) -> float:
    """Return the rsum of chance, the mean over folds of equally many images, but not always as many captions."""
    owners = split.image_of_caption
    if folds == 1:
        return chance_rsum(owners, split.labels, split.caption_labels)
    fold_of_caption = owners // (len(split.image_rows) // folds)
    return fmean(chance_rsum(owners[fold_of_caption == fold]) for fold in range(folds))


def _checked_ranks_file(path: Path, folds: int) -> Path:
    """Refuse a file of ranks that cannot be written, before any work starts."""
    if path.suffix != ".npz":
        raise ConfigError(f"--ranks {path}: the name of the file must end with .npz")
    if folds != 1:
        raise ConfigError(f"--ranks holds ranks in the whole split, but --folds {folds} splits it; give one of the two")
    try:
        make_writable(path.parent)
    except OSError as error:
        raise ConfigError(f"--ranks {path}: cannot be written: {error.strerror}") from None
    return path


def measure_checkpoint(
    path: Path, data_root: Path, *, epsilon: float, convention: "Convention", device: str, curve: Sequence[float] = ()
) -> dict[str, Any]:
    """Measure the best model of a checkpoint, in one pass for all values of epsilon.

    Returns:
        Plain values for JSON: ``checkpoint``, ``dataset``, ``model``, ``loss``, ``epsilon``, ``convention``, and
        ``statistics``: counter -> ``mean`` and ``std`` (ddof 0) over the batches, with the last, smaller batch. If
        asked for, ``curve`` has an ``epsilon`` and the ``statistics`` that depend on it for each value.

    Raises:
        UserError: If checkpoint, data, device, epsilon or convention is refused.
    """
    directory = resolve_checkpoint(path)
    best = read_file(directory, BEST)
    config = TrialConfig.from_dict(best["config"])
    data = open_dataset(config, data_root)
    from trainables.bank import make_bank
    from trainables.data.batches import ResidentSplit, epoch_batches
    from trainables.data.meta_split import trained_split
    from trainables.evaluation import load_best, measure_contributions
    from trainables.losses import build_loss
    from trainables.losses.meta_weights import NETWORK, with_network
    from trainables.losses.parameters import with_values

    model, _ = load_best(directory, data)
    where = choose_device(device)
    split = ResidentSplit(trained_split(config, data), where, model.reading)
    now = config.at(best["epoch"])
    # Learned hyper-parameters have the values of the best model; a checkpoint without any lacks the key.
    loss = with_values(build_loss(now.loss, **now.loss_parameters), best.get(LEARNED, {}))
    loss = with_network(loss, {name: value.to(where) for name, value in best.get(NETWORK, {}).items()})
    batches = epoch_batches(split, now.training, generator(config.seed, "cocos"))
    about_epsilon: dict[str, Any] = {"epsilon": epsilon, "convention": convention, "curve": curve}
    bank = make_bank(now.training.bank, model)
    spreads = measure_contributions(model.to(where), loss, batches, bank=bank, **about_epsilon)
    # Epsilon of the curve, empty for ``epsilon`` itself -> its counters.
    counters: dict[str, dict[str, Any]] = {"": {}, **{f"{value:g}": {} for value in curve}}
    for name, spread in spreads.items():
        counter, _, at = name.partition("@")
        counters[at][counter] = spread._asdict()
    about = {"checkpoint": str(directory), "dataset": data.name, "model": config.model, "loss": config.loss}
    result = {**about, "epsilon": epsilon, "convention": convention, "statistics": counters[""]}
    if curve:
        result["curve"] = [{"epsilon": value, "statistics": counters[f"{value:g}"]} for value in curve]
    return result
