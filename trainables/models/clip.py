"""CLIP: a pretrained encoder of pictures and captions that is trained from pixels: whole, its last blocks, or by LoRA.

The encoder is a folder of open_clip or of transformers, CLIP or SigLIP, which ``data extract --encoder`` reads too.
Pictures are prepared and captions are numbered as the library does it. The similarity is the cosine of both vectors
[Radford2021]. A temperature and a bias of the loss that are ``learned`` begin with those of the encoder.

Parameters of the model are the trained ones alone: the optimiser, the average of the weights and checkpoints have no
others. A checkpoint needs the folder, and says by a digest which folder it was. With ``trained: none`` nothing is
trained, and the model is the zero-shot model. Statistics of batch norms stay as they are.

References:
    [Radford2021] Radford et al., Learning Transferable Visual Models From Natural Language Supervision, figure 3.
        arXiv:2103.00020
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from torch import Tensor, nn

from trainables.config import TrialConfig
from trainables.data.dataset import Dataset
from trainables.data.length_profile import Lengths
from trainables.data.pictures import random_part
from trainables.data.reading import Reading
from trainables.encoders import keep, kept_name, read_encoder
from trainables.encoders.blocks import Part, open_part
from trainables.encoders.pretrained import CAPTIONS, IMAGES, NoEncoderError, PretrainedEncoder, folder_digest
from trainables.model_parameters import ENCODER_KEY, MODEL_TABLE
from trainables.models.retrieval_model import RetrievalModel

if TYPE_CHECKING:
    import PIL.Image

PARAMETERS = MODEL_TABLE["clip"].parameters

_BLANK = (8, 8)
"""Size of the picture whose preparation shows what the network reads."""


class CLIP(RetrievalModel):
    """Images and captions as unit vectors of the encoder's joint space."""

    def __init__(
        self,
        encoder: PretrainedEncoder,
        *,
        trained: Part = PARAMETERS["trained"].default,
        blocks: int = PARAMETERS["blocks"].default,
        rank: int = PARAMETERS["rank"].default,
        alpha: float = PARAMETERS["alpha"].default,
        crop_area: float = PARAMETERS["crop_area"].default,
    ) -> None:
        """Take an encoder of both sides, which is changed; the adapters of LoRA come from torch's global generator.

        Args:
            encoder: An encoder that nothing else uses.
            trained: ``whole``, ``blocks``, ``lora`` or ``none``.
            blocks: With ``blocks``, number of last blocks of each tower.
            rank: With ``lora``, r; ``alpha`` is its scale.
            alpha: See ``rank``.
            crop_area: Least share of a picture's area in a random view of training, in (0, 1]; 1 takes no random view.

        Raises:
            NoEncoderError: If the encoder has one side alone, or no such part.
        """
        super().__init__()
        self._folder = ""
        if {*encoder.sides} != {IMAGES, CAPTIONS}:
            raise NoEncoderError(f"{ENCODER_KEY}: {encoder.name} makes features of one side alone; take CLIP or SigLIP")
        # In an attribute that torch does not look into: what is frozen is no parameter of the model.
        self._encoder, self._trained, self._crop_area = encoder, trained, crop_area
        for name, parameter in open_part(encoder.network, trained, blocks=blocks, rank=rank, alpha=alpha).items():
            # Torch takes no dots in the name of a parameter.
            self.register_parameter(name.replace(".", "/"), parameter)
        self._size = encoder.prepare(_blank_picture()).shape[-1]
        self.reading = Reading(self._view, encoder.number)
        self.initial_values = encoder.loss_parameters()

    @classmethod
    def build(cls, config: TrialConfig, data: Dataset, *, pretrained: bool = True) -> Self:
        """Read the encoder, in any case: a checkpoint has the trained parameters alone."""
        named = {name: entry.default for name, entry in PARAMETERS.items()} | {**config.model_parameters}
        folder = str(named.pop("encoder"))
        # Libraries draw weights before they read them; the adapters must not depend on how many.
        with torch.random.fork_rng(devices=[]):
            encoder = read_encoder(folder, key=ENCODER_KEY)
        model = cls(encoder, **named)
        model._folder, model.origin_digest = folder, folder_digest(Path(folder))
        return model

    def encode_images(self, pixels: Tensor) -> Tensor:
        """Map views of pictures (I, 3, S, S), float32, to unit vectors (I, E)."""
        return self._encoder.image_vectors(pixels)

    def encode_captions(self, tokens: Tensor, lengths: Lengths) -> Tensor:
        """Map token ids of the encoder (C, T), with their lengths (C,), to unit vectors (C, E)."""
        assert isinstance(lengths, Tensor)
        return self._encoder.caption_vectors(tokens, lengths)

    def train(self, mode: bool = True) -> Self:
        """Switch between training and evaluation mode; a frozen encoder stays in evaluation mode."""
        super().train(mode)
        network = self._encoder.network.train(mode and self._trained != "none")
        for module in network.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.eval()
        return self

    def pack_origin(self, folder: Path) -> str:
        """Keep the encoder's files, see ``trainables.encoders.keep``."""
        encoder = read_encoder(self._folder, key=ENCODER_KEY)
        encoder.libraries = (*encoder.libraries, *(["peft"] if self._trained == "lora" else []))
        keep(encoder, folder)
        return kept_name(encoder.digest)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move or convert the encoder too; the trained parameters are the same objects in both."""
        self._encoder.network._apply(fn)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def _view(self, picture: "PIL.Image.Image", random: np.random.Generator | None) -> np.ndarray:
        """Return a picture as the network reads it, (3, S, S), float32; see ``trainables.data.reading.View``."""
        if random is not None and self._crop_area < 1:
            picture = random_part(picture, self._size, random, self._crop_area)
        return self._encoder.prepare(picture)


def _blank_picture() -> "PIL.Image.Image":
    from PIL import Image

    return Image.new("RGB", _BLANK)
