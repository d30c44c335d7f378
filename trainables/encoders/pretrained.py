"""What every pretrained encoder offers: vectors of pictures, of captions, or of both in one space.

Vectors of CLIP, SigLIP and DINOv2 have unit length, as published for retrieval; those of a sentence encoder are what
its folder says. The vectors are those of the library, in float32, and are kept as float16.

References:
    [Radford2021] Radford et al., Learning Transferable Visual Models From Natural Language Supervision.
        arXiv:2103.00020, figure 3: both sides are scaled to unit length.
    [Zhai2023] Zhai et al., Sigmoid Loss for Language Image Pre-Training. arXiv:2303.15343, algorithm 1.
    [Oquab2023] Oquab et al., DINOv2. arXiv:2304.07193: the class token after the last norm.
"""

import hashlib
import math
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trainables.config import TEXT
from trainables.data.clip_files import Frame, decode_frame
from trainables.data.extract import Encoder
from trainables.data.text_files import file_digest
from trainables.errors import ConfigError
from trainables.extras import missing_modules
from trainables.files import remembered

if TYPE_CHECKING:
    import PIL.Image
    import torch
    from torch import Tensor, nn

IMAGES, CAPTIONS = "global", TEXT
"""Kinds of features that an encoder makes of its two sides."""


class NoEncoderError(ConfigError):
    """A file of an encoder is missing, or of something else."""


def getting(repository: str, file: str = "") -> str:
    """Return the end of a message: how people get the files of a model, which are on the Hugging Face Hub."""
    if file:
        return f"`hf download {repository} {file}` gets it"
    return f"`hf download {repository} --local-dir FOLDER` gets its files"


class PretrainedEncoder(ABC):
    """An encoder in eval mode, on its device.

    Attributes:
        libraries: The packages that run it, by their names for ``pip``.
        name: The model, for people.
        weights: Name of the file or folder of its weights.
        network: The network, a module of torch, whose weights ``weights_digest`` identifies.
        sides: Kinds of features that it makes: ``global`` of pictures, ``text`` of captions, or both.
        transform: How the library prepares a picture, for the record; empty where no pictures are read.
        notes: What a person should know before the features are used, a sentence each.
        context_length: Tokens to which captions are padded or cut; 0 where the library alone sees tokens.
        padding: Id of the padding.
    """

    libraries: tuple[str, ...]
    name: str
    weights: str
    network: Any
    sides: tuple[str, ...]
    transform: str = ""
    notes: tuple[str, ...] = ()
    context_length = 0
    padding = 0

    def prepare(self, picture: "PIL.Image.Image") -> np.ndarray:
        """Return what the network reads of a picture, float32, (3, S, S); threads may call this."""
        raise NotImplementedError

    def image_vectors(self, pixels: "Tensor") -> "Tensor":
        """Map prepared pictures (B, 3, S, S) on the network's device to vectors (B, D); gradients flow."""
        raise NotImplementedError

    def number(self, captions: Sequence[str]) -> list[np.ndarray]:
        """Return the token ids of each caption, (T,), int64, cut to ``context_length``, without padding."""
        raise NotImplementedError

    def caption_vectors(self, tokens: "Tensor", lengths: "Tensor") -> "Tensor":
        """Map captions to vectors (B, D); gradients flow.

        Token ids (B, T) are on the network's device, and lengths (B,) in [1, T] anywhere. What lies after a caption's
        end is not read.
        """
        import torch
        from torch.nn.functional import pad

        inside = torch.arange(tokens.shape[1], device=tokens.device) < lengths.to(tokens.device)[:, None]
        rest = self.context_length - tokens.shape[1]
        return self._vectors_of(
            pad(tokens.masked_fill(~inside, self.padding), (0, rest), value=self.padding), pad(inside, (0, rest))
        )

    def _vectors_of(self, tokens: "Tensor", inside: "Tensor") -> "Tensor":
        """Map padded token ids (B, ``context_length``) to vectors; ``inside`` says which are no padding, bool."""
        raise NotImplementedError

    def encode_images(self, pixels: np.ndarray) -> np.ndarray:
        """Map prepared pictures (B, 3, S, S) to vectors (B, D), float32."""
        import torch

        with torch.inference_mode():
            vectors = self.image_vectors(torch.from_numpy(pixels).to(self.device))
            return np.asarray(vectors.float().cpu().numpy())

    def encode_captions(self, captions: Sequence[str]) -> np.ndarray:
        """Map captions to vectors (B, D), float32."""
        import torch

        ids = [torch.from_numpy(part) for part in self.number(captions)]
        lengths = torch.tensor([len(part) for part in ids])
        with torch.inference_mode():
            tokens = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True).to(self.device)
            return np.asarray(self.caption_vectors(tokens, lengths).float().cpu().numpy())

    def loss_parameters(self) -> dict[str, float]:
        """Return the temperature, and the bias, with which the encoder was trained, as far as it has them."""
        found = {name: getattr(self.network, name, None) for name in ("logit_scale", "logit_bias")}
        scale, bias = (None if value is None else float(value.detach()) for value in found.values())
        values = {} if scale is None else {"temperature": math.exp(-scale)}
        return values if bias is None else {**values, "bias": bias}

    @property
    def device(self) -> "torch.device":
        """Where the weights lie."""
        return next(iter(self.network.parameters())).device

    @abstractmethod
    def files(self) -> Mapping[str, Path | str]:
        """Return what ``read_encoder`` needs to read it from a folder: name -> file, or the text of a file."""

    @cached_property
    def digest(self) -> str:
        """The SHA-256 over names and values of all weights."""
        return weights_digest(self.network)

    def origin(self) -> dict[str, Any]:
        """Return the record of the features' origin."""
        return {
            "encoder": self.name,
            "libraries": self.libraries,
            "weights": self.weights,
            "weights_digest": self.digest,
            "transform": self.transform,
        }

    def by_side(self) -> dict[str, Encoder]:
        """Return the function of each side for ``trainables.data.extract``."""

        def picture(frame: Frame, row: int) -> np.ndarray:
            return self.prepare(decode_frame(frame))[None]

        def caption(text: str, row: int) -> np.ndarray:
            return np.array([text], dtype=object)

        made = {
            IMAGES: Encoder(picture, lambda pixels: {IMAGES: self.encode_images(pixels).astype(np.float16)}),
            CAPTIONS: Encoder(caption, lambda texts: {CAPTIONS: self.encode_captions(list(texts)).astype(np.float16)}),
        }
        return {side: made[side] for side in self.sides}


