"""One validated description of one training.

A config has exactly the settings that decide the outcome of a trial: the same config, data and machine give the same
numbers. This module imports the standard library alone, so that a wrong config is refused before torch is imported.

References:
    [Bleeker2022] Bleeker and de Rijke, Do Lessons from Metric Learning Generalize to Image-Caption Retrieval?
        arXiv:2202.07474, section 3.
    [Faghri2018] Faghri et al., VSE++: Improving Visual-Semantic Embeddings with Hard Negatives. arXiv:1707.05612
    [Loshchilov2017] Loshchilov and Hutter, SGDR: Stochastic Gradient Descent with Warm Restarts, eq. 5.
        arXiv:1608.03983
"""

import hashlib
import json
import math
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

from trainables.errors import ConfigError
from trainables.hyper_parameters import Space
from trainables.loss_parameters import LOSS_PARAMETERS, LOSS_TABLE, META_FRACTION
from trainables.metric_table import may_select, name_parts
from trainables.model_parameters import (
    ENCODER_KEY,
    FEATURES,
    MODEL_TABLE,
    check_embedding_size,
    check_model_parameters,
    check_weights,
    further_inputs,
)
from trainables.parameter_values import LEARNED
from trainables.plugins.in_use import find_owner

TEXT = "text"
"""The kind of features that a caption has, in ``features_text.npy``."""

TEXT_MODELS = [name for name, entry in MODEL_TABLE.items() if entry.reads_text_features]
"""The models that read features of captions instead of their words."""

REGION_PARAMETERS = {"vsepp": "pooling"}
"""Model -> the parameter that makes the model read ``regions`` instead of global features."""

PIXELS = "pixels"
"""Input of a model whose backbone is trained along, instead of features."""

NO_FEATURES = "none"
"""Image features of a model that reads further inputs alone."""

PIXEL_MODELS = ("vsepp",)
"""The models that can be trained from pixels instead of features."""

PAIR_MODELS = tuple(name for name, entry in MODEL_TABLE.items() if entry.compares_sets)
"""The models that compare sets of vectors, of which no bank of embeddings is kept."""

BATCH_NORM_MODELS = tuple(name for name, entry in MODEL_TABLE.items() if entry.has_batch_norms)
"""The models with batch norms, which are not trained in parts of a batch."""

META_MODELS = tuple(name for name, entry in MODEL_TABLE.items() if entry.takes_meta_steps)
"""The models that can be trained with a loss that has a meta-step."""

NO_BANK = "training.bank: {} compares sets of vectors, of which no bank is kept; leave bank out"
"""The refusal of a bank with a model of ``PAIR_MODELS``, or with such a model of a plug-in."""

NO_MICRO_BATCHES = (
    "training.micro_batch: {} has batch norms, whose statistics are of the whole batch and not of its parts; "
    "leave it out"
)
"""The refusal of micro-batches with a model that has batch norms."""

ParameterValue = bool | int | float | str | tuple[float, ...]
"""Value of a hyper-parameter: a number, a word, or coefficients."""

TOKENIZERS = ("english", "words", "characters", "labels")
"""The tokenizers that ship; see ``trainables.data.tokenizers``."""

GraphUse = Literal["auto", "on", "off"]
"""Whether steps are static, see ``TrainingConfig.graph``."""

Precision = Literal["float32", "bf16", "auto"]
"""Precision of matrix products; ``auto`` is bf16 on a GPU that has bf16, and float32 elsewhere."""


@dataclass(frozen=True)
class Allowed:
    """The numbers that a setting takes, all of them finite.

    The minimum itself is excluded if ``is_open``.
    """

    minimum: float
    is_open: bool = False
    maximum: float = math.inf

    def accepts(self, value: float) -> bool:
        """Whether a number lies in the interval."""
        above = self.minimum < value if self.is_open else self.minimum <= value
        return above and value <= self.maximum and value < math.inf

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        """Let pydantic refuse a number at its key, and continue with other keys."""
        return {
            "type": "function-after",
            "function": {"type": "no-info", "function": self._checked},
            "schema": handler(source),
        }

    def _checked(self, value: float | None) -> float | None:
        if value is not None and not self.accepts(value):
            raise ConfigError(f"must be {self}, got {value}")
        return value

    def __str__(self) -> str:
        """Return the interval in words that fit after "must be"."""
        lowest = f"a finite number above {self.minimum:g}" if self.is_open else f"at least {self.minimum:g}"
        return lowest if self.maximum == math.inf else f"{lowest}, at most {self.maximum:g}"


