"""Regret of searches that begin from the best settings of other datasets (``search.prior``), beside those that do not.

    python -m tests.benchmarks prior                                # two generated datasets, one loss, a minute
    orchestrator data generate scenes --images 1500 --out DATA/scenes
    orchestrator data extract scenes --text tfidf-svd --dimensions 128 --data-root DATA
    python -m tests.benchmarks prior --data-root DATA --datasets flickr8k flickr8k_zh flickr8k_ar scenes \\
        --shared 3 --losses nt_xent ... --seeds 10

For each dataset and loss, real trainings of short linear heads (or of WSABIE, ``--model``) at points of a Sobol
sequence, and further seeds of the best of them, give a surface (a Gaussian process over coefficients and learning
rate) and the noise of a seed. Searches by our own studies are simulated on it. The regret of a search is the surface's
maximum minus the surface at the setting with the highest noisy value. What a search begins from comes from searches of
the other datasets, without a prior. The first ``--shared`` datasets have the same photographs, of which each gets its
own to train and to validate on.

``published``  the published settings alone
``rate``       after the published settings, these at the best learning rate of the best other loss of the dataset
``prior``      as shipped: after the published settings, others' best ones, in at most a quarter of the trials
"""

import argparse
import math
import random
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from orchestrator.experiment.experiment import Experiment
from orchestrator.experiment.yaml_files import validate
from orchestrator.extraction.feature_files import extract_text
from orchestrator.journal.directory import read_history
from orchestrator.journal.points import points_by_study, ranked
from orchestrator.journal.trial import PriorPoint, Trial, TrialState
from orchestrator.studies.past_searches import SHARE
from orchestrator.studies.study import Study
from search_spaces import Values
from tests.benchmarks.flickr8k import SHARED
from tests.benchmarks.rows import Row, error_of_mean
from trainables.config import TrialConfig
from trainables.data.dataset import Dataset, Split, open_dataset
from trainables.data.scenes.generate import generate_scenes
from trainables.errors import DivergedError
from trainables.fused import stack_shape, train_stacked
from trainables.trial import Trial as Training

BUDGETS = (4, 8, 16)
LEARNING_RATES = (0.0005, 0.05)
LOWEST = 5.0
"""Value of a training that diverged: about chance."""

IMAGES, VALIDATED = 2000, 500
"""Photographs of a dataset that shares them with others, and how many of these validate."""

AGAIN = 4
"""Best settings that are trained with one more seed."""

Setting = Mapping[str, Any]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--datasets", nargs="+", default=["scenes", "scenes_1"], help="at least two")
    parser.add_argument("--shared", type=int, default=0, help="how many of them have the same photographs")
    parser.add_argument("--losses", nargs="+", default=["nt_xent"])
    parser.add_argument("--model", choices=["head", "wsabie"], default="head", help="of 32 dimensions")
    parser.add_argument("--settings", type=int, default=32, help="trainings of each surface, beside further seeds")
    parser.add_argument("--seeds", type=int, default=5, help="searches of each kind on each surface")
    parser.add_argument("--sources", nargs="+", help="datasets to begin from; by default all others")
    parser.add_argument(
        "--journals", type=Path, help="begin from the experiments of this output folder instead, in any training"
    )
    parser.add_argument("--images", type=int, default=400, help="of generated datasets")


def run(options: argparse.Namespace) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder) if options.datasets[0] == "scenes" else SHARED
        surfaces = {surface.key: surface for surface in measure_all(options, options.data_root or own)}
    yield from fidelity(list(surfaces.values()))
    yield from compare_all(Comparison(surfaces, options))


def measure_all(options: argparse.Namespace, root: Path) -> Iterator["Surface"]:
    data: dict[str, Dataset] = {}
    for loss in options.losses:
        for number, dataset in enumerate(options.datasets):
            place = number if number < options.shared else None
            yield Surface(measure(dataset, loss, options, root, place, data))


