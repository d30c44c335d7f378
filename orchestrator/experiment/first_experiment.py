"""The first experiment on a dataset: model, losses, batch and epochs that suit what lies there.

=====================================  =============================================================================
the dataset has                        the experiment trains
=====================================  =============================================================================
pictures, and an encoder is named      ``clip``, the encoder fine-tuned beside its zero-shot model
images with classes                    ``head``, on images alone
images with labels                     ``wsabie``, a column for each label
features of images and captions        ``head``; features of equal dimensions give a zero-shot baseline
regions of images, frames of clips     ``vsepp`` that pools them with ``gpo``
one vector an image                    ``vsepp``, whose GRU reads the words
=====================================  =============================================================================
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from trainables.config import TEXT
from trainables.errors import ConfigError

STEPS = 1_500
"""Steps of a training, at least, unless that were more than ``MOST_EPOCHS``."""

MOST_EPOCHS, FEWEST_EPOCHS = 30, 6

FINE_TUNED = 5
"""Epochs of fine-tuning, from pixels."""


@dataclass(frozen=True)
class DatasetFacts:
    """What a first experiment needs to know of a dataset.

    Attributes:
        name: Name of the dataset under the data root.
        images, captions: Their numbers in the train split.
        dimensions: Kind of features, such as ``global`` and ``text`` -> numbers in a vector.
        has_classes: Whether images retrieve images of their class.
        has_labels: Whether captions are labels that images share.
        has_pictures: Whether the files of the pictures are there.
    """

    name: str
    images: int
    captions: int
    dimensions: Mapping[str, int]
    has_classes: bool = False
    has_labels: bool = False
    has_pictures: bool = False


def write_first(facts: DatasetFacts, name: str, command: str, encoder: str | None = None) -> str:
    """Return the YAML text of the first experiment; ``command`` searches it.

    ``encoder`` is the absolute path of an encoder to fine-tune; ``None`` trains on features.

    Raises:
        ConfigError: If the dataset has no features of its images, or none of the pictures that an encoder needs; the
            message has the command that makes some.
    """
    of_images = [kind for kind in facts.dimensions if kind != TEXT]
    if encoder is not None:
        body = _clip(facts, encoder)
    elif not of_images:
        trains = "train an encoder with --encoder FOLDER, " if facts.has_pictures and not facts.has_classes else ""
        raise ConfigError(
            f"{facts.name}: has no features of its pictures; {trains}make them with `orchestrator data extract "
            f"{facts.name}`, or import them with `orchestrator data import`"
        )
    elif facts.has_classes:
        body = _head(
            facts, ["multi_similarity", "nt_xent"], "Linear heads for images that retrieve images of their class"
        )
    elif facts.has_labels and "global" in facts.dimensions:
        body = _labels(facts)
    elif TEXT in facts.dimensions and "global" in facts.dimensions:
        body = _head(facts, ["triplet_sh", "nt_xent", "sigmoid"], "Linear heads on the features of both sides")
    elif "global" in facts.dimensions:
        body = _words(facts, {}, "VSE++ on a vector an image; a GRU reads the words")
    elif "regions" in facts.dimensions:
        about = "VSE++ on sets of vectors of an image, pooled by GPO; a GRU reads the words"
        body = _words(facts, {"pooling": "gpo"}, about)
    else:
        raise ConfigError(
            f"{facts.name}: has features {', '.join(of_images)}, and none called global or regions; name a start with "
            "--from"
        )
    about, lines = body
    header = [
        f"# The first search on {facts.name}: {facts.images:,} train images with {facts.captions:,} captions.",
        f"# {about}.",
        "#",
        f"#   {command}",
        "#",
        "# Each loss gets a learning rate of its own. Its best setting is trained again with three fresh seeds.",
        "# The test split is opened for these trainings alone.",
    ]
    shown = facts.name if re.fullmatch(r"[A-Za-z][\w-]*", facts.name) else json.dumps(facts.name)
    start = [f"name: {name}", f"description: {about}.", f"datasets: [{shown}]"]
    return "\n".join([*header, *start, *lines]) + "\n"


def _batch(facts: DatasetFacts, batch: int) -> int:
    """Return the size of batches of at most an eighth of an epoch."""
    pairs = facts.images if facts.has_classes else facts.captions
    while batch > 8 and batch > pairs // 8:
        batch //= 2
    return max(2, min(batch, pairs))


def _training(facts: DatasetFacts, batch: int, rate: str, size: int) -> str:
    """Return the key ``training``, with epochs for enough steps."""
    pairs, batch = facts.images if facts.has_classes else facts.captions, _batch(facts, batch)
    epochs = max(FEWEST_EPOCHS, min(MOST_EPOCHS, -(-STEPS * batch // max(pairs, 1))))
    drop = max(1, epochs * 2 // 3)
    return (
        f"training: {{epochs: {epochs}, batch_size: {batch}, learning_rate: {rate}, learning_rate_drop_epochs: {drop}, "
        f"embedding_size: {size}}}"
    )


def _head(facts: DatasetFacts, losses: list[str], about: str) -> tuple[str, list[str]]:
    sizes = facts.dimensions
    is_joint = not facts.has_classes and sizes["global"] == sizes[TEXT]
    listed = [*losses, *(["triplet"] if is_joint else [])]
    search = "{sampler: tpe, trials: 6, metric: val/rsum, training: {learning_rate: [2.0e-4, 2.0e-2]}"
    lines = [
        "models: [head]",
        f"losses: [{', '.join(listed)}]",
        _training(facts, 256, "1.0e-3", min(256, *sizes.values())),
        f"search: {search}, fixed: {{triplet: {{margin: 0.2}}}}}}" if is_joint else f"search: {search}}}",
    ]
    if is_joint:
        lines += [
            "overrides:",
            "  # The features as they are, zero-shot: nothing is trained, and triplet is only the name of this study.",
            "  - losses: [triplet]",
            "    model_parameters: {image_head: identity, caption_head: identity}",
            f"    training: {{epochs: 1, embedding_size: {sizes['global']}}}",
        ]
    confirm = "confirm: {top: 1, seeds: 3, baseline: triplet}" if is_joint else "confirm: {top: 1, seeds: 3}"
    lines += ["scheduler: {name: none}", "resources: {cpus: 1}", confirm]
    return about + (", beside the features as they are (zero-shot)" if is_joint else ""), lines


def _clip(facts: DatasetFacts, encoder: str) -> tuple[str, list[str]]:
    if facts.has_classes:
        raise ConfigError(f"--encoder: {facts.name} has classes in place of captions, which no text encoder reads")
    if not facts.has_pictures:
        raise ConfigError(f"--encoder: the pictures of {facts.name} are not there; put them into the dataset's folder")
    batch = _batch(facts, 256)
    lines = [
        "models: [clip]",
        f"model_parameters: {{encoder: {json.dumps(encoder)}, trained: lora}}",
        "losses: [nt_xent, sigmoid]",
        f"training: {{epochs: {FINE_TUNED}, batch_size: {batch}, micro_batch: {min(64, batch)}, precision: bf16}}",
        "search:",
        "  {sampler: tpe, trials: 6, metric: val/rsum, training: {learning_rate: [1.0e-5, 1.0e-3]}, fixed:",
        "    {nt_xent: {temperature: learned}, sigmoid: {temperature: learned, bias: learned}}}",
        "scheduler: {name: none}",
        "resources: {cpus: 1}",
        "confirm: {top: 1, seeds: 3}",
    ]
    return "An encoder fine-tuned by LoRA, beside the encoder as it is (zero-shot)", lines


def _labels(facts: DatasetFacts) -> tuple[str, list[str]]:
    training = "search: {sampler: tpe, trials: 8, metric: val/i2t_p5, training: {learning_rate: [1.0e-3, 1.0e-1]}}"
    lines = [
        "models: [wsabie]",
        "losses: [warp, triplet, nt_xent]",
        _training(facts, 512, "1.0e-2", 100),
        training,
        "scheduler: {name: none}",
        "resources: {cpus: 1}",
        "confirm: {top: 1, seeds: 3}",
    ]
    return "WSABIE, a column for each label", lines


def _words(facts: DatasetFacts, parameters: Mapping[str, str], about: str) -> tuple[str, list[str]]:
    lines = [
        "models: [vsepp]",
        "losses: [triplet_sh, nt_xent, polynomial_relative]",
        _training(facts, 128, "5.0e-4", 512),
        *(
            [f"model_parameters: {{{', '.join(f'{key}: {value}' for key, value in parameters.items())}}}"]
            if parameters
            else []
        ),
        "search: {sampler: tpe, trials: 8, metric: val/rsum, training: {learning_rate: [2.0e-4, 3.0e-3]}}",
        "scheduler: {name: asha, grace_epochs: 3, reduction_factor: 3}",
        "resources: {cpus: 1}",
        "confirm: {top: 1, seeds: 3}",
    ]
    return about, lines