@dataclass(frozen=True)
class Searched:
    """The range, or the values, of a setting that can be searched."""

    space: Space


@dataclass(frozen=True)
class Changeable:
    """Marks a setting that may change from an epoch on; the other settings hold for the whole training."""


Schedule = Literal["drops", "cosine"]


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How a model is trained; the defaults are those of VSE++ [Faghri2018].

    The default ranges are two decades around these, and batch sizes that fit a small GPU.

    Attributes:
        epochs: Passes over the train split, >= 1.
        batches: ``pairs``: random image-caption pairs; ``images``: images, each with its captions (SmoothAP's).
        batch_size: Pairs, or images, a step, >= 2.
        micro_batch: Images, and captions, that are encoded at a time, >= 1; ``None`` is all. It bounds memory; the
            gradient is that of the whole batch.
        bank: Images, and captions, of the epoch's earlier batches that are negatives too, >= 0; 0 is the batch alone.
            With a bank the gradient goes to the query alone.
        captions_per_image: With ``images``, number of captions of each image, drawn anew each epoch where it has more,
            >= 1.
        scale_epochs: With ``images``, multiply ``epochs``, ``learning_rate_drop_epochs`` and ``warmup_epochs`` by
            ``captions_per_image``, which gives as many steps as ``pairs`` [Bleeker2022].
        optimizer: ``adam``, or ``sgd``: plain stochastic gradient descent without momentum.
        learning_rate: The optimiser's step size, > 0.
        learning_rate_schedule: ``drops``, or ``cosine`` instead of them [Loshchilov2017]. Of n epochs after the
            warm-up, epoch e has (1 + cos(pi (e - 1/2) / n)) / 2 of the rate.
        learning_rate_drop_epochs: Epochs after which the rate is multiplied by ``learning_rate_drop_factor``, >= 1.
        learning_rate_drop_factor: In (0, 1].
        warmup_epochs: Number of first epochs in which the rate rises in equal steps, >= 0. Of n, epoch e has e/(n+1) of
            it.
        weight_decay: Decoupled weight decay, >= 0: with it Adam is AdamW.
        weight_decay_of: ``all`` weights, or ``matrices``: not biases, gains and other vectors.
        weight_average: Decay of an exponential moving average of the weights, in [0, 0.99999]; 0 is no average. The
            average is evaluated, kept as the best and packed.
        backbone_learning_rate: The rate of the backbone's weights with ``finetune``, > 0; ``None`` is the rate of the
            others. It has the same schedule.
        loss_learning_rate: The rate of learned hyper-parameters of the loss, > 0, likewise.
        gradient_clip: Largest global norm of the gradient, > 0; ``None`` does not clip.
        embedding_size: Dimensions of the joint space, >= 1; the GRU's hidden size as well.
        word_size: Dimensions of a word embedding, >= 1.
        length_buckets: Number of batches whose pairs are sorted by length before they are cut, >= 1; 1 does not sort.
        duplicates: A caption in a batch that fits an image but is not its pair's, because one of them is there twice.
            ``mask`` ignores it, ``negatives`` counts it as a negative, as the published code does.
        cocos_every: Epochs between COCOS statistics, >= 0; 0 takes them at the best epochs only.
        cocos_steps: Number of first steps of the first epoch with COCOS statistics as well, >= 0, before each step.
        patience: Epochs in a row without a better selection metric that end the training, >= 1; ``null`` trains all.
            ``scale_epochs`` multiplies it too.
        augment: Train on a random view of each image, another one each epoch; evaluation sees it plain. It is a random
            crop with ``finetune``, else the features of ``data extract --augmentations``.
        finetune: Train from pixels, a backbone of torchvision included (``model_parameters.backbone``, ``.weights``).
        frozen_epochs: With ``finetune``, number of first epochs in which the backbone is not trained, >= 0;
            ``scale_epochs`` multiplies them too.
        precision: Precision of matrix products and convolutions: ``float32``, ``bf16``, or ``auto``: bf16 on a GPU that
            has it.
            GRUs, lengths, similarities and losses are float32 always.
        graph: ``on``: steps have fixed shapes, which a GPU replays as a CUDA graph. ``off``: Python starts each
            operation. ``auto`` is ``on`` where there is a GPU.
        finetune_learning_rate: The rate of all parameters from then on, > 0; ``None`` keeps the rates. Published:
            2e-5 for 15 epochs after 30 frozen epochs [Faghri2018, section 4].
    """

    epochs: Annotated[int, Allowed(1)] = 30
    batches: Literal["pairs", "images"] = "pairs"
    batch_size: Annotated[int, Allowed(2), Searched([32, 64, 128, 256]), Changeable()] = 128
    micro_batch: Annotated[int | None, Allowed(1)] = None
    bank: Annotated[int, Allowed(0), Searched([0, 512, 2048, 8192]), Changeable()] = 0
    captions_per_image: Annotated[int, Allowed(1)] = 5
    scale_epochs: bool = False
    optimizer: Literal["adam", "sgd"] = "adam"
    learning_rate: Annotated[float, Allowed(0, is_open=True), Searched((2e-5, 2e-3, "log")), Changeable()] = 2e-4
    learning_rate_schedule: Annotated[Schedule, Searched(["drops", "cosine"])] = "drops"
    learning_rate_drop_epochs: Annotated[int, Allowed(1), Searched((3, 30, "int")), Changeable()] = 15
    learning_rate_drop_factor: Annotated[
        float, Allowed(0, is_open=True, maximum=1), Searched((0.05, 1.0, "log")), Changeable()
    ] = 0.1
    warmup_epochs: Annotated[int, Allowed(0), Searched((0, 5, "int"))] = 0
    weight_decay: Annotated[float, Allowed(0), Searched((1e-6, 1e-2, "log")), Changeable()] = 0.0
    weight_decay_of: Annotated[Literal["all", "matrices"], Searched(["all", "matrices"])] = "all"
    weight_average: Annotated[float, Allowed(0, maximum=0.99999), Searched([0.0, 0.99, 0.999])] = 0.0
    backbone_learning_rate: Annotated[float | None, Allowed(0, is_open=True), Searched((1e-6, 1e-4, "log"))] = None
    loss_learning_rate: Annotated[float | None, Allowed(0, is_open=True), Searched((1e-4, 1e-1, "log"))] = None
    gradient_clip: Annotated[float | None, Allowed(0, is_open=True), Searched((0.2, 20.0, "log")), Changeable()] = 2.0
    embedding_size: Annotated[int, Allowed(1), Searched([256, 512, 1024])] = 1024
    word_size: Annotated[int, Allowed(1)] = 300
    length_buckets: Annotated[int, Allowed(1)] = 1
    duplicates: Literal["mask", "negatives"] = "mask"
    cocos_every: Annotated[int, Allowed(0)] = 0
    cocos_steps: Annotated[int, Allowed(0)] = 0
    patience: Annotated[int | None, Allowed(1)] = None
    augment: bool = True
    precision: Precision = "float32"
    graph: GraphUse = "auto"
    finetune: bool = False
    frozen_epochs: Annotated[int, Allowed(0)] = 0
    finetune_learning_rate: Annotated[float | None, Allowed(0, is_open=True)] = None

    def __post_init__(self) -> None:
        problems = [
            f"training.{name}: must be {allowed}, got {value}"
            for name, allowed in RANGES.items()
            if (value := getattr(self, name)) is not None and not allowed.accepts(value)
        ]
        if problems:
            raise ConfigError(problems)

    @property
    def epoch_scale(self) -> int:
        """Factor on each number of epochs: of the training, up to a drop, of the warm-up, and frozen epochs."""
        return self.captions_per_image if self.scale_epochs and self.batches == "images" else 1

    @property
    def pairs(self) -> int:
        """Positive pairs of a full batch: the sum of a loss over the batch divided by its mean."""
        return self.batch_size * (self.captions_per_image if self.batches == "images" else 1)

    @property
    def total_epochs(self) -> int:
        """Epochs that are trained in all."""
        return self.epochs * self.epoch_scale

    @property
    def masks_duplicates(self) -> bool:
        """Whether another caption that fits an image is ignored in its batch, and is not a negative."""
        return self.duplicates == "mask"

    def is_over(self, epoch: int, best_epoch: int) -> bool:
        """Whether a training ends after an epoch, from 1, if ``best_epoch`` is the first with the best value so far."""
        waited = epoch - best_epoch
        return epoch >= self.total_epochs or (self.patience is not None and waited >= self.patience * self.epoch_scale)

    def trains_backbone(self, epoch: int) -> bool:
        """Whether the backbone is trained in an epoch, from 1."""
        return self.finetune and epoch > self.frozen_epochs * self.epoch_scale


def _without(defaults: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that differ from their default, or have none."""
    return {key: value for key, value in values.items() if key not in defaults or value != defaults[key]}


def check_tokenizer(name: str | None) -> None:
    """Refuse a name that no tokenizer has (``ConfigError``); ``None`` is inferred from the captions."""
    if name is not None and name not in TOKENIZERS and not name.endswith(".json"):
        raise ConfigError(f"tokenizer must be {', '.join(TOKENIZERS)}, or a tokenizer.json file, got {name!r}")


def check_metric(name: str) -> None:
    """Refuse a name that no metric of an epoch has of which a larger value is better (``ConfigError``)."""
    # A metric of an installed package joins when it is first named.
    if name not in may_select() and find_owner("metrics", name_parts(name).measure) is None:
        raise ConfigError(f"metric must be one of {', '.join(may_select())}, got {name!r}")
    if name not in may_select():
        raise ConfigError(f"metric {name!r} cannot select: its smaller values are better; take one of larger values")


def check_bank(model: str, loss: str, bank: int) -> None:
    """Refuse a bank of embeddings of a model, or with a loss, that has none (``ConfigError``)."""
    if bank and model in PAIR_MODELS:
        raise ConfigError(NO_BANK.format(model))
    if bank and loss not in LOSS_TABLE:
        raise ConfigError(f"training.bank: {loss} is a plug-in's loss, which takes no bank; leave it out")
    if bank and META_FRACTION in LOSS_PARAMETERS[loss]:
        raise ConfigError(f"training.bank: {loss} has a meta-step, which takes no bank; leave it out")


def similarity_notes(config: "TrialConfig") -> Iterator[str]:
    """Yield a sentence if a loss may take similarities to be cosines, and those of the model are none."""
    model, loss = MODEL_TABLE.get(config.model), LOSS_TABLE.get(config.loss)
    takes = "is a plug-in's loss, which may take cosines for granted" if loss is None else loss.takes_cosines
    if takes and model is not None and not model.is_bounded(config.model_parameters):
        yield f"{config.model}: its similarities go beyond [-1, 1], and {config.loss} {takes}"


def idle_rates(config: "TrialConfig", searched: Container[str] = (), *, may_learn: bool = False) -> Iterator[str]:
    """Yield a sentence for each rate that steps nothing, of rates that are set, or among the ``searched`` settings.

    ``may_learn`` says that a search may let the loss learn a hyper-parameter.
    """
    values = (config.loss_parameters, *(change.loss_parameters for change in config.schedule))
    learns = may_learn or any(LEARNED in of_loss.values() for of_loss in values)
    steps = {
        "backbone_learning_rate": (config.training.finetune, f"{config.model} trains no backbone"),
        "loss_learning_rate": (learns, f"{config.loss} learns no hyper-parameter"),
    }
    for name, (is_used, reason) in steps.items():
        if not is_used and (name in searched or getattr(config.training, name) is not None):
            yield f"training.{name} has no effect: {reason}"


def derive_seed(seed: int, *purpose: str | int, bits: int = 63) -> int:
    """Return a seed in [0, 2**bits) for a purpose, e.g. ``derive_seed(0, "batches", 7)``; equal on all machines."""
    digest = hashlib.sha256("/".join(map(str, (seed, *purpose))).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> (64 - bits)


_SORTED = json.JSONEncoder(sort_keys=True)


@lru_cache(maxsize=1024)
def _training(settings: tuple[tuple[str, Any], ...]) -> TrainingConfig:
    """Return the settings of a training; they are made once, because most trials of a search are trained alike."""
    return TrainingConfig(**dict(settings))


@lru_cache(maxsize=1024)
def _training_text(training: TrainingConfig) -> str:
    """Return the settings of a training as text; the text is made once, because most trials are trained alike."""
    return _SORTED.encode(vars(training))


LEFT_OUT: Mapping[str, Any] = {"schedule": (), "val_images": None, "plugins": (), "tokenizer": None}
"""Keys of a trial that are not written where they have these values, because older versions do not know them."""
TRAINING_LEFT_OUT: Mapping[str, Any] = {
    "cocos_steps": 0,
    "patience": None,
    "micro_batch": None,
    "bank": 0,
    "learning_rate_schedule": "drops",
    "weight_decay_of": "all",
    "weight_average": 0.0,
    "backbone_learning_rate": None,
    "loss_learning_rate": None,
    "graph": "auto",
}
"""Settings of ``training`` that are not written where they have these values, likewise."""
_NOTED = [
    (name, part)
    for name, hint in get_type_hints(TrainingConfig, include_extras=True).items()
    for part in getattr(hint, "__metadata__", ())
]
RANGES: Mapping[str, Allowed] = {name: part for name, part in _NOTED if isinstance(part, Allowed)}
"""Setting of ``training`` -> numbers that it accepts; settings that may be ``None`` accept ``None`` too."""
SEARCHED: Mapping[str, Space] = {name: part.space for name, part in _NOTED if isinstance(part, Searched)}
"""Setting of ``training`` that can be searched -> where, by default."""
CHANGEABLE = tuple(name for name, part in _NOTED if isinstance(part, Changeable))
"""Settings of ``training`` that may change from an epoch on."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """Hyper-parameters that change from an epoch on.

    Attributes:
        epoch: The first epoch with the new values, >= 2.
        loss_parameters: New values of the loss's hyper-parameters; others stay as they were.
        training: New values of settings of ``training``, such as ``learning_rate``; others stay as they were.
    """

    epoch: int
    loss_parameters: Mapping[str, ParameterValue] = field(default_factory=dict)
    training: Mapping[str, int | float | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.epoch < 2:
            raise ConfigError(f"schedule: a change comes in epoch 2 at the earliest, got {self.epoch}")
        for name, value in self.training.items():
            if name not in CHANGEABLE:
                raise ConfigError(f"schedule: training.{name} cannot change; these can: {', '.join(CHANGEABLE)}")
            if value is None and name != "gradient_clip":
                raise ConfigError(f"schedule: training.{name} must be {RANGES[name]}, got null")


@dataclass(frozen=True, kw_only=True)
class TrialConfig:
    """One training: data, model, loss, settings and seed.

    Attributes:
        dataset: Name of a folder under the data root, or a path.
        model: Name of a model.
        loss: Name of a loss.
        model_parameters: Constructor arguments of the model beyond its sizes; others keep their defaults.
            ``orchestrator list models`` lists them.
        loss_parameters: Hyper-parameters of the loss by their constructor names; others keep their defaults.
        training: The loop's settings.
        vocabulary: ``train``: words of the train split; ``published``: the splits that the papers used.
        tokenizer: How captions are cut into tokens; ``None`` infers it from the captions. It is ``english``, ``words``,
            ``characters``, ``labels``, a ``tokenizer.json`` in the dataset's folder, or its absolute path.
        val_images: Number of first images of the val split on which to evaluate, >= 1; ``None`` is all images.
        metric: The metric that selects the best epoch; larger is better.
        seed: Seed of initialisation and batch order, >= 0.
        schedule: Changes of settings during the training, epochs ascending.
        plugins: The plug-ins on whose code it depends, each ``NAME@DIGEST``.
    """

    dataset: str
    model: str = "vsepp"
    loss: str = "triplet_sh"
    model_parameters: Mapping[str, ParameterValue] = field(default_factory=dict)
    loss_parameters: Mapping[str, ParameterValue] = field(default_factory=dict)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    vocabulary: Literal["train", "published"] = "train"
    tokenizer: str | None = None
    val_images: int | None = None
    metric: str = "val/rsum"
    seed: int = 0
    schedule: tuple[Change, ...] = ()
    plugins: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # A model of an installed package joins ``FEATURES`` when it is first named.
        if self.model not in FEATURES and find_owner("models", self.model) is None:
            named = f"; it may be that of {', '.join(self.plugins)}: give --plugin" if self.plugins else ""
            raise ConfigError(f"model must be one of {', '.join(FEATURES)}, got {self.model!r}{named}")
        check_model_parameters(self.model, self.model_parameters)
        check_embedding_size(self.model, self.training.embedding_size)
        self._check_pixels()
        if self.training.micro_batch is not None and self.model in BATCH_NORM_MODELS:
            raise ConfigError(NO_MICRO_BATCHES.format(self.model))
        check_bank(self.model, self.loss, self.training.bank)
        self._check_meta_step()
        check_tokenizer(self.tokenizer)
        if self.val_images is not None and self.val_images < 1:
            raise ConfigError(f"val_images must be at least 1, or null for all, got {self.val_images}")
        if not 0 <= self.seed < 2**63:
            raise ConfigError(f"seed must be a whole number from 0 to 2**63 - 1, got {self.seed}")
        epochs = [change.epoch for change in self.schedule]
        if epochs != sorted(set(epochs)):
            raise ConfigError(f"schedule: each epoch comes once, and they ascend, got {epochs}")
        for epoch in epochs:
            # Refuses here settings that would otherwise end the training midway.
            self.at(epoch)

    def check_weights(self) -> None:
        """Refuse a weights file that is not there, which only a new training needs: a checkpoint has its own.

        Raises:
            ConfigError: If ``model_parameters.weights`` names no file.
        """
        check_weights(str(self.model_parameters.get("weights", "DEFAULT")), "model_parameters.weights")
        if self.encoder is not None and not Path(self.encoder).is_dir():
            raise ConfigError(f"{ENCODER_KEY}: there is no folder {self.encoder}")

    def _check_encoder(self) -> None:
        if FEATURES[self.model] != PIXELS:
            return
        if self.model_parameters.get("encoder") is None:
            raise ConfigError(
                f"{ENCODER_KEY}: {self.model} needs the folder of an encoder of open_clip or transformers; set it to "
                "an absolute path"
            )
        if self.training.finetune:
            raise ConfigError(f"training.finetune: {self.model} always reads pixels; leave it out")
        trained = self.model_parameters.get("trained", MODEL_TABLE[self.model].parameters["trained"].default)
        for name, part in (("blocks", "blocks"), ("rank", "lora"), ("alpha", "lora")):
            if name in self.model_parameters and trained not in (part, "none"):
                raise ConfigError(f"model_parameters.{name}: goes with trained: {part}, and trained is {trained}")

    @property
    def meta_fraction(self) -> float:
        """Share of the train images that a meta-step of the loss reads, and that are not trained on; 0 without one."""
        entries = LOSS_TABLE[self.loss].parameters if self.loss in LOSS_TABLE else {}
        if META_FRACTION not in entries:
            return 0.0
        return float(self.loss_parameters.get(META_FRACTION, entries[META_FRACTION].default))

    def _check_meta_step(self) -> None:
        if not self.meta_fraction:
            return
        if self.model not in META_MODELS:
            raise ConfigError(
                f"loss: {self.loss} has a meta-step, which needs second gradients and no batch norms; take the model "
                f"{' or '.join(META_MODELS)}, not {self.model}"
            )
        if self.training.micro_batch is not None:
            raise ConfigError(f"training.micro_batch: {self.loss} has a meta-step, of a whole batch; leave it out")
        fixed = ("hidden_size", META_FRACTION)
        if changed := [name for change in self.schedule for name in fixed if name in change.loss_parameters]:
            raise ConfigError(f"schedule: {changed[0]} of {self.loss} holds for the whole training; leave it out")

    def _check_pixels(self) -> None:
        self._check_encoder()
        if self.training.finetune and self.model not in PIXEL_MODELS:
            raise ConfigError(
                f"training.finetune: {self.model} reads {FEATURES[self.model]} features and cannot be trained from "
                f"pixels, only {', '.join(PIXEL_MODELS)} can; leave it false and make features with data extract"
            )
        if self.training.finetune and self._pools_regions:
            raise ConfigError(
                f"model_parameters.{REGION_PARAMETERS[self.model]}: pools the regions of region features; leave it out "
                "to train from pixels, or set training.finetune: false"
            )
        for name in ("backbone", "weights"):
            if name in self.model_parameters and self.model in PIXEL_MODELS and not self.training.finetune:
                raise ConfigError(
                    f"model_parameters.{name}: goes with training.finetune: true; features have their backbone already"
                )

    @property
    def features(self) -> str:
        """Input of the model for an image: a value of ``FEATURES``, or ``PIXELS``."""
        if self.training.finetune:
            return PIXELS
        return "regions" if self._pools_regions else FEATURES[self.model]

    @property
    def encoder(self) -> str | None:
        """Folder of the encoder that is trained; ``None`` for a model without one."""
        return str(self.model_parameters["encoder"]) if FEATURES[self.model] == PIXELS else None

    @property
    def inputs(self) -> tuple[str, ...]:
        """Further inputs that the model reads, keys of ``trainables.data.inputs.INPUTS``."""
        return further_inputs(self.model, self.model_parameters)

    @property
    def reads_text_features(self) -> bool:
        """Whether the model reads features of captions instead of their words."""
        return self.model in TEXT_MODELS

    @property
    def _pools_regions(self) -> bool:
        """Whether a parameter makes the model read regions instead of global features."""
        return REGION_PARAMETERS.get(self.model) in self.model_parameters

    def at(self, epoch: int) -> "TrialConfig":
        """Return the config of an epoch, from 1, without a schedule."""
        loss_parameters, training = dict(self.loss_parameters), self.training
        for change in (change for change in self.schedule if change.epoch <= epoch):
            loss_parameters |= change.loss_parameters
            training = replace(training, **change.training)  # type: ignore[arg-type]
        return replace(self, loss_parameters=loss_parameters, training=training, schedule=())

    def until(self, epoch: int) -> "TrialConfig":
        """Return the config that decides the outcome up to an epoch: without later changes of the schedule."""
        return replace(self, schedule=tuple(change for change in self.schedule if change.epoch <= epoch))

    def to_dict(self) -> dict[str, Any]:
        """Return plain dicts, lists and numbers for YAML and JSON; ``from_dict`` is the inverse.

        Keys of ``LEFT_OUT`` and ``TRAINING_LEFT_OUT`` are left out where they have the values of these tables.
        """
        return self._with(_without(TRAINING_LEFT_OUT, vars(self.training)))

    def _with(self, training: object) -> dict[str, Any]:
        values = {
            **vars(self),
            "model_parameters": dict(self.model_parameters),
            "loss_parameters": dict(self.loss_parameters),
            "training": training,
            "schedule": tuple(map(asdict, self.schedule)),
        }
        return _without(LEFT_OUT, values)

    @property
    def setting(self) -> str:
        """A text that is equal for two trainings that differ only in their seeds."""
        return _SORTED.encode({**self._with(_training_text(self.training)), "seed": None})

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "TrialConfig":
        """Return the config of a ``to_dict``; types are trusted, ranges are checked.

        Raises:
            ConfigError: If a value is refused, or this version does not know a key.
        """
        rest = dict(values)
        try:
            training = _training(tuple(rest.pop("training", {}).items()))
            schedule = tuple(Change(**change) for change in rest.pop("schedule", ()))
            plugins = tuple(rest.pop("plugins", ()))
            return cls(**rest, training=training, schedule=schedule, plugins=plugins)
        except TypeError as error:
            raise ConfigError(f"a training of another version: {error}") from None