def measure(
    dataset: str, loss: str, options: argparse.Namespace, root: Path, place: int | None, data: dict[str, Dataset]
) -> dict[str, Any]:
    """Train a loss at the points of a Sobol sequence, and the best points with another seed."""
    experiment = make_experiment(dataset, loss, options.settings, "qmc", options.model)
    (cell,) = experiment.cells()
    study = Study(cell, experiment.search, options.settings)
    drawn = [study.draw(partial(experiment.suggested, cell)) for _ in range(options.settings)]
    configs = [one.config for one in drawn]
    if dataset not in data:
        data[dataset] = open_part(configs[0], root, options.images, place)
    values = train(configs, data[dataset])
    best = sorted((index for index, value in enumerate(values) if value is not None), key=lambda i: -(values[i] or 0))
    again = best[:AGAIN]
    seeds = [replace(configs[index], seed=1000 + rank) for rank, index in enumerate(again)]
    params = [dict(one.params) for one in drawn]
    repeated = train(seeds, data[dataset])
    where = {"dataset": dataset, "loss": loss, "model": options.model}
    return {**where, "params": params, "values": values, "again": again, "rep": repeated}


def make_experiment(dataset: str, loss: str, trials: int, sampler: str = "tpe", model: str = "head") -> Experiment:
    """Return a search of one study with the learning rate beside the loss; 32 dimensions, three epochs."""
    captions, images = (3, 43) if dataset.endswith("_ar") else (5, 26)
    in_images = {"batches": "images", "captions_per_image": captions, "batch_size": images, "scale_epochs": False}
    training = {"epochs": 3, "batch_size": 128, "embedding_size": 32, "learning_rate_drop_epochs": 2}
    values = {
        "name": "prior",
        "datasets": [dataset],
        "models": [model],
        "losses": [loss],
        "training": {**training, **(in_images if loss == "smooth_ap" else {})},
        "search": {
            "sampler": sampler,
            "trials": trials,
            "seed": 1,
            "training": {"learning_rate": list(LEARNING_RATES)},
        },
        "scheduler": {"name": "none"},
        "resources": {"cpus": 1, "gpus": 0},
    }
    return validate(Experiment, values, "prior")


def open_part(config: TrialConfig, root: Path, images: int, place: int | None) -> Dataset:
    """Return a dataset, generated where it is missing; of photographs that datasets share, a part of its own."""
    is_generated = config.dataset.startswith("scenes")
    if is_generated and not (root / config.dataset / "features_text.npy").is_file():
        generate(root, config.dataset, images)
    whole = open_dataset(config, root)
    if place is None:
        return whole
    train, first = whole.splits["train"], IMAGES * place
    middle, last = first + IMAGES - VALIDATED, first + IMAGES
    parts = {"train": part_of(train, first, middle), "val": part_of(train, middle, last)}
    return replace(whole, splits={**whole.splits, **parts})


def generate(root: Path, name: str, images: int) -> None:
    """Write scenes with features of their captions; the number behind the name is the seed."""
    generate_scenes(root / name, images=images, seed=int(name.partition("_")[2] or 0))
    extract_text(name, root, dimensions=32, seed=0, out=None)


def part_of(split: Split, first: int, last: int) -> Split:
    """Return some images of a split, and their captions."""
    start, stop = (int(np.searchsorted(split.image_of_caption, image)) for image in (first, last))
    begin, end = split.offsets[start], split.offsets[stop]
    return replace(
        split,
        image_rows=split.image_rows[first:last],
        image_ids=split.image_ids[first:last],
        filenames=split.filenames[first:last],
        tokens=split.tokens[begin:end],
        offsets=split.offsets[start : stop + 1] - begin,
        image_of_caption=split.image_of_caption[start:stop] - first,
        captions=split.captions[start:stop],
        caption_rows=None if split.caption_rows is None else split.caption_rows[start:stop],
    )


