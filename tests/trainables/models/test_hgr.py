"""HGR beside the published modules, beside loops, and with missing phrases in bfloat16."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from trainables.models.hgr import HGR, NODES
from trainables.models.retrieval_model import computing
from trainables.representations import Captions, Sets

ORACLE = Path(__file__).parents[4] / "shared" / "oracles" / "hgr.npz"
GRAPH = "text_encoder|gcn.layers.0."
LINEAR = {f"levels.{level}": f"video_encoder|level_embeds.{level}" for level in range(3)} | {
    "frame_attention": "video_encoder|ft_attn",
    "word_attention": "text_encoder|ft_attn",
    "query": f"{GRAPH}edge_attn_query",
    "key": f"{GRAPH}edge_attn_key",
    "norm": f"{GRAPH}layernorm",
}
TABLES = {
    "words.weight": "text_encoder|embedding.we.weight",
    "roles.weight": "text_encoder|role_embedding.weight",
    "message.weight": f"{GRAPH}ctx_layer.weight",
}


@pytest.mark.skipif(not ORACLE.exists(), reason="needs ../shared/oracles/hgr.npz: values of the published modules")
def test_similarities_of_the_levels_are_those_of_the_published_modules() -> None:
    with np.load(ORACLE) as file:
        oracle = {name: torch.from_numpy(file[name]) for name in file.files}
    model = HGR(32, 50, 16, 12).eval()
    names = TABLES | {
        f"{ours}.{part}": f"{theirs}.{part}" for ours, theirs in LINEAR.items() for part in ("weight", "bias")
    }
    names |= {name: f"text_encoder|rnn.{name[4:]}" for name in model.state_dict() if name.startswith("gru.")}
    model.load_state_dict({ours: oracle[theirs] for ours, theirs in names.items()})
    masks, edges = torch.cat([oracle["in|verb_masks"], oracle["in|noun_masks"]], 1), oracle["in|rel_edges"]
    captions = Captions(
        oracle["in|sent_ids"],
        {"phrases": (masks.long() * (1 << torch.arange(NODES))[:, None]).sum(1)},
        {
            "roles": torch.where(masks.any(2), oracle["in|node_roles"].long(), -1),
            "links": ((edges[:, 1:5, 5:] > 0).long() * (1 << torch.arange(6))).sum(-1),
        },
    )
    with torch.no_grad():
        clips = model.encode_images(Sets(oracle["in|attn_fts"], oracle["in|attn_lens"]))
        levels = model.levels_of(clips, model.encode_captions(captions, oracle["in|sent_lens"]))
    for level, name in zip(levels, ("event", "action", "entity"), strict=True):
        torch.testing.assert_close(level, oracle[f"out|{name}"], atol=1e-5, rtol=0)


def graphs() -> tuple[Captions, Tensor]:
    """Three captions: a verb with two phrases; a phrase alone; no node at all."""
    tokens = torch.tensor([[4, 5, 6, 7], [5, 4, 0, 0], [6, 0, 0, 0]])
    phrases = torch.tensor([[1 << 4, 1, 1 << 5, 1 << 5], [1 << 4, 1 << 4, 0, 0], [0, 0, 0, 0]])
    roles = torch.full((3, NODES), -1)
    roles[0, [0, 4, 5]], roles[1, 4] = torch.tensor([0, 2, 1]), 15
    return Captions(
        tokens, {"phrases": phrases}, {"roles": roles, "links": torch.tensor([[3, 0, 0, 0], [0] * 4, [0] * 4])}
    ), (torch.tensor([4, 2, 1]))


def frames() -> Sets:
    lengths = torch.tensor([3, 1])
    vectors = torch.randn(2, 3, 6, generator=torch.Generator().manual_seed(0))
    return Sets(vectors * (torch.arange(3) < lengths[:, None])[..., None], lengths)


def made(**settings: float) -> HGR:
    torch.manual_seed(1)
    return HGR(6, 9, 8, 4, **settings)


def cosine(first: Tensor, second: Tensor) -> float:
    return float(first @ second / (first.norm() * second.norm()))


def test_a_level_is_the_mean_over_its_phrases_of_cosines_with_attended_frames() -> None:
    model = made().eval().double()
    captions, lengths = graphs()
    clip = Sets(frames().vectors.double(), frames().lengths)
    with torch.no_grad():
        clips, encoded = model.encode_images(clip), model.encode_captions(captions, lengths)
        event, action, entity = model.levels_of(clips, encoded)
    torch.testing.assert_close(model.compare_sets(clips, encoded), (event + action + entity) / 3)
    for c, count in enumerate([3, 1]):
        for phrase, places in ((0, {0: [1]}), (1, {0: [4 + 1, 5 + 1], 1: [4 + 1]})):
            for caption, members in places.items():
                expected = []
                for member in members:
                    query = encoded.vectors[caption, member, :8]
                    there = clips.vectors[c, 1 : 1 + count, 8 * phrase : 8 * phrase + 8]
                    cosines = [max(cosine(frame, query), 0.0) for frame in there]
                    norm = max(math.sqrt(sum(value**2 for value in cosines)), 1e-10)
                    weights = torch.tensor([4 * value / norm for value in cosines], dtype=torch.float64).softmax(0)
                    expected.append(cosine(weights @ there, query))
                level = (action, entity)[phrase]
                assert float(level[c, caption]) == pytest.approx(sum(expected) / len(expected), abs=1e-9)
    assert action[:, 1:].abs().max() == 0 and entity[:, 2].abs().max() == 0


def test_who_reads_whom() -> None:
    """Verbs read the event, verbs and phrases read each other, and the event reads nothing."""
    model = made().eval()
    captions, lengths = graphs()
    before = model.encode_captions(captions, lengths).vectors.detach()
    with torch.no_grad():
        model.word_attention.weight.mul_(3)
        model.word_attention.bias.add_(1)
    moved = model.encode_captions(captions, lengths).vectors.detach() - before
    changed = moved.abs().sum(-1) > 1e-7
    assert changed[0].tolist() == [True, True, *[False] * 3, False, False, *[False] * 4]
    assert not changed[1, 1:].any()


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_missing_phrases_and_frames_have_finite_gradients(precision: str) -> None:
    model, (captions, lengths) = made(), graphs()
    model.train()
    with computing(precision, torch.device("cpu")):  # type: ignore[arg-type]
        clips, encoded = model.encode_images(frames()), model.encode_captions(captions, lengths)
    similarity = model.compare(clips, encoded)
    assert bool(similarity.isfinite().all())
    similarity.square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and bool(parameter.grad.isfinite().all()), name


def test_padded_frames_and_words_change_nothing() -> None:
    model, (captions, lengths) = made().eval(), graphs()
    wide = Sets(torch.cat([frames().vectors, torch.zeros(2, 4, 6)], 1), frames().lengths)
    longer = Captions(
        torch.nn.functional.pad(captions.tokens, (0, 3)),
        {"phrases": torch.nn.functional.pad(captions.of_tokens["phrases"], (0, 3))},
        captions.of_captions,
    )
    with torch.no_grad():
        first = model.compare(model.encode_images(frames()), model.encode_captions(captions, lengths))
        second = model.compare(model.encode_images(wide), model.encode_captions(longer, lengths))
    torch.testing.assert_close(first, second, atol=1e-6, rtol=0)