def weights_digest(network: "nn.Module") -> str:
    """Return the SHA-256 over names and values of all weights."""
    digest = hashlib.sha256()
    for name, tensor in sorted(network.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.cpu().contiguous().view(-1).numpy())
    return digest.hexdigest()


def unit(vectors: "Tensor") -> "Tensor":
    """Scale vectors to unit length, in float32 or higher precision."""
    import torch
    from torch.nn.functional import normalize

    return normalize(vectors.to(torch.promote_types(vectors.dtype, torch.float32)), dim=-1)


@contextmanager
def offline() -> Iterator[None]:
    """Keep the Hub's client from asking its server, whatever a library tries, and transformers from chatting."""
    from huggingface_hub import constants

    before, constants.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE, True
    # open_clip may live without it.
    if is_there := not missing_modules("transformers"):
        from transformers.utils import logging

        verbosity = logging.get_verbosity()
        logging.set_verbosity_error()
        logging.disable_progress_bar()
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before
        if is_there:
            logging.set_verbosity(verbosity)


TEXTS = (".json", ".txt", ".model")
"""Endings of the small files of a model's folder: settings and tokenizers."""


def tensor_files(folder: Path, safe: str, pickled: str) -> list[Path]:
    """Return the files of a folder with weights, by their patterns; safetensors where both forms are there."""
    return sorted(folder.glob(safe)) or sorted(folder.glob(pickled))


def folder_digest(folder: Path) -> str:
    """Return the SHA-256 over names and contents of a model's files; contents are read once while they do not change.

    Raises:
        NoEncoderError: If there is no such folder.
    """
    if not folder.is_dir():
        raise NoEncoderError(f"{folder}: is no folder")
    digest = hashlib.sha256()
    for path in [*text_files(folder), *tensor_files(folder, "*.safetensors", "*.bin")]:
        digest.update(f"{path.name} {remembered(path, file_digest)['digest']}\n".encode())
    return digest.hexdigest()


def text_files(folder: Path) -> list[Path]:
    """Return the small files directly in a model's folder."""
    return sorted(path for path in folder.iterdir() if path.is_file() and path.suffix in TEXTS)


def link_files(files: Mapping[str, Path | str], folder: Path) -> None:
    """Give files a second name in a new folder: hard links, which take no space, or copies on another disk."""
    for name, content in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            target.write_text(content, encoding="utf-8")
            continue
        try:
            os.link(content.resolve(), target)
        except OSError:
            shutil.copyfile(content, target)