def train(configs: Sequence[TrialConfig], data: Dataset) -> list[float | None]:
    """Return val rsum after the last epoch of each training; ``None`` where it diverged."""
    torch.set_num_threads(1)
    trainings: list[Training] = []
    for config in configs:
        trainings.append(Training(config, data, torch.device("cpu"), beside=trainings[0] if trainings else None))
    lost: set[int] = set()
    for _ in range(configs[0].training.total_epochs):
        shapes: dict[Any, list[Training]] = {}
        for training in trainings:
            if id(training) not in lost:
                training.begin_epoch()
                shapes.setdefault(stack_shape(training), []).append(training)
        for group in shapes.values():
            ends = train_stacked(group)
            lost |= {id(one) for one, end in zip(group, ends, strict=True) if isinstance(end, Exception)}
    return [None if id(training) in lost else value_of(training) for training in trainings]


def value_of(training: Training) -> float | None:
    try:
        return training.evaluate_on_val()["val/rsum"]
    except DivergedError:
        return None


class Surface:
    """What the trainings of a dataset and a loss reach on average, by a Gaussian process over the unit cube.

    Attributes:
        key: Dataset and loss.
        best: Its maximum.
        noise: Standard deviation of a seed among the best settings, nan where it is not known.
        errors: Value minus the prediction without it, of each training.
        values: Of each training.
    """

    def __init__(self, record: Mapping[str, Any]) -> None:
        self.key, self.model = (record["dataset"], record["loss"]), record["model"]
        (self.cell,) = make_experiment(*self.key, 16, model=self.model).cells()
        self._bounds = self.cell.space.bounds()
        pairs = zip(record["again"], record["rep"], strict=True)
        again = [(index, value) for index, value in pairs if value is not None]
        values = [LOWEST if value is None else value for value in record["values"]]
        self.values = np.array([*values, *(value for _, value in again)])
        points = np.array([self.place(params) for params in record["params"]])
        points = points[[*range(len(points)), *(index for index, _ in again)]]
        luck = [record["values"][index] - value for index, value in again]
        self.noise = stdev(luck) / math.sqrt(2) if len(luck) > 1 else math.nan
        self._mean, self._scale = float(self.values.mean()), float(self.values.std()) or 1.0
        lengths = Matern(np.full(points.shape[1], 0.5), (0.05, 10.0), nu=2.5)
        kernel = ConstantKernel(2.0, (0.1, 50.0)) * lengths + WhiteKernel(0.02, (1e-4, 0.5))
        process = GaussianProcessRegressor(kernel, n_restarts_optimizer=1, random_state=0)
        with warnings.catch_warnings():
            # A length beyond its bound is that of a parameter that does not matter.
            warnings.simplefilter("ignore", ConvergenceWarning)
            process.fit(points, (self.values - self._mean) / self._scale)
        self._points, self._alpha, self._kernel = points, process.alpha_, process.kernel_.k1
        inverse = np.linalg.inv(process.L_ @ process.L_.T)
        # Leaving one out of a Gaussian process needs no other fit: Rasmussen and Williams, 2006, equation 5.12.
        self.errors = process.alpha_ / np.diag(inverse) * self._scale
        self.best = self._maximum()

    def place(self, params: Setting) -> list[float]:
        """Return a setting in the unit cube: a share of each range, and a 1 at the choice among listed values."""
        found: list[float] = []
        for name, bound in self._bounds.items():
            if isinstance(bound, Values):
                found += [float(params.get(name) == choice) for choice in bound.values]
            else:
                # A number that a choice has no use for lies in the middle.
                found.append(bound.share_of(params[name]) if name in params else 0.5)
        return found

    def at(self, params: Setting) -> float:
        return float(self._means(np.array([self.place(params)]))[0])

    def _means(self, points: np.ndarray) -> np.ndarray:
        return self._kernel(points, self._points) @ self._alpha * self._scale + self._mean

    def _maximum(self) -> float:
        draw = np.random.default_rng(0)
        columns = []
        for bound in self._bounds.values():
            listed = len(bound.values) if isinstance(bound, Values) else 0
            columns.append(np.eye(listed)[draw.integers(listed, size=6000)] if listed else draw.random((6000, 1)))
        points = np.vstack([np.hstack(columns), self._points])
        for step in (0.05, 0.02, 0.01):
            top = points[np.argsort(-self._means(points))[:5]]
            points = np.vstack([top, np.clip(top.repeat(200, 0) + draw.normal(0, step, (1000, top.shape[1])), 0, 1)])
        return float(self._means(points).max())


