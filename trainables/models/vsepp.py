"""VSE++: one linear map for images, a GRU for captions, cosine between them.

The input for an image is a precomputed global feature, or its pixels, which a backbone reads that is trained along.
With ``pooling`` the input is precomputed regions: linearly mapped regions are pooled to one vector, and so are words,
the states of a bidirectional GRU, as in VSE-infinity [Chen2021] (``trainables.models.pooling``). The residual
perceptron and the random choice of regions in training, which the published code of VSE-infinity has, are left out.

References:     [Faghri2018] Faghri et al., VSE++. arXiv:1707.05612; code fartashf/vsepp@abe382f, model.py:69-172
(images), 185-233 (captions).
    [Chen2021] Chen et al., Learning the Best Pooling Strategy for Visual Semantic Embedding. arXiv:2011.04305
"""

from math import sqrt
from typing import Any, Self

from torch import Tensor, nn
from torch.nn.functional import normalize

from trainables.config import TrialConfig
from trainables.data.dataset import Dataset
from trainables.models.backbones import Backbone, build_backbone
from trainables.models.gru import all_states, final_states
from trainables.models.layers import computing_in_full, in_full, linear
from trainables.models.pooling import POOLINGS, PooledRegions
from trainables.models.retrieval_model import RetrievalModel


class TextEncoder(nn.Module):
    """The state of a one-layer, left-to-right GRU after a caption's last token, scaled to unit length.

    With a pooling of ``POOLINGS``, the states of a bidirectional GRU are pooled instead; the state of a word is the
    mean of both directions [Chen2021, section 3.3].
    """

    def __init__(self, vocabulary_size: int, word_size: int, embedding_size: int, pooling: str | None = None) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary_size, word_size)
        self.gru = nn.GRU(word_size, embedding_size, batch_first=True, bidirectional=pooling is not None)
        self.pooling = None if pooling is None else POOLINGS[pooling]()
        # As in the published code, the row of the padding is drawn like every other row.
        nn.init.uniform_(self.words.weight, -0.1, 0.1)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Encode captions.

        Args:
            tokens: Word ids, shape (C, T), int64, 0 after each caption's end.
            lengths: Tokens of each caption, shape (C,), int64 on the CPU, in [1, T].

        Returns:
            Unit vectors, shape (C, embedding_size); of stacked parameters (K, C, embedding_size).
        """
        with computing_in_full(tokens.device):
            if self.pooling is None:
                vectors = final_states(self.words, self.gru, tokens, lengths)
            else:
                vectors = self.pooling(all_states(self.words.weight, self.gru, tokens, lengths), lengths)
            return normalize(vectors, dim=-1, eps=1e-12)


class VSEPP(RetrievalModel):
    """Images and captions as unit vectors of one joint space."""

    can_stack = True

    def __init__(
        self,
        image_size: int,
        vocabulary_size: int,
        embedding_size: int,
        word_size: int,
        *,
        backbone: Backbone | None = None,
        pooling: str | None = None,
    ) -> None:
        """Take the sizes of features, vocabulary, joint space and word embeddings.

        Args:
            image_size: Number of features of an image (a backbone's, if given), or of a region with ``pooling``.
            vocabulary_size: Number of words with an id.
            embedding_size: Dimensions of the joint space.
            word_size: Dimensions of a word embedding.
            backbone: Network from pixels to features; ``None`` reads precomputed features.
            pooling: ``mean``, ``max`` or ``gpo`` over regions and words; ``None`` reads global features and takes the
                last state of a left-to-right GRU.
        """
        super().__init__()
        self.image_projection = nn.Linear(image_size, embedding_size)
        self.regions = None if pooling is None else PooledRegions(pooling)
        self.text = TextEncoder(vocabulary_size, word_size, embedding_size, pooling)
        self.backbone = backbone
        self.crop_size = 0 if backbone is None else backbone.image_size
        self._trains_backbone = False
        bound = sqrt(6.0) / sqrt(image_size + embedding_size)
        nn.init.uniform_(self.image_projection.weight, -bound, bound)
        nn.init.zeros_(self.image_projection.bias)

    @classmethod
    def build(cls, config: TrialConfig, data: Dataset, *, pretrained: bool = True) -> Self:
        """Make an untrained model for the dataset's features, or for its pixels, and its vocabulary."""
        sizes, vocabulary_size = config.training, len(data.vocabulary)
        if not sizes.finetune:
            size = data.splits["train"].features.shape[-1]
            parameters: dict[str, Any] = {**config.model_parameters}
            return cls(size, vocabulary_size, sizes.embedding_size, sizes.word_size, **parameters)
        named: dict[str, Any] = {"backbone": "resnet50", "weights": "DEFAULT", **config.model_parameters}
        weights = named["weights"] if pretrained else "none"
        backbone = build_backbone(named["backbone"], weights, seed=config.seed, grid=False)
        return cls(backbone.feature_size, vocabulary_size, sizes.embedding_size, sizes.word_size, backbone=backbone)

    def encode_images(self, features: Tensor) -> Tensor:
        """Map images to unit vectors (I, embedding_size).

        Args:
            features: Stored features (I, D), or (I, R, D) with a pooling; or pixels (I, S, S, 3).
        """
        if self.backbone is not None:
            features, _ = self.backbone(features)
        if self.regions is not None:
            pooled: Tensor = self.regions(linear(self.image_projection, features))
            return pooled
        return normalize(in_full(linear(self.image_projection, features)), dim=-1, eps=1e-12)

    def encode_captions(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Map captions (C, T) with their lengths (C,) on the CPU to unit vectors (C, embedding_size)."""
        encoded: Tensor = self.text(tokens, lengths)
        return encoded

    def train_backbone(self, trained: bool) -> None:
        """Train or freeze the backbone, including its batch norms; does nothing without a backbone."""
        self._trains_backbone = trained
        if self.backbone is not None:
            self.backbone.requires_grad_(trained)

    def train(self, mode: bool = True) -> Self:
        """Switch between training and evaluation mode; a frozen backbone stays in evaluation mode."""
        super().train(mode)
        if self.backbone is not None and not self._trains_backbone:
            self.backbone.eval()
        return self
