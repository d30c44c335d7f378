"""The written-out recurrence against the library's GRU, and its gradients against finite differences."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from trainables.models.gru import final_states
from trainables.models.vsepp import TextEncoder


def library_states(words: nn.Embedding, gru: nn.GRU, tokens: Tensor, lengths: Tensor) -> Tensor:
    packed = pack_padded_sequence(words(tokens), lengths, batch_first=True, enforce_sorted=False)
    return gru(packed)[1][0]


def make(lengths: list[int], seed: int = 0) -> tuple[nn.Embedding, nn.GRU, Tensor, Tensor]:
    torch.manual_seed(seed)
    words, gru = nn.Embedding(9, 4).double(), nn.GRU(4, 5, batch_first=True).double()
    sizes = torch.tensor(lengths)
    tokens = torch.randint(1, 9, (len(lengths), max(lengths) + 2))
    return words, gru, tokens, sizes


@pytest.mark.parametrize("lengths", [[3, 1, 7, 7, 2], [4, 4, 4], [1, 1], [6]], ids=str)
def test_values_and_gradients_are_those_of_the_library(lengths: list[int]) -> None:
    words, gru, tokens, sizes = make(lengths)
    parameters = [words.weight, *gru.parameters()]
    weights = torch.randn(len(lengths), 5, dtype=torch.float64)
    ours, theirs = final_states(words, gru, tokens, sizes), library_states(words, gru, tokens, sizes)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    gradients = torch.autograd.grad((ours * weights).sum(), parameters)
    expected = torch.autograd.grad((theirs * weights).sum(), parameters)
    torch.testing.assert_close(gradients, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("lengths", [[[3, 1, 7, 7, 2]], [[3, 1, 7, 7, 2], [1, 1, 2, 6, 4], [5, 5, 5, 5, 5]]], ids=len)
def test_stacked_models_are_separate_models(lengths: list[list[int]]) -> None:
    models = [make(lengths[index % len(lengths)], seed=index) for index in range(3)]
    longest = max(map(max, lengths)) + 2
    tokens = torch.randint(1, 9, (len(lengths), 5, longest))
    names = [name for name, _ in TextEncoder(9, 4, 5).named_parameters()]
    encoder = TextEncoder(9, 4, 5)
    stacked = [
        torch.stack(values).detach()
        for values in zip(*([words.weight, *gru.parameters()] for words, gru, _, _ in models), strict=True)
    ]
    inputs = (tokens, torch.tensor(lengths))
    for name, value in zip(names, stacked, strict=True):
        owner, _, attribute = name.rpartition(".")
        setattr(encoder.get_submodule(owner), attribute, nn.Parameter(value))
    got = final_states(encoder.words, encoder.gru, *inputs)
    weights = torch.randn_like(got)
    gradients = torch.autograd.grad((got * weights).sum(), list(encoder.parameters()))
    for index, (words, gru, _, _) in enumerate(models):
        own = index % len(lengths)
        theirs = library_states(words, gru, tokens[own], torch.tensor(lengths[own]))
        torch.testing.assert_close(got[index], theirs, rtol=1e-12, atol=1e-12)
        expected = torch.autograd.grad((theirs * weights[index]).sum(), [words.weight, *gru.parameters()])
        torch.testing.assert_close(tuple(mine[index] for mine in gradients), expected, rtol=1e-10, atol=1e-12)


def test_without_gradient_the_values_are_the_same() -> None:
    words, gru, tokens, sizes = make([3, 1, 5])
    with torch.inference_mode():
        silent = final_states(words, gru, tokens, sizes)
    assert torch.equal(silent, final_states(words, gru, tokens, sizes).detach())
