"""A model whose similarity is of pairs is evaluated, packed, asked and checked as one of vectors is."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from orchestrator.experiment.plugins import load_plugins
from tests.support.plugins import plugins_gone_afterwards, write_plugin
from tests.trainables.models.test_scan import attention, expected
from tests.trainables.runs import encoded_alone
from tests.trainables.tiny import suited, tiny_config, tiny_dataset
from trainables.checkpoint import EpochReport, save_epoch
from trainables.config import TrialConfig
from trainables.contracts.model_contract import check_model
from trainables.data.batches import ResidentSplit
from trainables.evaluation import evaluate, evaluate_checkpoint, load_best, rank_checkpoint
from trainables.losses import NotANumberError
from trainables.metrics import metrics_in_folds, retrieval_metrics
from trainables.models import RetrievalModel, pair_model
from trainables.models.pair_model import PairScores
from trainables.positive_ranks import rank_by_scores, rank_similarity
from trainables.representations import PackedSets, Sets, converted, from_tensors, is_finite, to_tensors
from trainables.serving.packed import GALLERY, write_retriever
from trainables.serving.retriever import Retriever
from trainables.trial import run_trial

CPU = torch.device("cpu")
CONFIG = replace(tiny_config(epochs=2, loss="triplet_sh"), model="scan")
DATA = suited(tiny_dataset(), CONFIG)


@torch.no_grad()
def matrix(model: RetrievalModel) -> Tensor:
    """The similarity of each pair of the test split by the loops of the paper."""
    images, captions = encoded_alone(model.eval(), DATA.splits["test"])
    return torch.cat([expected(images, caption, attention(lambda_softmax=9.0)) for caption in captions], 1)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scan")
    return [save_epoch(folder, report) for report in run_trial(CONFIG, DATA, device="cpu")][-1]


def test_metrics_are_those_of_the_loops_over_pairs(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = load_best(checkpoint, DATA)
    positives = torch.arange(20)[:, None] == torch.from_numpy(DATA.splits["test"].image_of_caption)
    wanted = retrieval_metrics(matrix(model), positives)
    # Captions of the same words tie, and rounding decides about them.
    assert evaluate_checkpoint(checkpoint, DATA, "test", device="cpu")["rsum"] == pytest.approx(wanted["rsum"], abs=3)
    monkeypatch.setattr(pair_model, "AT_ONCE", 7)
    found = evaluate(model, ResidentSplit(DATA.splits["test"], CPU))
    assert found["rsum"] == pytest.approx(wanted["rsum"], abs=3)
    ranks = rank_checkpoint(checkpoint, DATA, ["test"], device="cpu")["test"]
    assert ranks.metrics == pytest.approx(found)


def test_a_packed_model_answers_as_it_does_in_its_dataset(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_retriever(tmp_path / "packed", checkpoint, DATA, "test")
    tensors = load_file(tmp_path / "packed" / GALLERY)
    assert tensors["images.lengths"].tolist() == [3] * 20 and len(tensors["images"]) == 60
    assert len(tensors["captions"]) == int(tensors["captions.lengths"].sum()) == len(DATA.splits["test"].tokens)
    model, _ = load_best(checkpoint, DATA)
    scores, split, retriever = matrix(model), DATA.splits["test"], Retriever(tmp_path / "packed")
    for caption in (0, 17, 99):
        words = " ".join(
            DATA.vocabulary.words[token] for token in split.tokens[slice(*split.offsets[caption : caption + 2])][1:-1]
        )
        answers = retriever.images_for(words, 5)
        wanted = scores[:, caption].sort(descending=True).values[:5].tolist()
        assert [one.score for one in answers] == pytest.approx(wanted, abs=3e-3)
    wanted = scores[3].sort(descending=True).values[:3].tolist()
    features = split.features[split.image_rows[3]].astype(np.float32)
    for image in ("image83", features.tolist()):
        assert [one.score for one in retriever.captions_for(image, 3)] == pytest.approx(wanted, abs=3e-3)
    low = [replace(answers[0], score=-100.0)]
    usual = float(scores.amax(0).quantile(0.01))
    (doubt,) = retriever.doubts_about("word1", low)
    assert float(doubt.split("(")[1].split(")")[0]) == pytest.approx(usual, abs=3e-3)
    # As many queries as are compared quickly: every tenth of 100 captions with 20 images.
    monkeypatch.setattr(type(model), "quick_pairs", 200)
    (doubt,) = retriever.doubts_about("word1", low)
    some = float(scores[:, ::10].amax(0).quantile(0.01))
    assert float(doubt.split("(")[1].split(")")[0]) == pytest.approx(some, abs=3e-3)


PLUGIN = """
import torch
from torch import nn

