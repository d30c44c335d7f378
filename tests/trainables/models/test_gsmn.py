"""GSMN beside the published modules, and beside loops over pairs, nodes, neighbours and kernels."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from trainables.config import TrainingConfig, TrialConfig
from trainables.errors import ConfigError
from trainables.models import block_products, gsmn
from trainables.models.gsmn import BLOCKS, GSMN, KERNELS
from trainables.representations import Sets

ORACLE = Path(__file__).parents[4] / "shared" / "oracles" / "gsmn.npz"
SETTINGS = [("published", "dense"), ("published", "sparse"), ("paper", "dense"), ("paper", "sparse")]
LENGTHS = torch.tensor([3, 1, 5])


def published_model(oracle: dict[str, Tensor], **parameters: str) -> GSMN:
    """Return a model with the weights of the published modules."""
    model = GSMN(1, 1, 64, 1, lambda_softmax=float(oracle["in|lambda"]), **parameters)
    for side, graph, part in (("text", model.words_graph, "graph_convolution_3"), ("image", model.regions_graph, "")):
        maps = f"{side}|{part or 'graph_convolution_1'}.conv_weights"
        state = {"weight": torch.cat([oracle[f"{maps}.{kernel}.weight"] for kernel in range(KERNELS)])}
        if graph.bias is not None:
            state["bias"] = torch.cat([oracle[f"{maps}.{kernel}.bias"] for kernel in range(KERNELS)])
        for ours, theirs in (("hidden", "out_1"), ("out", "out_2")):
            names = {"bias": "bias", "length": "weight_g", "direction": "weight_v"}
            state |= {f"{ours}.{name}": oracle[f"{side}|{theirs}.{known}"] for name, known in names.items()}
        graph.load_state_dict(state)
    kernels = {"distance": "mean_rho", "angle": "mean_theta", "distance_width": "precision_rho"}
    kernels["angle_width"] = "precision_theta"
    names = {ours: oracle[f"image|graph_convolution_1.{theirs}"][:, 0] for ours, theirs in kernels.items()}
    model.kernels.load_state_dict(names)
    return model


@pytest.mark.skipif(not ORACLE.exists(), reason="needs ../shared/oracles/gsmn.npz: values of the published modules")
@pytest.mark.parametrize("edges", ["dense", "sparse"])
def test_similarities_are_those_of_the_published_modules(edges: str) -> None:
    with np.load(ORACLE) as file:
        oracle = {name: torch.from_numpy(np.asarray(file[name])) for name in file.files}
    boxes, lengths = oracle["in|boxes"], oracle["in|lengths"]
    centres = (boxes[..., :2] + boxes[..., 2:]) / 2
    images = Sets(torch.cat([oracle["in|regions"], centres], -1), torch.full((5,), 36))
    captions = Sets(oracle["in|words"] * (torch.arange(9) < lengths[:, None])[..., None], lengths)
    with torch.no_grad():
        similarity = published_model(oracle, edges=edges).compare_sets(images, captions)
    published = oracle["out|image"] + oracle[f"out|text_{edges}"]
    torch.testing.assert_close(similarity, published, atol=1e-5, rtol=0)
    torch.testing.assert_close(oracle["out|text_dense"], oracle["out|text_sparse"], atol=1e-6, rtol=0)


def example(seed: int = 0) -> tuple[Sets, Sets]:
    """Return two images of four regions with centres, and captions whose words know their heads, in float64."""
    generator = torch.Generator().manual_seed(seed)
    regions = normalize(torch.randn(2, 4, 32, dtype=torch.float64, generator=generator), dim=-1)
    centres = torch.rand(2, 4, 2, dtype=torch.float64, generator=generator)
    inside = torch.arange(5) < LENGTHS[:, None]
    words = normalize(torch.randn(3, 5, 32, dtype=torch.float64, generator=generator), dim=-1) * inside[..., None]
    heads = torch.tensor([[0, 0, 1, 0, 0], [0] * 5, [0, 2, 2, 2, 3]]).double()[..., None]
    return Sets(torch.cat([regions, centres], -1), torch.full((2,), 4)), Sets(torch.cat([words, heads], -1), LENGTHS)


def model_of(graph: str, edges: str) -> GSMN:
    torch.manual_seed(3)
    return GSMN(1, 1, 32, 1, graph=graph, edges=edges, lambda_softmax=5.0).double()


def softmax(values: list[float]) -> list[float]:
    exponentials = [math.exp(value) for value in values]
    return [value / sum(exponentials) for value in exponentials]


def matching(nodes: Tensor, others: Tensor) -> list[Tensor]:
    """Matching vectors of nodes (N, E), by attended vectors: products, norm over the nodes, softmax over the others."""
    products = others @ nodes.T
    clipped = torch.where(products > 0, products, 0.1 * products)
    clipped = clipped / clipped.norm(dim=1, keepdim=True)
    vectors = []
    for n, node in enumerate(nodes):
        weights = softmax([5.0 * float(row[n]) for row in clipped])
        attended = sum((weight * other for weight, other in zip(weights, others, strict=True)), torch.zeros(32))
        pairs = zip(node.split(32 // BLOCKS), attended.split(32 // BLOCKS), strict=True)
        vectors.append(torch.stack([q @ c / (q.norm() * c.norm()) for q, c in pairs]))
    return vectors


def kernel(model: GSMN, here: Tensor, there: Tensor) -> Tensor:
    """Weights of a neighbour, kernel by kernel."""
    across, down = (float(a - b) for a, b in zip(here, there, strict=True))
    distance, angle, weights = math.hypot(across, down), math.atan2(across, down), []
    kernels = model.kernels
    for k in range(KERNELS):
        turned = abs(angle - float(kernels.angle[k]))
        turned = min(turned, abs(2 * math.pi - turned))
        far = (distance - float(kernels.distance[k])) ** 2 / (1e-14 + float(kernels.distance_width[k]) ** 2)
        weights.append(math.exp(-far / 2 - turned**2 / (1e-14 + float(kernels.angle_width[k]) ** 2) / 2))
    return torch.tensor(weights, dtype=torch.float64) / sum(weights)


def by_loops(model: GSMN, image: Tensor, words: Tensor) -> float:
    """The similarity of a pair, node by node, from the equations of the module's docstring."""
    regions, centres = image[:, :32], image[:, 32:]
    vectors, heads = words[:, :32], words[:, 32].long().tolist()
    of_words, of_regions = matching(vectors, regions), matching(regions, vectors)
    textual, visual = [], []
    for i, own in enumerate(of_words):
        message = own
        if model.propagates:
            weights = softmax([5.0 * float(vectors[i] @ other) for other in vectors])
            if model.is_sparse:
                joined = [j == i or heads[i] == j or heads[j] == i for j in range(len(vectors))]
                weights = [weight * near for weight, near in zip(weights, joined, strict=True)]
                weights = [weight / math.sqrt(sum(other**2 for other in weights)) for weight in weights]
            message = sum((w * x for w, x in zip(weights, of_words, strict=True)), torch.zeros(BLOCKS))
        hidden = model.words_graph.weight @ message
        textual.append(hidden if model.words_graph.bias is None else hidden + model.words_graph.bias)
    for i, own in enumerate(of_regions):
        hidden = torch.zeros(4 * KERNELS, dtype=torch.float64)
        for j, other in enumerate(of_regions):
            mapped = model.regions_graph.weight @ (other if model.propagates else own)
            hidden = hidden + mapped * kernel(model, centres[i], centres[j]).repeat_interleave(4)
        visual.append(hidden)
    sides = ((model.words_graph, textual), (model.regions_graph, visual))
    return sum(float(torch.stack([g(h[None, :, None]) for h in nodes]).mean()) for g, nodes in sides)


