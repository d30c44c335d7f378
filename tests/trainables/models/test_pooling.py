"""Pooling by position, beside a loop over sets, dimensions and positions written from the paper."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from tests.trainables.tiny import suited, tiny_config, tiny_dataset
from trainables.errors import ConfigError
from trainables.models import build_model
from trainables.models.gru import all_states
from trainables.models.vsepp import POOLINGS, GeneralizedPooling

LENGTHS = torch.tensor([4, 1, 6, 4])


@pytest.fixture
def operator() -> GeneralizedPooling:
    torch.manual_seed(1)
    made = GeneralizedPooling().double()
    # Scores that differ by about 1 after the division by 0.1.
    nn.init.normal_(made.score.weight, std=0.5)
    return made


def encoding_by_loop(length: int) -> Tensor:
    """The sines and cosines of the positions 0 to length - 1, by the formula."""
    encoding = torch.zeros(length, 32, dtype=torch.float64)
    for position in range(length):
        for pair in range(16):
            angle = position / 10_000 ** (2 * pair / 32)
            encoding[position, 2 * pair], encoding[position, 2 * pair + 1] = math.sin(angle), math.cos(angle)
    return encoding


def weights_by_loop(operator: GeneralizedPooling, length: int) -> list[float]:
    """The softmax over the scores of a set, whose GRU is the library's."""
    states = operator.gru(encoding_by_loop(length)[None])[0][0]
    scores = [float(operator.score.weight[0] @ (state[:32] + state[32:]) / 2) / 0.1 for state in states]
    total = sum(math.exp(score) for score in scores)
    return [math.exp(score) / total for score in scores]


def test_gpo_weighs_the_sorted_values_of_each_dimension_by_position(operator: GeneralizedPooling) -> None:
    vectors = torch.randn(4, 6, 5, dtype=torch.float64)
    pooled = operator(vectors, LENGTHS)
    for place, length in enumerate(LENGTHS.tolist()):
        weights = weights_by_loop(operator, length)
        assert sum(weights) == pytest.approx(1)
        for dimension in range(5):
            ordered = sorted(vectors[place, :length, dimension].tolist(), reverse=True)
            expected = sum(weight * value for weight, value in zip(weights, ordered, strict=True))
            assert float(pooled[place, dimension]) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name, of_set", [("mean", lambda part: part.mean(0)), ("max", lambda part: part.amax(0))])
def test_mean_and_maximum_are_those_of_each_set(name: str, of_set) -> None:
    vectors = torch.randn(4, 6, 5)
    expected = torch.stack([of_set(vectors[place, :length]) for place, length in enumerate(LENGTHS.tolist())])
    torch.testing.assert_close(POOLINGS[name]()(vectors, LENGTHS), expected)


def test_the_gradient_of_gpo_is_that_of_finite_differences(operator: GeneralizedPooling) -> None:
    vectors = torch.randn(3, 5, 2, dtype=torch.float64, requires_grad=True)
    lengths = torch.tensor([5, 2, 3])
    names = [name for name, _ in operator.named_parameters()]
    parameters = [operator.get_parameter(name).detach().clone().requires_grad_() for name in names]

    def pooled(values: Tensor, *given: Tensor) -> Tensor:
        return torch.func.functional_call(operator, dict(zip(names, given, strict=True)), (values, lengths))

    # GPO computes its positions in float32 and its GRU in the dtype of its parameters.
    assert torch.autograd.gradcheck(pooled, (vectors, *parameters), fast_mode=True)


def test_all_states_are_those_of_the_librarys_gru_over_each_caption_alone() -> None:
    torch.manual_seed(2)
    gru, words = nn.GRU(8, 6, batch_first=True, bidirectional=True), nn.Embedding(20, 8)
    tokens = torch.randint(1, 20, (4, 6))
    states = all_states(words.weight, gru, tokens, LENGTHS)
    (states.sin().sum()).backward()
    gradients = {name: value.grad.clone() for name, value in [*gru.named_parameters(), ("words", words.weight)]}
    gru.zero_grad(), words.zero_grad()
    total = torch.zeros(())
    for place, length in enumerate(LENGTHS.tolist()):
        forward, backward = gru(words(tokens[place : place + 1, :length]))[0][0].chunk(2, dim=-1)
        torch.testing.assert_close(states[place, :length], (forward + backward) / 2)
        assert not states[place, length:].any()
        total = total + ((forward + backward) / 2).sin().sum()
    total.backward()
    for name, value in [*gru.named_parameters(), ("words", words.weight)]:
        torch.testing.assert_close(gradients[name], value.grad)


def test_a_config_without_pooling_reads_global_features_and_has_the_parameters_of_before() -> None:
    config = tiny_config()
    names = set(build_model(config, tiny_dataset()).state_dict())
    assert config.features == "global"
    assert names == {
        *(f"image_projection.{name}" for name in ("weight", "bias")),
        "text.words.weight",
        *(f"text.gru.{kind}_{side}_l0" for kind in ("weight", "bias") for side in ("ih", "hh")),
    }


def test_pooling_reads_regions_and_does_not_go_with_pixels() -> None:
    config = replace(tiny_config(), model_parameters={"pooling": "gpo"})
    assert config.features == "regions"
    model = build_model(config, suited(tiny_dataset(), config))
    assert model.can_stack
    with pytest.raises(ConfigError, match="pooling: pools the regions"):
        replace(config, training=replace(config.training, finetune=True))
