"""The meta split: images of train, with all their captions, that a meta-step reads and that are not trained on.

The share of images is ``meta_fraction`` of the loss. The digest of the dataset draws them, so that all trials of a
study, whatever their seeds, have one meta split for a fraction. Neither val nor test is read.
"""

import numpy as np

from trainables.config import TrialConfig, derive_seed
from trainables.data.dataset import Dataset, Split
from trainables.errors import ConfigError


def trained_split(config: TrialConfig, data: Dataset) -> Split:
    """Return what is trained on: the train split without the images of the meta split (``ConfigError``)."""
    return data.splits["train"] if not config.meta_fraction else set_aside(config, data)[0]


def set_aside(config: TrialConfig, data: Dataset) -> tuple[Split, Split]:
    """Return what is trained on, and the meta split, of a trial whose loss has a meta-step (``ConfigError``)."""
    train, size = data.splits["train"], check_meta_split(config, data)
    order = np.random.default_rng(derive_seed(0, "meta split", data.digest)).permutation(len(train.image_rows))
    return train.part(np.sort(order[size:])), train.part(np.sort(order[:size]))


def check_meta_split(config: TrialConfig, data: Dataset) -> int:
    """Return the number of images of the meta split; 0 for a loss without a meta-step.

    Raises:
        ConfigError: If the dataset has classes or labels, or a part would have fewer than two images.
    """
    train, fraction = data.splits["train"], config.meta_fraction
    if not fraction:
        return 0
    if train.labels is not None or train.caption_labels is not None:
        raise ConfigError(
            f"loss: {config.loss} sets images of train aside, and {data.name} has classes or labels that both parts "
            "would share; take another loss"
        )
    count = len(train.image_rows)
    size = round(fraction * count)
    if min(size, count - size) < 2:
        raise ConfigError(
            f"loss_parameters.meta_fraction: {fraction} of the {count} train images of {data.name} are {size}, and "
            "each part needs two; choose another fraction or loss"
        )
    return size