@pytest.mark.parametrize("graph, edges", SETTINGS)
def test_similarities_are_those_of_loops(graph: str, edges: str) -> None:
    model, (images, captions) = model_of(graph, edges), example()
    with torch.no_grad():
        similarity = model.compare_sets(images, captions)
        expected = [
            [by_loops(model, image, words[:length]) for words, length in zip(captions.vectors, LENGTHS, strict=True)]
            for image in images.vectors
        ]
    torch.testing.assert_close(similarity, torch.tensor(expected, dtype=torch.float64), atol=1e-9, rtol=0)


def test_neighbours_change_a_region_only_in_the_graph_of_the_paper() -> None:
    """The finding: with the published graph a box moves nothing of the other regions, and heads of words nothing."""
    (images, captions), moved = example(), example()[1]
    moved.vectors[2, 1, 32] = 4.0
    for graph, differs in (("published", False), ("paper", True)):
        model = model_of(graph, "sparse")
        with torch.no_grad():
            before, after = (model.compare_sets(images, words) for words in (captions, moved))
        assert bool((before[:, 2] != after[:, 2]).any()) == differs


@pytest.mark.parametrize("tile", [1, block_products.TILE])
@pytest.mark.parametrize("graph", ["published", "paper"])
def test_gradients_are_those_of_differences(graph: str, tile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_products, "TILE", tile)
    images, _ = example()
    model, lengths = model_of(graph, "dense"), torch.tensor([2, 1])
    inside = (torch.arange(2) < lengths[:, None])[..., None]

    def compare(regions: Tensor, words: Tensor) -> Tensor:
        centres = images.vectors[:1, :2, 32:]
        there = Sets(torch.cat([regions, centres], -1), torch.tensor([2]))
        return model.compare_sets(there, Sets(words * inside, lengths))

    words = normalize(example(1)[0].vectors[:, :2, :32], dim=-1)
    inputs = images.vectors[:1, :2, :32].clone().requires_grad_(), words.clone().requires_grad_()
    torch.autograd.gradcheck(compare, inputs, atol=1e-6, fast_mode=True)


