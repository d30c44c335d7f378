import math
from collections import Counter

import numpy as np
import pytest
import torch

from tests.trainables.tiny import tiny_dataset
from trainables.data.tokenizers import SPECIAL, UNKNOWN
from trainables.models.wsabie import WSABIE, inverse_document_frequency


def padded(captions: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    lengths = torch.tensor([len(caption) for caption in captions])
    tokens = torch.zeros(len(captions), int(lengths.max()), dtype=torch.int64)
    for row, caption in enumerate(captions):
        tokens[row, : len(caption)] = torch.tensor(caption)
    return tokens, lengths


def captions_of(split) -> list[list[int]]:
    return [split.tokens[start:stop].tolist() for start, stop in zip(split.offsets, split.offsets[1:], strict=False)]


def test_word_weights_are_those_of_sklearn() -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    data = tiny_dataset()
    captions = captions_of(data.splits["train"])
    names = [str(token) for token in range(len(data.vocabulary))]
    oracle = TfidfVectorizer(vocabulary=names, token_pattern=r"\d+", norm=None)
    oracle.fit([" ".join(map(str, caption)) for caption in captions])
    found = inverse_document_frequency(data.splits["train"], len(data.vocabulary))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[len(SPECIAL) :], oracle.idf_[len(SPECIAL) :], rtol=1e-6)
    assert not found[: len(SPECIAL)].any()


def test_a_word_that_the_train_split_does_not_have_has_a_finite_weight() -> None:
    train = tiny_dataset().splits["train"]
    size = int(train.tokens.max()) + 3
    weights = inverse_document_frequency(train, size)
    assert weights[-1] == pytest.approx(math.log(len(train.offsets)) + 1)


def test_captions_are_weighted_sums_of_word_columns() -> None:
    torch.manual_seed(0)
    idf = torch.rand(20)
    idf[: len(SPECIAL)] = 0
    model = WSABIE(6, idf, 5, radius=2.0)
    captions = [[1, 7, 7, 9, 2], [1, UNKNOWN, 4, 2], [1, 19, 2]]
    expected = torch.zeros(3, 5)
    for row, caption in enumerate(captions):
        for word, times in Counter(caption).items():
            if word >= len(SPECIAL):
                expected[row] += times * idf[word] * model.word_columns[word]
    torch.testing.assert_close(model.encode_captions(*padded(captions)), expected)


def test_projection_touches_only_columns_over_the_radius() -> None:
    model = WSABIE(4, torch.ones(6), 3, radius=1.5)
    lengths = torch.tensor([0.0, 0.3, 1.49, 1.51, 7.0, 1e6])
    with torch.no_grad():
        model.word_columns.copy_(torch.nn.functional.normalize(torch.randn(6, 3)) * lengths[:, None])
    before = model.word_columns.detach().clone()
    model.constrain()
    assert torch.equal(model.word_columns[:3], before[:3])
    torch.testing.assert_close(model.word_columns[3:].norm(dim=1), torch.full((3,), 1.5))
    torch.testing.assert_close(model.word_columns[3:], before[3:] / lengths[3:, None] * 1.5)


def test_columns_start_with_length_one_and_inside_the_ball() -> None:
    torch.manual_seed(0)
    wide = WSABIE(300, torch.ones(500), 400, radius=10.0)
    deviation = torch.cat([wide.image_columns, wide.word_columns]).detach().std()
    assert float(deviation) == pytest.approx(1 / math.sqrt(400), rel=0.01)
    small = WSABIE(300, torch.ones(500), 400, radius=0.5)
    assert float(small.image_columns.detach().norm(dim=1).max()) <= 0.5 + 1e-6
