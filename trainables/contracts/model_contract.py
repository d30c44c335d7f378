"""The contract of a plug-in's model, checked on a dataset of a few random images and captions."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import torch
from torch import Tensor

from trainables.config import TrainingConfig, TrialConfig
from trainables.contracts import BrokenError, ContractFinding, run_checks
from trainables.data.dataset import Dataset, Split
from trainables.data.text_files import Strings
from trainables.data.tokenizers import SPECIAL, Vocabulary
from trainables.model_parameters import FEATURES
from trainables.models import build_model
from trainables.models.pair_model import PairModel
from trainables.models.retrieval_model import RetrievalModel
from trainables.representations import Sets

IMAGES, SIZE, WORDS, LONGEST = 6, 12, 20, 7


def check_model(name: str) -> Iterator[ContractFinding]:
    """Return a finding for each check of a model."""
    # The other checks need similarities.
    return run_checks(CHECKS, name, needed="shapes")


def _check_shapes(name: str) -> None:
    model, features, tokens, lengths = _example(name)
    images, captions = model.encode_images(features), model.encode_captions(tokens, lengths)
    for modality, made, count in (("images", images, len(features)), ("captions", captions, len(tokens))):
        vectors = made.vectors if isinstance(made, Sets) else made
        shape = f"Sets with vectors ({count}, T, E)" if isinstance(model, PairModel) else f"({count}, E)"
        dimensions = 3 if isinstance(model, PairModel) else 2
        if not (isinstance(vectors, Tensor) and vectors.dim() == dimensions and len(vectors) == count):
            got = tuple(vectors.shape) if isinstance(vectors, Tensor) else type(vectors).__name__
            raise BrokenError(f"encode_{modality} must return {shape} for {count} {modality}, got {got}")
        if not (vectors.is_floating_point() and bool(vectors.isfinite().all())):
            raise BrokenError(f"encode_{modality} must return finite floats")
    if isinstance(images, Tensor) and isinstance(captions, Tensor) and images.shape[1] != captions.shape[1]:
        raise BrokenError(
            f"vectors of images have {images.shape[1]} dimensions, those of captions {captions.shape[1]}; "
            f"their dot product is the similarity"
        )
    similarity, wanted = model.compare(images, captions), (len(features), len(tokens))
    if similarity.shape != wanted or not bool(similarity.isfinite().all()):
        raise BrokenError(f"the similarity must be finite and of shape {wanted}, got shape {tuple(similarity.shape)}")


def _check_padding(name: str) -> None:
    model, features, tokens, lengths = _example(name)
    model.eval()
    with torch.no_grad():
        together = _similarity(model, features, tokens, lengths)
        for place, length in enumerate(lengths.tolist()):
            caption = tokens[place : place + 1]
            caption = caption if caption.is_floating_point() else caption[:, :length]
            alone = _similarity(model, features, caption, lengths[place : place + 1])
            if not torch.allclose(alone[:, 0], together[:, place], atol=1e-4):
                raise BrokenError(
                    f"a caption of {length} words has other similarities alone than beside longer captions: "
                    f"padding (0 after lengths[i] words) and other captions must not count in eval mode"
                )
        for place in range(len(features)):
            alone = _similarity(model, features[place : place + 1], tokens, lengths)
            if not torch.allclose(alone[0], together[place], atol=1e-4):
                raise BrokenError("an image has other similarities alone than beside other images in eval mode")


def _check_learning(name: str) -> None:
    model, features, tokens, lengths = _example(name)
    model.train()
    similarity = _similarity(model, features, tokens, lengths)
    (similarity * torch.randn(similarity.shape)).sum().backward()
    without = [key for key, parameter in model.named_parameters() if parameter.requires_grad and parameter.grad is None]
    if without:
        raise BrokenError(f"no gradient reaches {', '.join(without[:5])}: use the parameter, or remove it")


def _check_weights(name: str) -> None:
    model, features, tokens, lengths = _example(name)
    other = _example(name, seed=1)[0]
    other.load_state_dict(model.state_dict())
    model.eval(), other.eval()
    with torch.no_grad():
        first, second = (_similarity(network, features, tokens, lengths) for network in (model, other))
    if not torch.allclose(first, second, atol=1e-5):
        raise BrokenError(
            "a second model with the same state_dict has other similarities: register tensors as nn.Parameter or "
            "buffer, and draw nothing in eval mode"
        )


def _similarity(model: RetrievalModel, features: Tensor, tokens: Tensor, lengths: Tensor) -> Tensor:
    return model.compare(model.encode_images(features), model.encode_captions(tokens, lengths))


CHECKS: Mapping[str, tuple[Callable[[str], None], str]] = {
    "shapes": (
        _check_shapes,
        "images and captions become float vectors of one size, or sets of such that have a similarity",
    ),
    "padding": (_check_padding, "the similarity of a pair depends on nothing but the pair"),
    "learning": (_check_learning, "every parameter gets a gradient"),
    "weights": (_check_weights, "a checkpoint has all that the similarities depend on"),
}
"""Name of a check -> the check, and the statement that it proves."""


def _example(name: str, seed: int = 0) -> tuple[RetrievalModel, Tensor, Tensor, Tensor]:
    """Return a model, features of images, token ids (or features) of captions, and lengths of captions."""
    torch.manual_seed(seed)
    data, lengths = _dataset(FEATURES[name]), torch.tensor([LONGEST, 2, 4])
    config = TrialConfig(dataset="example", model=name, training=TrainingConfig(embedding_size=16, word_size=8))
    tokens = torch.randint(len(SPECIAL), WORDS, (3, LONGEST), generator=torch.Generator().manual_seed(3))
    tokens[torch.arange(LONGEST) >= lengths[:, None]] = 0
    train = data.splits["train"]
    features = torch.from_numpy(np.array(train.features))
    if config.reads_text_features:
        tokens = torch.from_numpy(np.array(train.caption_features))[:3]
    return build_model(config, data), features, tokens, lengths


def _dataset(features: str) -> Dataset:
    """Return a dataset of random features with one caption an image."""
    random = np.random.default_rng(0)
    shape = (IMAGES, 4, SIZE) if features == "regions" else (IMAGES, SIZE)
    captions = Strings.pack([f"caption {number}" for number in range(IMAGES)])
    split = Split(
        name="train",
        features=random.normal(size=shape).astype(np.float32),
        image_rows=np.arange(IMAGES),
        image_ids=captions,
        filenames=captions,
        tokens=random.integers(len(SPECIAL), WORDS, IMAGES * LONGEST).astype(np.int32),
        offsets=np.arange(IMAGES + 1) * LONGEST,
        image_of_caption=np.arange(IMAGES),
        captions=captions,
        caption_features=random.normal(size=(IMAGES, SIZE)).astype(np.float32),
        caption_rows=np.arange(IMAGES),
    )
    words = [*SPECIAL, *(f"word{number}" for number in range(WORDS - len(SPECIAL)))]
    return Dataset("example", "", Vocabulary(tuple(words)), {"train": split})
