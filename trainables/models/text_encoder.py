"""Captions to vectors: word embeddings and a GRU, as in VSE++ and VSRN, or pooled states as in VSE-infinity.

References:
    [Chen2021] Chen et al., Learning the Best Pooling Strategy for Visual Semantic Embedding. arXiv:2011.04305
    [Faghri2018] Faghri et al., VSE++. arXiv:1707.05612; code fartashf/vsepp@abe382f, model.py:185-233.
"""

from torch import Tensor, nn
from torch.nn.functional import normalize

from trainables.models.gru import all_states, final_states
from trainables.models.pooling import POOLINGS
from trainables.models.precision import computing_in_full


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
