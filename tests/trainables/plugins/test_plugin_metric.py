"""A metric of a plug-in: nDCG@10 against a sort, its values of images, its refusals and its contract."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from orchestrator.commands.list_names import list_metrics
from orchestrator.experiment.plugins import load_plugins
from orchestrator.text.wording import metric_meaning, number_text
from tests.support.plugins import EXAMPLES, write_plugin
from tests.trainables.tiny import tiny_config, tiny_dataset
from trainables.contracts.metric_contract import CHECKS, check_metric
from trainables.errors import ConfigError, PluginError
from trainables.evaluation import rank_split
from trainables.metric_table import METRICS, may_select
from trainables.metric_values import image_values, values_of_plugins
from trainables.metrics import embedding_metrics, retrieval_metrics
from trainables.positive_ranks import BlockScores
from trainables.ranks import pack_numbers, unpack_numbers
from trainables.trial import run_trial

NDCG = EXAMPLES / "own-metric" / "my_metrics.py"

OF_SIMILARITIES = """
from trainables.plugins import metric

@metric(low=-2, high=2)
def margin(similarity, positives):
    \"\"\"Best match minus the hardest other candidate.\"\"\"
    best = similarity.masked_fill(~positives, -9).amax(1)
    return best - similarity.masked_fill(positives, -9).amax(1)
"""


def ndcg_by_sorting(scores: Tensor, positives: Tensor) -> float:
    """Sort each query's candidates, negatives first among equals, and add up gains place by place."""
    values = []
    for row, own in zip(scores.tolist(), positives.tolist(), strict=True):
        order = sorted(range(len(row)), key=lambda j: (-row[j], own[j]))
        gains = [1 / math.log2(place + 1) for place, j in enumerate(order[:10], start=1) if own[j]]
        ideal = [1 / math.log2(place + 1) for place in range(1, min(10, sum(own)) + 1)]
        values.append(sum(gains) / sum(ideal))
    return sum(values) / len(values)


def drawn(images: int = 12, each: int = 12) -> tuple[Tensor, Tensor, Tensor]:
    """Embeddings of images with so many captions that some positives come behind the tenth place, and their owners."""
    draw = torch.Generator().manual_seed(3)
    owners = torch.arange(images).repeat_interleave(each)
    pictures = torch.nn.functional.normalize(torch.randn(images, 6, generator=draw), dim=1)
    return pictures, pictures[owners] + 0.5 * torch.randn(len(owners), 6, generator=draw), owners


def test_it_is_reported_in_both_directions_and_over_both() -> None:
    load_plugins([str(NDCG)])
    images, captions, owners = drawn()
    scores, positives = images @ captions.T, owners == torch.arange(len(images))[:, None]
    i2t, t2i = ndcg_by_sorting(scores, positives), ndcg_by_sorting(scores.T, positives.T)
    assert 0.2 < i2t < 0.9
    for metrics in (retrieval_metrics(scores, positives), embedding_metrics(images, captions, owners)):
        assert [metrics[f"{name}ndcg10"] for name in ("i2t_", "t2i_", "")] == pytest.approx([i2t, t2i, (i2t + t2i) / 2])


def test_it_may_select_and_is_shown_by_its_printed_name() -> None:
    load_plugins([str(NDCG)])
    assert {"val/ndcg10", "val/i2t_ndcg10", "val/t2i_ndcg10"} <= {*may_select()}
    assert number_text(0.4567, "test/ndcg10", signed=True) == "+0.457"
    assert metric_meaning("val/i2t_ndcg10").startswith("val i2t nDCG@10: normalised discounted cumulative gain")
    assert "val/ndcg10" in [entry["name"] for entry in list_metrics()]


@pytest.mark.parametrize("text", [NDCG.read_text(), OF_SIMILARITIES], ids=["ranks", "similarities"])
def test_the_mean_of_the_kept_values_of_images_is_the_metric(tmp_path: Path, text: str) -> None:
    (plugin,) = load_plugins([str(write_plugin(tmp_path, text))])
    (name,) = plugin.offers["metrics"]
    images, captions, owners = drawn(each=5)
    split = tiny_dataset(36).splits["test"]
    assert np.array_equal(split.image_of_caption, owners)
    ranked = rank_split(split, BlockScores(images, captions))
    kept = {metric: unpack_numbers(pack_numbers(values)) for metric, values in ranked.values.items()}
    assert kept.keys() == {f"i2t_{name}", f"t2i_{name}"}
    for metric in (f"i2t_{name}", f"t2i_{name}", name):
        values = image_values(ranked.ranks, metric, kept)
        assert values.shape == (12,) and values.mean() == pytest.approx(ranked.metrics[metric])
    if METRICS[name].of_queries is None:
        with pytest.raises(KeyError):
            image_values(ranked.ranks, name)
    else:
        assert values_of_plugins(ranked.ranks, {}).keys() == kept.keys()


