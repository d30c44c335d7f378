"""Models with further inputs beside everything else of the product: resumed, packed, asked, counted, not stacked."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.trainables.tiny import suited, tiny_config, tiny_dataset
from trainables.checkpoint import save_epoch
from trainables.config import TrialConfig
from trainables.data.batches import ResidentSplit
from trainables.data.dataset import Dataset
from trainables.errors import DataError
from trainables.evaluation import encode_captions, encode_images, evaluating, load_best
from trainables.fused import FusedTrials
from trainables.serving.packed import write_retriever
from trainables.serving.retriever import Retriever
from trainables.trial import run_trial

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "gsmn": ("gsmn", {}),
    "gsmn-sparse": ("gsmn", {"graph": "paper", "edges": "sparse"}),
    "hgr": ("hgr", {}),
    "ce": ("ce", {"clusters": 2, "text_clusters": 2}),
}
pytestmark = pytest.mark.usefixtures("one_thread")


def trial(case: str, **training: Any) -> tuple[TrialConfig, Dataset]:
    model, parameters = CASES[case]
    config = replace(tiny_config(epochs=2, loss="triplet", **training), model=model, model_parameters=parameters)
    return config, suited(tiny_dataset(images=18), config)


@pytest.mark.parametrize("case", CASES)
def test_a_resumed_training_has_the_bits_of_an_undisturbed_one(case: str, tmp_path: Path) -> None:
    config, data = trial(case, cocos_every=1)
    first, last = (save_epoch(tmp_path / "run", report) for report in run_trial(config, data, device="cpu"))
    _, resumed = run_trial(config, data, first, device="cpu")
    again = save_epoch(tmp_path / "again", resumed)
    states = [torch.load(path / "state.pt", weights_only=True) for path in (last, again)]
    for name, tensor in states[0]["model"].items():
        assert torch.equal(tensor, states[1]["model"][name]), name
    metrics = [{k: v for k, v in state["metrics"].items() if not k.startswith("time/")} for state in states]
    assert metrics[0] == metrics[1]
    assert metrics[0]["cocos/i2t_negatives_per_query"] > 0


@pytest.mark.parametrize("case", CASES)
def test_a_packed_model_answers_as_the_trained_one(case: str, tmp_path: Path) -> None:
    config, data = trial(case)
    *_, report = run_trial(config, data, device="cpu")
    checkpoint = save_epoch(tmp_path / "run", report)
    write_retriever(tmp_path / "packed", checkpoint, data, "test")
    packed, test = Retriever(tmp_path / "packed"), data.splits["test"]
    model, _ = load_best(checkpoint, data)
    split = ResidentSplit(test, torch.device("cpu"))
    with evaluating(model):
        similarity = model.compare(encode_images(model, split), encode_captions(model, split))
    answers = packed.captions_for(test.image_ids[0], top=len(test.captions))
    # The gallery is kept in float16. The texts of this dataset are no words, so captions are not asked.
    expected = similarity[0].sort(descending=True).values.tolist()
    assert [answer.score for answer in answers] == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("case", ["gsmn-sparse", "hgr"])
def test_a_new_caption_without_a_parse_is_refused_with_one_that_can_be_asked(case: str, tmp_path: Path) -> None:
    config, data = trial(case)
    *_, report = run_trial(config, data, device="cpu")
    write_retriever(tmp_path / "packed", save_epoch(tmp_path / "run", report), data, "test")
    packed = Retriever(tmp_path / "packed")
    wanted = {"gsmn-sparse": "parses", "hgr": "role graphs"}[case]
    with pytest.raises(DataError, match=f"the model reads {wanted} of captions, and there is none of 'a new one'"):
        packed.images_for("a new one")


def test_new_features_without_boxes_are_refused(tmp_path: Path) -> None:
    config, data = trial("gsmn")
    *_, report = run_trial(config, data, device="cpu")
    write_retriever(tmp_path / "packed", save_epoch(tmp_path / "run", report), data, "test")
    with pytest.raises(DataError, match="the model reads boxes of images as well; ask with the id of an image"):
        Retriever(tmp_path / "packed").captions_for([[0.0] * 24] * 3)


@pytest.mark.parametrize("case", ["gsmn", "hgr", "ce"])
def test_fused_trials_are_those_of_their_own(case: str) -> None:
    config, data = trial(case)
    configs = [replace(config, seed=seed) for seed in (0, 1)]
    together = FusedTrials("cpu")
    for one in configs:
        together.add(str(one.seed), one, data)
    fused = together.run_epoch(["0", "1"])
    for one in configs:
        alone = next(iter(run_trial(one, data, device="cpu")))
        assert fused[str(one.seed)].metrics["train/loss"] == alone.metrics["train/loss"]  # type: ignore[union-attr]
