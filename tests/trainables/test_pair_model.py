"""A model whose similarity is of pairs is evaluated, packed, asked and checked as one of vectors is."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from orchestrator.experiment.plugins import load_plugins
from tests.support.plugins import plugins_gone_afterwards, write_plugin
from tests.trainables.models.test_cross_attention import attention, expected
from tests.trainables.tiny import suited, tiny_config, tiny_dataset
from trainables.checkpoint import EpochReport, save_epoch
from trainables.config import TrialConfig
from trainables.contracts.model_contract import check_model
from trainables.data.batches import ResidentSplit
from trainables.data.dataset import Dataset
from trainables.evaluation import evaluate, evaluate_checkpoint, load_best, rank_checkpoint
from trainables.metrics import retrieval_metrics
from trainables.models import RetrievalModel, build_model, pair_model
from trainables.serving.packed import GALLERY, write_retriever
from trainables.serving.retriever import Retriever
from trainables.trial import run_trial

CPU = torch.device("cpu")
CONFIG = replace(tiny_config(epochs=2, loss="triplet_sh"), model="scan")
DATA = suited(tiny_dataset(), CONFIG)


@torch.no_grad()
def matrix(model: RetrievalModel, data: Dataset, split: str) -> Tensor:
    """The similarity of each pair of a split by the loops of the paper, a caption encoded at a time."""
    part = data.splits[split]
    images = model.eval().encode_images(torch.from_numpy(part.features[part.image_rows]).float())
    columns = []
    for start, stop in zip(part.offsets, part.offsets[1:], strict=False):
        tokens = torch.from_numpy(part.tokens[start:stop]).long()
        caption = model.encode_captions(tokens[None], torch.tensor([len(tokens)]))
        columns.append(expected(images, caption, attention(lambda_softmax=9.0)))
    return torch.cat(columns, 1)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scan")
    return [save_epoch(folder, report) for report in run_trial(CONFIG, DATA, device="cpu")][-1]


def test_metrics_are_those_of_the_loops_over_pairs(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = load_best(checkpoint, DATA)
    positives = torch.arange(20)[:, None] == torch.from_numpy(DATA.splits["test"].image_of_caption)
    wanted = retrieval_metrics(matrix(model, DATA, "test"), positives)
    # Captions of the same words tie, and rounding decides about them.
    assert evaluate_checkpoint(checkpoint, DATA, "test", device="cpu")["rsum"] == pytest.approx(wanted["rsum"], abs=3)
    monkeypatch.setattr(pair_model, "AT_ONCE", 7)
    found = evaluate(model, ResidentSplit(DATA.splits["test"], CPU))
    assert found["rsum"] == pytest.approx(wanted["rsum"], abs=3)
    ranks = rank_checkpoint(checkpoint, DATA, ["test"], device="cpu")["test"]
    assert ranks.metrics == pytest.approx(found)


def test_it_learns(checkpoint: Path) -> None:
    torch.manual_seed(0)
    untrained = evaluate(build_model(CONFIG, DATA), ResidentSplit(DATA.splits["val"], CPU))["rsum"]
    assert evaluate_checkpoint(checkpoint, DATA, "val", device="cpu")["rsum"] > untrained + 60


def test_a_packed_model_answers_as_it_does_in_its_dataset(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_retriever(tmp_path / "packed", checkpoint, DATA, "test")
    tensors = load_file(tmp_path / "packed" / GALLERY)
    assert tensors["images.lengths"].tolist() == [3] * 20 and len(tensors["images"]) == 60
    assert len(tensors["captions"]) == int(tensors["captions.lengths"].sum()) == len(DATA.splits["test"].tokens)
    model, _ = load_best(checkpoint, DATA)
    scores, split, retriever = matrix(model, DATA, "test"), DATA.splits["test"], Retriever(tmp_path / "packed")
    for caption in (0, 17, 99):
        words = " ".join(DATA.vocabulary.decode(split.tokens[slice(*split.offsets[caption : caption + 2])][1:-1]))
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
    def __init__(self, size, words, *, sharpness=3.0):
        super().__init__()
        self.image, self.words, self.sharpness = nn.Linear(size, 8), nn.Embedding(words, 8), sharpness

    @classmethod
    def build(cls, config, data, *, pretrained=True):
        size = data.splits["train"].features.shape[-1]
        return cls(size, len(data.vocabulary), **config.model_parameters)

    def encode_images(self, features):
        return Sets(self.image(features), torch.full(features.shape[:1], features.shape[1]))

    def encode_captions(self, tokens, lengths):
        return Sets(self.words(tokens), lengths)

    def compare_sets(self, images, captions):
        products = torch.einsum("iae,cbe->icab", images.vectors, captions.vectors)
        products = products.masked_fill(~captions.inside()[:, None], MASK)
        return (products * self.sharpness).flatten(2).logsumexp(2) / self.sharpness
"""


def test_a_plugin_can_compare_pairs(tmp_path: Path) -> None:
    with plugins_gone_afterwards():
        right = write_plugin(tmp_path, PLUGIN.replace("MASK", "-torch.inf"), "right.py")
        load_plugins([str(right)])
        assert {one.status for one in check_model("largest_product")} == {"ok"}
        config: TrialConfig = replace(tiny_config(epochs=1), model="largest_product")
        (report,) = run_trial(config, DATA, device="cpu")
        assert isinstance(report, EpochReport) and report.metrics["val/rsum"] > 0


def test_a_plugin_whose_pairs_depend_on_padding_is_told(tmp_path: Path) -> None:
    with plugins_gone_afterwards():
        load_plugins([str(write_plugin(tmp_path, PLUGIN.replace("MASK", "0.0"), "wrong.py"))])
        (wrong,) = [one for one in check_model("largest_product") if one.status != "ok"]
        assert wrong.check == "padding" and "has other similarities alone" in wrong.message
