"""CE beside the published modules, beside loops over members, clusters and experts, and what is missing or padded."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from trainables.models.ce import CE, NetVLAD
from trainables.representations import Sets

ORACLE = Path(__file__).parents[4] / "shared" / "oracles" / "ce.npz"
NORM = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
SIZES = {"audio": (128, True), "face": (12, False), "rgb": (20, False), "scene": (16, False)}


def published_model(oracle: dict[str, Tensor], gating: str = "published") -> CE:
    """Return a model with the weights of the published modules, whose audio has no ghost."""
    model = CE(SIZES, 1, 24, 30, clusters=2, text_clusters=3, padding="published", gating=gating)
    model.pooling["audio"] = NetVLAD(128, 2, 0)
    linear = {"mixture": "ce.moe_fc", "relation.first": "ce.g_reason_1"}
    linear |= {f"relation.rest.{n}": f"ce.g_reason_shared.{place}" for n, place in enumerate((2, 5))}
    norms = {f"relation.batch_norms.{n}": f"ce.g_reason_shared.{place}" for n, place in enumerate((0, 3))}
    norms |= {f"{part}.batch_norm": f"{part}.batch_norm" for part in ("text_pooling", "pooling.audio")}
    for n in range(len(SIZES)):
        linear |= {f"views.{n}.map": f"ce.text_GU.{n}.fc", f"views.{n}.gate": f"ce.text_GU.{n}.cg.fc"}
        linear |= {f"reduction.{n}": f"ce.video_dim_reduce.{n}.fc", f"gates.{n}.own": f"ce.video_GU.{n}.cg.fc"}
        norms |= {f"views.{n}.batch_norm": f"ce.text_GU.{n}.cg.batch_norm"}
        norms |= {f"gates.{n}.batch_norm": f"ce.video_GU.{n}.cg.batch_norm"}
        norms |= {f"gates.{n}.own_batch_norm": f"ce.video_GU.{n}.cg.batch_norm2"}
    names = {f"{ours}.{part}": f"{theirs}.{part}" for ours, theirs in linear.items() for part in ("weight", "bias")}
    names |= {f"{ours}.{part}": f"{theirs}.{part}" for ours, theirs in norms.items() for part in NORM}
    state = {ours: oracle[f"state|{theirs}"] for ours, theirs in names.items()}
    for part in ("text_pooling", "pooling.audio"):
        state |= {
            f"{part}.assignment": oracle[f"state|{part}.clusters"],
            f"{part}.centres": oracle[f"state|{part}.clusters2"][0],
        }
    model.load_state_dict(state | {"words.weight": model.words.weight.detach()})
    return model


def compare(model: CE, oracle: dict[str, Tensor], text: Tensor) -> Tensor:
    """Return captions x clips, as the published code does."""
    experts = {}
    for name, (_, is_set) in SIZES.items():
        vectors = oracle[f"in|{name}"] if is_set else oracle[f"in|{name}"][:, None]
        experts[f"experts.{name}"] = Sets(vectors, (oracle[f"in|has_{name}"] * vectors.shape[1]).long())
    with torch.no_grad():
        return model.compare_sets(model.encode_images(experts), model.views_of(model.text_pooling(text, None))).T


@pytest.mark.skipif(not ORACLE.exists(), reason="needs ../shared/oracles/ce.npz: values of the published modules")
def test_similarities_are_those_of_the_published_modules() -> None:
    with np.load(ORACLE) as file:
        oracle = {name: torch.from_numpy(np.asarray(file[name])) for name in file.files}
    text = oracle["in|text"][:, 0]
    padded = torch.nn.functional.pad(text, (0, 0, 0, 5))
    model = published_model(oracle).eval()
    for given, name in ((text, "eval"), (padded, "eval_five_more_padded_words")):
        torch.testing.assert_close(compare(model, oracle, given), oracle[f"out|{name}"], atol=1e-6, rtol=0)
    simultaneous = compare(published_model(oracle, "simultaneous").eval(), oracle, text)
    assert 1e-5 < float((simultaneous - oracle["out|eval"]).abs().max()) < 1e-3
    torch.testing.assert_close(compare(model.train(), oracle, text), oracle["out|train"], atol=1e-6, rtol=0)


def made(**settings: str | int) -> CE:
    torch.manual_seed(2)
    return CE({"a": (3, True), "b": (4, False)}, 9, 6, 5, clusters=2, text_clusters=2, **settings)  # type: ignore[arg-type]


def clips(places: int = 2, *, garbage: float = 0.0) -> dict[str, Sets]:
    generator = torch.Generator().manual_seed(0)
    lengths = torch.tensor([2, 0, 1])
    vectors = torch.randn(3, 2, 3, generator=generator)
    vectors = torch.cat([vectors, torch.zeros(3, places - 2, 3)], 1)
    vectors[torch.arange(places) >= lengths[:, None]] = garbage
    fixed = torch.randn(3, 1, 4, generator=generator)
    return {"experts.a": Sets(vectors, lengths), "experts.b": Sets(fixed, torch.tensor([1, 1, 0]))}


TOKENS, LENGTHS = torch.tensor([[4, 5, 6], [7, 0, 0]]), torch.tensor([3, 1])


@pytest.mark.parametrize("mode", [True, False], ids=["train", "eval"])
def test_padding_changes_no_similarity(mode: bool) -> None:
    similarities = []
    for places, garbage, words in ((2, 0.0, 0), (5, 9.0, 4)):
        model = made().train(mode)
        tokens = torch.nn.functional.pad(TOKENS, (0, words))
        with torch.no_grad():
            encoded = model.encode_images(clips(places, garbage=garbage)), model.encode_captions(tokens, LENGTHS)
        similarities.append(model.compare(*encoded))
    torch.testing.assert_close(*similarities, atol=1e-6, rtol=0)


def test_with_published_padding_the_number_of_places_counts() -> None:
    first, second = (
        made(padding="published", max_tokens=words).eval().encode_captions(TOKENS, LENGTHS).vectors for words in (7, 12)
    )
    assert float((first - second).detach().abs().max()) > 1e-3
    longer = (
        made(padding="published", max_tokens=7).eval().encode_captions(torch.nn.functional.pad(TOKENS, (0, 2)), LENGTHS)
    )
    torch.testing.assert_close(first, longer.vectors)


def test_a_missing_expert_counts_for_nothing() -> None:
    """The similarity of a clip with one expert is that expert's cosine, whatever the other expert's vectors are."""
    model = made().eval()
    with torch.no_grad():
        images, captions = model.encode_images(clips()), model.encode_captions(TOKENS, LENGTHS)
        similarity = model.compare(images, captions)
    for clip, expert in ((1, 1), (2, 0)):
        own = images.vectors[clip, expert, :-1] @ captions.vectors[:, expert, :-1].T
        torch.testing.assert_close(similarity[clip], own)
    weights = captions.vectors[:, :, -1]
    both = (images.vectors[0, :, :-1] * captions.vectors[:, :, :-1]).sum(-1)
    torch.testing.assert_close(similarity[0], (weights * both).sum(1) / weights.sum(1))


def test_the_order_of_members_counts_for_nothing() -> None:
    """CE has no order: a clip that is shown in reverse has the same vectors."""
    model, experts = made().eval(), clips()
    vectors, lengths = experts["experts.a"].vectors[:1], experts["experts.a"].lengths[:1]
    rest = Sets(experts["experts.b"].vectors[:1], experts["experts.b"].lengths[:1])
    with torch.no_grad():
        first, second = (
            model.encode_images({"experts.a": Sets(shown, lengths), "experts.b": rest}).vectors
            for shown in (vectors, vectors.flip(1))
        )
    torch.testing.assert_close(first, second)


def test_experts_may_have_any_names() -> None:
    """Torch takes no dots in the name of a module, and no name of its own methods."""
    torch.manual_seed(2)
    names = {"experts.a": "experts.i3d.rgb", "experts.b": "experts.keys"}
    model = CE({"i3d.rgb": (3, True), "keys": (4, True)}, 9, 6, 5, clusters=2, text_clusters=2)
    encoded = model.encode_images({names[name]: expert for name, expert in clips().items()})
    assert encoded.vectors.shape == (3, 2, 7) and encoded.vectors[..., -1].tolist() == [[1, 1], [0, 1], [1, 0]]


def test_a_batch_without_members_of_an_expert_trains() -> None:
    model, experts = made().train(), clips()
    experts["experts.a"] = Sets(torch.zeros(3, 2, 3), torch.zeros(3, dtype=torch.long))
    similarity = model.compare(model.encode_images(experts), model.encode_captions(TOKENS, LENGTHS))
    similarity.square().sum().backward()
    assert all(bool(p.grad.isfinite().all()) for p in model.parameters() if p.grad is not None)


def test_a_clip_without_experts_trains() -> None:
    """Its similarities are 0, and so are their gradients, however large the gradient of a loss is."""
    model, experts = made().train(), clips()
    experts["experts.b"] = Sets(experts["experts.b"].vectors, torch.tensor([1, 0, 0]))
    similarity = model.compare(model.encode_images(experts), model.encode_captions(TOKENS, LENGTHS))
    assert similarity[1].tolist() == [0.0, 0.0]
    (100 * similarity).sum().backward()
    assert all(bool(p.grad.isfinite().all()) for p in model.parameters() if p.grad is not None)


def unit(vector: Tensor) -> Tensor:
    length = math.sqrt(sum(float(number) ** 2 for number in vector))
    return vector / length if length else vector


def normed(layer: nn.BatchNorm1d, vector: Tensor) -> Tensor:
    mean, variance = layer.running_mean, layer.running_var
    assert mean is not None and variance is not None
    return (vector - mean) / (variance + layer.eps).sqrt() * layer.weight + layer.bias


def pooled(layer: NetVLAD, members: Tensor) -> Tensor:
    """NetVLAD of the members (N, D) of one set: cluster by cluster, the sum of what is left over its centre."""
    summed = [torch.zeros(members.shape[1], dtype=torch.float64) for _ in range(layer.centres.shape[1])]
    for member in members:
        logits = normed(layer.batch_norm, layer.assignment.T @ member).exp()
        for cluster, kept in enumerate(summed):
            kept += logits[cluster] / logits.sum() * (member - layer.centres[:, cluster])
    return unit(torch.stack([unit(kept) for kept in summed], dim=1).flatten())


def by_loops(model: CE, clip: dict[str, Tensor | None], words: Tensor) -> float:
    """The similarity of a clip, expert -> its vector or the members of its set, and of words (N, D) in evaluation."""
    text, experts = pooled(model.text_pooling, words), []
    for place, name in enumerate(model.names):
        members = clip[name]
        if members is None:
            experts.append(None)
            continue
        members = pooled(model.pooling[name], members) if name in model.pooling else members
        experts.append(unit(model.reduction[place](members)))
    now, gated = list(experts), list(experts)
    for m, expert in enumerate(experts):
        if expert is None:
            continue
        others = [other for other in now if other is not None]
        total = torch.zeros_like(expert)
        for other in others:
            hidden = model.relation.first(torch.cat([expert, other]))
            for layer, norm in zip(model.relation.rest, model.relation.batch_norms, strict=True):
                there = normed(norm, hidden)
                hidden = layer(there * (1 + there.exp()).log().tanh())
            total = total + hidden / len(others)
        gate = model.gates[m]
        opened = normed(gate.batch_norm, total) + normed(gate.own_batch_norm, gate.own(expert))
        gated[m] = unit(expert / (1 + (-opened).exp()))
        if not model.is_simultaneous:
            now[m] = gated[m]
    weights, score, there = model.mixture(text).exp(), 0.0, 0.0
    for m, vector in enumerate(gated):
        if vector is not None:
            mapped = model.views[m].map(text)
            view = unit(mapped / (1 + (-normed(model.views[m].batch_norm, model.views[m].gate(mapped))).exp()))
            score, there = score + float(weights[m] * (view @ vector)), there + float(weights[m])
    return score / there


@pytest.mark.parametrize("gating", ["published", "simultaneous"])
def test_similarities_are_those_of_loops(gating: str) -> None:
    model = made(gating=gating).double().eval()
    generator = torch.Generator().manual_seed(5)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d):
            for numbers in (module.running_mean, module.running_var, module.weight.data, module.bias.data):
                assert numbers is not None
                numbers.copy_(0.5 + torch.rand(len(numbers), generator=generator, dtype=torch.float64))
    experts = {name: Sets(sets.vectors.double(), sets.lengths) for name, sets in clips().items()}
    with torch.no_grad():
        similarity = model.compare_sets(model.encode_images(experts), model.encode_captions(TOKENS, LENGTHS))
        expected = torch.zeros(3, 2, dtype=torch.float64)
        for image in range(3):
            clip: dict[str, Tensor | None] = {}
            for name, is_set in (("a", True), ("b", False)):
                sets = experts[f"experts.{name}"]
                members = sets.vectors[image, : int(sets.lengths[image])]
                clip[name] = None if not len(members) else members if is_set else members[0]
            for caption, length in enumerate(LENGTHS.tolist()):
                expected[image, caption] = by_loops(model, clip, model.words(TOKENS[caption, :length]))
    torch.testing.assert_close(similarity, expected, atol=1e-9, rtol=0)