def test_narrow_kernels_have_a_gradient_and_where_all_are_0_no_weight() -> None:
    """The code divides by the sum of the kernels, which may be 0, and replaces NaN by 0: the gradient stays finite."""
    model, (images, _) = model_of("paper", "dense").float(), example()
    for width in (1e-3, 0.05):
        with torch.no_grad():
            model.kernels.distance_width.fill_(width)
            model.kernels.angle_width.fill_(width)
        weights = model.kernels(images.vectors[..., 32:].float(), images.inside)
        sums = weights.detach().sum(-1)
        assert torch.isclose(sums, torch.tensor(1.0)).logical_or(sums == 0).all()
        assert width > 0.01 or not sums.any()
        (100 * weights.square()).sum().backward()
    assert all(bool(p.grad.isfinite().all()) for p in model.kernels.parameters() if p.grad is not None)


def test_blocks_of_pairs_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    images, captions = example()
    model = model_of("paper", "sparse")

    def compared() -> tuple[Tensor, ...]:
        vectors = [part.vectors.clone().requires_grad_() for part in (images, captions)]
        found = model.compare_sets(
            *(Sets(own, part.lengths) for part, own in zip((images, captions), vectors, strict=True))
        )
        # Centres of boxes and places of heads, which follow the vector, have no gradient.
        return found, *(part[..., :32] for part in torch.autograd.grad(found.square().sum(), vectors))

    whole = compared()
    for module, name in ((gsmn, "AT_A_TIME"), (gsmn, "GROUP"), (block_products, "TILE"), (block_products, "CACHED")):
        monkeypatch.setattr(module, name, 1)
        torch.testing.assert_close(compared(), whole)


def test_embedding_size_must_have_equal_parts() -> None:
    with pytest.raises(
        ConfigError, match="training.embedding_size: gsmn cuts each vector into 16 equal parts, so it must be"
    ):
        TrialConfig(dataset="x", model="gsmn", training=TrainingConfig(embedding_size=40))


def test_inputs_follow_the_graph() -> None:
    def inputs(**parameters: str) -> tuple[str, ...]:
        return TrialConfig(dataset="x", model="gsmn", model_parameters=parameters).inputs

    assert inputs() == inputs(edges="sparse") == inputs(graph="paper") == ("boxes",)
    assert inputs(graph="paper", edges="sparse") == ("boxes", "parses")