def fidelity(surfaces: Sequence[Surface]) -> Iterator[Row]:
    """Compare the errors of each loss's surfaces with the noise of seeds; costs are in rsum."""
    for loss in dict.fromkeys(surface.key[1] for surface in surfaces):
        alike = [surface for surface in surfaces if surface.key[1] == loss]
        errors, best = [], []
        for surface in alike:
            errors += list(surface.errors**2)
            best += list(surface.errors[np.argsort(-surface.values)[: len(surface.values) // 2]] ** 2)
        noise = math.sqrt(fmean(surface.noise**2 for surface in alike))
        note = f"best half {math.sqrt(fmean(best)):.1f}; standard deviation {fmean(s.values.std() for s in alike):.1f}"
        yield Row(
            f"{loss}: error of the surface", "rsum", math.sqrt(fmean(errors)), noise, "noise of a seed", None, note
        )


@dataclass(frozen=True)
class Tried:
    """A trial of a simulated search; ``value`` is the mean of its setting with the luck of a seed."""

    params: Setting
    value: float
    mean: float


def search(
    surface: Surface, noise: float, seed: int, trials: int = BUDGETS[-1], *, prior: Sequence[Setting] = ()
) -> list[Tried]:
    """Search a surface, one trial after the other, each trained to its end; ``prior`` comes after the published."""
    cell = replace(surface.cell, seed=seed)
    experiment = make_experiment(*surface.key, trials, model=surface.model)
    study = Study(cell, experiment.search, trials, prior=[PriorPoint(params, "benchmark") for params in prior])
    luck = np.random.default_rng(seed).normal(0, noise, trials)
    found = []
    for number in range(trials):
        params, _, config, _ = study.draw(partial(experiment.suggested, cell))
        mean = surface.at(params)
        tried = Tried(dict(params), mean + float(luck[number]), mean)
        trial = Trial(f"s-{number:04d}", cell.name, number, params, config, 0.0)
        trial.epochs[1], trial.state = {"val/rsum": tried.value}, TrialState.FINISHED
        study.add(trial)
        found.append(tried)
    return found


def best_of(trials: Sequence[Tried]) -> Tried:
    return max(trials, key=lambda trial: trial.value)


def best_of_journals(output: Path, surface: Surface) -> Iterator[Setting]:
    """Yield the best settings of other datasets in the experiments of an output folder, however these were trained."""
    dataset, loss = surface.key
    for path in sorted(output.glob("*/journal.jsonl")):
        for points in points_by_study(read_history(path.parent).trials.values()).values():
            config, best = points[0].first.config, ranked(points)
            is_other = (config.model, config.loss) == (surface.model, loss) and Path(config.dataset).name != dataset
            if best and is_other and surface.cell.space.holds(best[0].first.params):
                yield best[0].first.params


class Comparison:
    """Searches of all kinds on all surfaces that have something to begin from, which are those of ``keys``."""

    def __init__(self, surfaces: Mapping[tuple[str, str], Surface], options: argparse.Namespace) -> None:
        self._surfaces, self.seeds, self._options = surfaces, options.seeds, options
        losses = {loss for _, loss in surfaces}
        alike = {loss: [one.noise**2 for one in surfaces.values() if one.key[1] == loss] for loss in losses}
        self._noise = {loss: math.sqrt(np.nanmean(alike[loss])) for loss in losses}
        self._plain = {(key, seed): self._search(key, seed) for key in surfaces for seed in range(self.seeds)}
        self.keys = [key for key in surfaces if self._elsewhere(key, 0)]

    def regrets(self, key: tuple[str, str], seed: int) -> Iterator[tuple[str, tuple[float, ...]]]:
        """Yield each kind of search with its regrets after 4, 8 and 16 trials."""
        plain, surface = self._plain[key, seed], self._surfaces[key]
        published = len(surface.cell.space.first_points())
        first = self._elsewhere(key, seed)
        yield "tpe", self._after(key, plain)
        yield "published", (surface.best - best_of(plain[:published]).mean,) * len(BUDGETS)
        yield "rate", self._after(key, self._search(key, seed, prior=[self._rate(key, seed)]))
        shipped = [self._search(key, seed, trials, prior=first[: max(1, trials // SHARE)]) for trials in BUDGETS]
        yield "prior", tuple(surface.best - best_of(trials).mean for trials in shipped)

    def _search(self, key: tuple[str, str], seed: int, trials: int = BUDGETS[-1], **begin: Any) -> list[Tried]:
        return search(self._surfaces[key], self._noise[key[1]], 7919 * seed + 11, trials, **begin)

    def _after(self, key: tuple[str, str], trials: Sequence[Tried]) -> tuple[float, ...]:
        return tuple(self._surfaces[key].best - best_of(trials[:count]).mean for count in BUDGETS)

    def _elsewhere(self, key: tuple[str, str], seed: int) -> list[Setting]:
        """Return the best setting of a search of each other dataset, in an order that the seed draws."""
        dataset, loss = key
        if self._options.journals is not None:
            return list(best_of_journals(self._options.journals, self._surfaces[key]))
        others = [other for other in self._surfaces if other[1] == loss and other[0] != dataset]
        others = [other for other in others if self._options.sources is None or other[0] in self._options.sources]
        random.Random(seed).shuffle(others)
        # Another seed than that of the search itself, whose luck is its own.
        return [best_of(self._plain[other, (seed + 1) % self.seeds]).params for other in others]

    def _rate(self, key: tuple[str, str], seed: int) -> Setting:
        """Return the published setting at the best rate of the best other loss of the dataset."""
        dataset, loss = key
        others = [
            best_of(self._plain[other, seed]) for other in self._surfaces if other[0] == dataset and other[1] != loss
        ]
        point, rate = dict(self._surfaces[key].cell.space.first_points()[0]), "training.learning_rate"
        return {**point, rate: best_of(others).params[rate]} if others else point


def compare_all(comparison: Comparison) -> Iterator[Row]:
    """Compare all kinds of searches with those that begin from the published settings alone."""
    found: dict[tuple[str, str], dict[str, np.ndarray]] = {}
    for key in comparison.keys:
        seeds = [dict(comparison.regrets(key, seed)) for seed in range(comparison.seeds)]
        found[key] = {kind: np.mean([one[kind] for one in seeds], axis=0) for kind in seeds[0]}
    kinds = list(next(iter(found.values())))
    for kind in kinds[1:]:
        yield from compare(kind, kind, found)
    for dataset in dict.fromkeys(dataset for dataset, _ in found):
        yield from compare(f"{dataset}: prior", "prior", {key: one for key, one in found.items() if key[0] == dataset})
    for loss in dict.fromkeys(loss for _, loss in found):
        yield from compare(f"{loss}: prior", "prior", {key: one for key, one in found.items() if key[1] == loss})


def compare(case: str, kind: str, regrets: Mapping[tuple[str, str], Mapping[str, np.ndarray]]) -> Iterator[Row]:
    """Compare mean regrets with those of TPE; a difference has its standard errors over surfaces and over losses."""
    for place, budget in enumerate(BUDGETS):
        differences = {key: float(kinds[kind][place] - kinds["tpe"][place]) for key, kinds in regrets.items()}
        by_loss: dict[str, list[float]] = {}
        for (_, loss), difference in differences.items():
            by_loss.setdefault(loss, []).append(difference)
        over_losses = error_of_mean([fmean(one) for one in by_loss.values()])
        worse = sum(difference > 0 for difference in differences.values())
        mean = f"{fmean(differences.values()):+.2f} ± {error_of_mean(list(differences.values())):.2f}"
        note = f"{mean}, over losses ± {over_losses:.2f}; worse in {worse} of {len(regrets)}"
        ours, other = (fmean(kinds[name][place] for kinds in regrets.values()) for name in (kind, "tpe"))
        yield Row(f"{case}, {budget} trials", "rsum", ours, other, "tpe", None, note)
