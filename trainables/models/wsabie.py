"""WSABIE for captions: a linear map of image features and a linear map of a caption's bag of words.

    g(x, y) = (Z y)^T (V x),    y_w = count of word w in the caption * idf(w),

with x the stored features of the image, V (P, p) and Z (P, q) without bias, and scores without normalisation
[Verma2014, eq. 5-6]. After every step each column of V and Z that is longer than the radius is scaled to the radius.
The weight of a word is idf(w) = ln((1 + n) / (1 + n_w)) + 1 over the n captions of the train split, n_w of which
contain the word. The weight is finite for a word that only other splits have. ``<pad>``, ``<start>``, ``<end>`` and
``<unk>`` have weight 0: two rare words are not one word. A caption of unknown words alone scores 0 with all images.

[Verma2014, Algorithm 2] draws one pair a step, then captions of the whole train split until a caption violates the
margin. Here a step takes a batch, and the loss ``warp`` draws from the batch's other captions (and images). So the
number of draws estimates a rank in the batch, not among all captions. A larger ``training.batch_size`` gives a larger
candidate set: vectors of linear maps are cheap, and batches of thousands of pairs are affordable. Where captions are
labels that images share, a label has one column, of weight 1, and all labels of train are candidates in each batch, as
in the annotation of images [Weston2011]: the draws estimate a rank in the vocabulary. For plain SGD without clipping,
as in the algorithm, set ``training.optimizer: sgd`` and ``training.gradient_clip: null``.

References:
    [Verma2014] Verma and Jawahar, Im2Text and Text2Im: Associating Images and Texts for Cross-Modal Retrieval,
        BMVC 2014, supplement.
    [Weston2011] Weston et al., WSABIE: Scaling Up To Large Vocabulary Image Annotation, IJCAI 2011, section 3.
"""

from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag

from trainables.config import TrialConfig
from trainables.data.dataset import Dataset, Split
from trainables.data.tokenizers import SPECIAL
from trainables.model_parameters import MODEL_TABLE
from trainables.models.retrieval_model import RetrievalModel

PARAMETERS = MODEL_TABLE["wsabie"].parameters


class WSABIE(RetrievalModel):
    """Images and captions as vectors whose dot product is any number.

    Attributes:
        image_columns: V transposed, shape (p, P): row i is column i of V.
        word_columns: Z transposed, shape (q, P): row w is the vector of word w.
        idf: Weight of each word, shape (q,), >= 0; 0 for special tokens.
    """

    can_stack = True
    has_static_shapes = True
    stacked_settings = ("radius",)
    idf: Tensor
    radius: float | Tensor

    def __init__(
        self, image_size: int, idf: Tensor, embedding_size: int, *, radius: float = PARAMETERS["radius"].default
    ) -> None:
        """Draw both maps from N(0, 1/P), columns of length about 1 [Weston2011]; ``radius`` > 0 is lambda."""
        super().__init__()
        self.radius = radius
        self.image_columns = nn.Parameter(torch.randn(image_size, embedding_size) * embedding_size**-0.5)
        self.word_columns = nn.Parameter(torch.randn(len(idf), embedding_size) * embedding_size**-0.5)
        self.register_buffer("idf", idf)
        self.constrain()

    @classmethod
    def build(cls, config: TrialConfig, data: Dataset, *, pretrained: bool = True) -> Self:
        """Make an untrained model for the dataset's global features, with the word weights of its train split."""
        train = data.splits["train"]
        if train.caption_labels is None:
            idf = torch.from_numpy(inverse_document_frequency(train, len(data.vocabulary)))
        else:
            idf = (torch.arange(len(data.vocabulary)) >= len(SPECIAL)).float()
        parameters: dict[str, Any] = {**config.model_parameters}
        return cls(train.features.shape[-1], idf, config.training.embedding_size, **parameters)

    def encode_images(self, features: Tensor) -> Tensor:
        """Map features (I, p) to vectors (I, P)."""
        return features @ self.image_columns

    def encode_captions(self, tokens: Tensor, lengths: Any) -> Tensor:
        """Map captions (C, T), zero-padded, to vectors (C, P): the weighted sum of their words' columns."""
        # Costs C * T * P operations, while dense bags of words would cost C * q * P. Padding has weight 0.
        columns, weights = self.word_columns, self.idf[tokens]
        if columns.dim() == 2:
            return embedding_bag(tokens, columns, per_sample_weights=weights, mode="sum")
        models, words, size = columns.shape
        if len(tokens) == 1 and tokens.device.type == "cpu":
            # Each word's vectors of all models are laid side by side, so that K models have the bags of one model, K
            # times as wide. On a GPU, finding the distinct words would wait for the device.
            present, places = tokens[0].unique(return_inverse=True)
            table = columns.index_select(1, present).transpose(0, 1).flatten(1)
            summed = embedding_bag(places, table, per_sample_weights=weights[0], mode="sum")
            return summed.view(-1, models, size).transpose(0, 1)
        bags = tokens + torch.arange(models, device=tokens.device)[:, None, None] * words
        weights = weights.expand_as(bags).flatten(0, 1)
        summed = embedding_bag(bags.flatten(0, 1), columns.flatten(0, 1), per_sample_weights=weights, mode="sum")
        return summed.view(models, -1, size)

    @torch.no_grad()
    def constrain(self) -> None:
        """Scale the columns of both maps that are longer than ``radius`` to that length."""
        for columns in (self.image_columns, self.word_columns):
            if isinstance(self.radius, Tensor):
                # Like ``renorm_``, which accepts only one radius for all models.
                norms = torch.linalg.vector_norm(columns, dim=-1, keepdim=True)
                columns.mul_(torch.where(norms > self.radius, self.radius / (norms + 1e-7), 1.0))
            else:
                columns.renorm_(p=2, dim=0, maxnorm=self.radius)


def inverse_document_frequency(split: Split, vocabulary_size: int) -> np.ndarray:
    """Return ln((1 + n) / (1 + n_w)) + 1 of each word over the captions of a split, shape (q,), float32.

    Special tokens get 0.
    """
    captions = len(split.offsets) - 1
    caption_of_token = np.repeat(np.arange(captions), np.diff(split.offsets))
    pairs = np.unique(caption_of_token * vocabulary_size + split.tokens)
    holding = np.bincount(pairs % vocabulary_size, minlength=vocabulary_size)
    idf = np.log((1 + captions) / (1 + holding)) + 1
    idf[: len(SPECIAL)] = 0
    return idf.astype(np.float32)