from trainables.models.pair_model import PairModel
from trainables.representations import Sets

@model(features="regions", space={"sharpness": (1.0, 9.0)})
class LargestProduct(PairModel):
    def __init__(self, size, words, *sizes, sharpness=3.0):
        super().__init__()
        self.image, self.words, self.sharpness = nn.Linear(size, 8), nn.Embedding(words, 8), sharpness

    def encode_images(self, features):
        return Sets(self.image(features), torch.full(features.shape[:1], features.shape[1]))

    def encode_captions(self, tokens, lengths):
        return Sets(self.words(tokens), lengths)

    def compare_sets(self, images, captions):
        products = torch.einsum("iae,cbe->icab", images.vectors, captions.vectors)
        products = products.masked_fill(~captions.inside[:, None], MASK)
        return (products * self.sharpness).flatten(2).logsumexp(2) / self.sharpness
"""


def test_a_plugin_can_compare_pairs_and_is_told_where_they_depend_on_padding(tmp_path: Path) -> None:
    with plugins_gone_afterwards():
        load_plugins([str(write_plugin(tmp_path, PLUGIN.replace("MASK", "-torch.inf"), "right.py"))])
        assert {one.status for one in check_model("largest_product")} == {"ok"}
        config: TrialConfig = replace(tiny_config(epochs=1), model="largest_product")
        (report,) = run_trial(config, DATA, device="cpu")
        assert isinstance(report, EpochReport) and report.metrics["val/rsum"] > 0
    with plugins_gone_afterwards():
        load_plugins([str(write_plugin(tmp_path, PLUGIN.replace("MASK", "0.0"), "wrong.py"))])
        (wrong,) = [one for one in check_model("largest_product") if one.status != "ok"]
        assert wrong.check == "padding" and "has other similarities alone" in wrong.message


OWNERS = torch.arange(24) // 2


def packed(count: int, seed: int) -> PackedSets:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 5, (count,), generator=generator)
    return PackedSets(torch.randn(int(lengths.sum()), 3, generator=generator), lengths)


def largest_product(images: PackedSets, captions: PackedSets) -> Tensor:
    """A similarity that is no product of vectors: the largest product of a member of each."""
    first, second = images.padded(), captions.padded()
    products = torch.einsum("iae,cbe->icab", first.vectors, second.vectors)
    inside = first.inside[:, None, :, None] & second.inside[None, :, None, :]
    return products.masked_fill(~inside, -torch.inf).amax((-1, -2))


def in_tenths(images: PackedSets, captions: PackedSets) -> Tensor:
    """The same, rounded, so that many pairs tie."""
    return (largest_product(images, captions) / 2).round() / 10


def jittered(images: PackedSets, captions: PackedSets) -> Tensor:
    """The same, each block rounded in another way."""
    scores = in_tenths(images, captions)
    return scores + 3e-8 * torch.linspace(-1, 1, scores.numel()).view_as(scores)


Compare = Callable[[PackedSets, PackedSets], Tensor]


def whole(compare: Compare) -> Tensor:
    return compare(packed(12, 0), packed(24, 1))


@pytest.mark.parametrize("compare", [largest_product, in_tenths])
@pytest.mark.parametrize("chunk", [1, 5, 100])
def test_metrics_and_ranks_are_those_of_the_whole_matrix(compare: Compare, chunk: int) -> None:
    images, captions, scores = packed(12, 0), packed(24, 1), partial(PairScores, compare)
    positives = torch.arange(12)[:, None] == OWNERS
    found = metrics_in_folds(scores, images, captions, OWNERS, chunk=chunk)
    assert found == pytest.approx(retrieval_metrics(compare(images, captions), positives))
    ranks = rank_by_scores(scores(images, captions), OWNERS, chunk=chunk)
    assert all(map(torch.equal, ranks, rank_similarity(compare(images, captions), OWNERS)))
    halves = []
    for fold in range(2):
        rows, columns = torch.arange(12) // 6 == fold, fold == OWNERS // 6
        halves.append(retrieval_metrics(whole(compare)[rows][:, columns], positives[rows][:, columns]))
    in_two = metrics_in_folds(scores, images, captions, OWNERS, folds=2, chunk=chunk)
    assert in_two["rsum"] == pytest.approx((halves[0]["rsum"] + halves[1]["rsum"]) / 2)


@pytest.mark.parametrize("chunk", [3, 100])
def test_what_blocks_round_differently_stays_a_tie(chunk: int) -> None:
    ranks = rank_by_scores(PairScores(jittered, packed(12, 0), packed(24, 1)), OWNERS, chunk=chunk)
    wanted = rank_similarity(whole(in_tenths), OWNERS)
    assert len(whole(in_tenths).unique()) < 20, "there must be ties"
    assert all(map(torch.equal, ranks, wanted))


def test_some_scores_are_those_of_the_matrix() -> None:
    scores = PairScores(largest_product, packed(12, 0), packed(24, 1))
    rows, columns = torch.tensor([3, 0, 11]), torch.tensor([7, 23])
    torch.testing.assert_close(scores.between(rows, columns), whole(largest_product)[rows][:, columns].double())
    torch.testing.assert_close(scores.own(OWNERS), whole(largest_product)[OWNERS, torch.arange(24)].double())
    mixed = OWNERS[torch.randperm(24, generator=torch.Generator().manual_seed(0))]
    torch.testing.assert_close(scores.own(mixed), whole(largest_product)[mixed, torch.arange(24)].double())


def test_a_similarity_that_is_no_number_is_a_divergence() -> None:
    def wrong(images: PackedSets, captions: PackedSets) -> Tensor:
        return largest_product(images, captions) * torch.nan

    with pytest.raises(NotANumberError, match="similarities must be finite"):
        PairScores(wrong, packed(3, 0), packed(3, 1))


def test_sets_are_packed_chosen_and_padded_without_change() -> None:
    vectors, lengths = torch.randn(3, 4, 2), torch.tensor([2, 4, 1])
    inside = torch.arange(4) < lengths[:, None]
    sets = Sets(vectors * inside[..., None], lengths)
    assert torch.equal(sets.inside, inside)
    together = PackedSets.pack([sets, Sets(sets.vectors[:1, :2], lengths[:1])])
    assert len(together) == 4 and together.lengths.tolist() == [2, 4, 1, 2]
    torch.testing.assert_close(together[:3].padded().vectors, sets.vectors)
    mask = torch.tensor([False, True, False, True])
    for chosen in (together[torch.tensor([1, 3])], together[mask], together[1::2]):
        assert chosen.lengths.tolist() == [4, 2]
        torch.testing.assert_close(chosen.padded().vectors[0], sets.vectors[1])
        torch.testing.assert_close(chosen.padded().vectors[1, :2], sets.vectors[0, :2])
    for gallery in (together, vectors[:, 0]):
        again = from_tensors("images", to_tensors("images", converted(gallery, Tensor.double)))
        assert is_finite(again) and not is_finite(converted(gallery, lambda values: values / 0))
        assert type(again) is type(gallery) and len(again) == len(gallery)