def test_a_metric_of_similarities_is_that_of_the_matrix(tmp_path: Path) -> None:
    load_plugins([str(write_plugin(tmp_path, OF_SIMILARITIES))])
    images, captions, owners = drawn(each=4)
    scores, positives = images @ captions.T, owners == torch.arange(len(images))[:, None]
    gaps = [float(row[own].max() - row[~own].max()) for row, own in zip(scores, positives, strict=True)]
    measured = embedding_metrics(images, captions, owners)
    assert measured["i2t_margin"] == pytest.approx(sum(gaps) / len(gaps), abs=1e-6)
    assert retrieval_metrics(scores, positives)["i2t_margin"] == pytest.approx(measured["i2t_margin"], abs=1e-6)


def test_a_trial_selects_its_best_epoch_by_it() -> None:
    load_plugins([str(NDCG)])
    config = replace(tiny_config(), metric="val/ndcg10")
    reports = list(run_trial(config, tiny_dataset(), device="cpu"))
    best = max(report.metrics["val/ndcg10"] for report in reports)
    assert reports[-1].metrics["val/ndcg10_best"] == best
    assert 0 < best <= 1


REFUSED = {
    "another signature": ("def wrong(ranks):\n    return ranks", "must be a function of positions, counts or"),
    "a name of two words": ("def two_words(positions, counts):\n    return counts", "small letters and digits alone"),
    "a name of ours": ("def rsum(positions, counts):\n    return counts", "is a metric of ours"),
}


@pytest.mark.parametrize(("text", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_metric_is_refused_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    source = write_plugin(tmp_path, f"from trainables.plugins import metric\n\n@metric()\n{text}\n")
    with pytest.raises(ConfigError, match=rf"my_losses\.py:\d+: .*{said}"):
        load_plugins([str(source)])


def test_an_empty_range_is_refused(tmp_path: Path) -> None:
    text = """
from trainables.plugins import metric

@metric(low=1, high=1)
def one(positions, counts):
    return counts
"""
    with pytest.raises(ConfigError, match="needs low below high, got 1 and 1"):
        load_plugins([str(write_plugin(tmp_path, text))])


WRONG = {
    "one number": ("return float(counts.mean())", "a value for each query, shape (3,), got float"),
    "another shape": ("return positions[:2, 0]", "a value for each query, shape (3,), got shape (2,)"),
    "out of range": ("return positions[:, 0] * 0 + 7.0", "must return values in [0, 1], got 7 to 7"),
    "no number": ("return positions[:, 0] * float('nan')", "must return values in [0, 1], got nan to nan"),
    "an error": ("raise ValueError('no luck')", "ValueError: no luck"),
}


@pytest.mark.parametrize(("line", "said"), WRONG.values(), ids=WRONG)
def test_what_a_function_returns_wrong_is_said_with_its_place(tmp_path: Path, line: str, said: str) -> None:
    text = f"from trainables.plugins import metric\n\n@metric()\ndef odd(positions, counts):\n    {line}\n"
    load_plugins([str(write_plugin(tmp_path, text))])
    with pytest.raises(PluginError) as refused:
        retrieval_metrics(torch.eye(3), torch.eye(3, dtype=torch.bool))
    assert said in str(refused.value) and "my_losses.py:" in str(refused.value)


def test_a_metric_of_which_less_is_better_is_reported_and_cannot_select(tmp_path: Path) -> None:
    text = """
from trainables.plugins import metric

@metric(low=1, high=float("inf"), larger_is_better=False)
def firstrank(positions, counts):
    return positions[:, 0]
"""
    load_plugins([str(write_plugin(tmp_path, text))])
    assert retrieval_metrics(torch.eye(3), torch.eye(3, dtype=torch.bool))["firstrank"] == 1
    with pytest.raises(ConfigError, match="cannot select: its smaller values are better"):
        next(run_trial(replace(tiny_config(), metric="val/firstrank"), tiny_dataset(), device="cpu"))


def test_the_example_keeps_the_contract() -> None:
    load_plugins([str(NDCG)])
    findings = list(check_metric("ndcg10"))
    assert [finding.check for finding in findings] == list(CHECKS)
    assert {finding.status for finding in findings} == {"ok"}


BROKEN = {
    "alone": ("return positions[:, 0] / positions[:, 0].max()", "fail"),
    "direction": ("return positions[:, 0] / 30", "fail"),
    "values": ("return positions[:, 0]", "fail"),
}


@pytest.mark.parametrize(("check", "line", "status"), [(name, *rest) for name, rest in BROKEN.items()])
def test_each_mistake_fails_the_check_that_is_about_it(tmp_path: Path, check: str, line: str, status: str) -> None:
    text = f"from trainables.plugins import metric\n\n@metric()\ndef odd(positions, counts):\n    {line}\n"
    load_plugins([str(write_plugin(tmp_path, text))])
    assert {finding.check: finding.status for finding in check_metric("odd")}[check] == status


def test_a_metric_that_cannot_rank_models_is_a_warning(tmp_path: Path) -> None:
    text = "from trainables.plugins import metric\n\n@metric()\ndef same(positions, counts):\n    return counts * 0.0\n"
    load_plugins([str(write_plugin(tmp_path, text))])
    assert {finding.check: finding.status for finding in check_metric("same")}["direction"] == "warn"
