from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn

from tests.trainables.tiny import suited, tiny_config, tiny_dataset
from trainables.config import TrialConfig
from trainables.data.batches import Batch, ResidentSplit, pair_batches
from trainables.data.dataset import Dataset
from trainables.evaluation import similarities
from trainables.losses import build_loss
from trainables.model_parameters import FEATURES, MODEL_PARAMETERS, MODEL_TABLE
from trainables.models import MODELS, build_model
from trainables.models.scan import AGGREGATIONS, PARAMETERS, SCAN
from trainables.models.vsepp import VSEPP
from trainables.models.vsrn import RegionReasoning
from trainables.optimizers import build_optimizer
from trainables.representations import Sets
from trainables.training_steps import finish, train_epoch
from trainables.trial import run_trial

PUBLISHED = {"region_norm": "published", "norm_before_reasoning": False}
CASES = [
    pytest.param("vsepp", {}, "nt_xent", id="vsepp"),
    pytest.param("vsepp", {"pooling": "mean"}, "nt_xent", id="vsepp-mean"),
    pytest.param("vsepp", {"pooling": "max"}, "nt_xent", id="vsepp-max"),
    pytest.param("vsepp", {"pooling": "gpo"}, "nt_xent", id="vsepp-gpo"),
    pytest.param("vsrn", {}, "nt_xent", id="vsrn"),
    pytest.param("vsrn", PUBLISHED, "triplet_sh", id="vsrn-published"),
    pytest.param("scan", {}, "triplet_sh", id="scan"),
    pytest.param("scan", {"cross_attention": "i2t", "aggregation": "mean"}, "nt_xent", id="scan-i2t-mean"),
    pytest.param("gsmn", {}, "triplet_sh", id="gsmn"),
    pytest.param("gsmn", {"graph": "paper"}, "triplet_sh", id="gsmn-paper"),
    pytest.param("gsmn", {"graph": "paper", "edges": "sparse"}, "triplet_sh", id="gsmn-paper-sparse"),
    pytest.param("hgr", {"dropout": 0.0, "graph_dropout": 0.0}, "triplet_sh", id="hgr"),
    pytest.param("ce", {}, "triplet", id="ce"),
    pytest.param("ce", {"padding": "published", "gating": "simultaneous"}, "nt_xent", id="ce-published-padding"),
    pytest.param("wsabie", {"radius": 3.0}, "warp", id="wsabie"),
    pytest.param("wsabie", {}, "nt_xent", id="wsabie-nt_xent"),
    pytest.param("head", {"image_head": "linear", "caption_head": "linear"}, "nt_xent", id="head-linear"),
    pytest.param("head", {"image_head": "mlp", "caption_head": "residual"}, "nt_xent", id="head-mlp-residual"),
    pytest.param("head", {"image_head": "residual", "caption_head": "mlp"}, "nt_xent", id="head-residual-mlp"),
]


pytestmark = pytest.mark.usefixtures("one_thread")


def data_for(config: TrialConfig) -> Dataset:
    return suited(tiny_dataset(images=30), config)


def batches_of(data: Dataset, captions: list[torch.Tensor]) -> list[Batch]:
    split = ResidentSplit(data.splits["train"], torch.device("cpu"))
    return list(pair_batches(split, captions, mask_duplicates=True))


def config_for(model: str, parameters: dict, loss: str, **training) -> TrialConfig:
    return replace(tiny_config(loss=loss, **training), model=model, model_parameters=parameters)


def test_every_model_has_features_and_parameters_listed() -> None:
    assert MODELS.keys() == FEATURES.keys() == MODEL_PARAMETERS.keys()


@pytest.mark.parametrize("name, parameters, loss", CASES)
def test_a_trial_lowers_its_loss_and_repeats(name: str, parameters: dict, loss: str) -> None:
    config = config_for(name, parameters, loss, epochs=2)
    data = data_for(config)
    (before, after), again = ([report.metrics for report in run_trial(config, data)] for _ in range(2))
    assert [before["val/rsum"], after["val/rsum"]] == [metrics["val/rsum"] for metrics in again]
    assert after["train/loss"] < before["train/loss"]


@pytest.mark.parametrize("name, parameters", [("vsepp", {}), ("vsepp", {"pooling": "gpo"}), ("vsrn", {}), ("head", {})])
def test_images_and_captions_of_models_that_compare_by_cosine_are_unit_vectors(name: str, parameters: dict) -> None:
    config = config_for(name, parameters, "nt_xent")
    data = data_for(config)
    model = build_model(config, data)
    (batch,) = batches_of(data, [torch.arange(0, 80, 5)])
    for vectors in (model.encode_images(3 * batch.images), model.encode_captions(batch.tokens, batch.lengths)):
        torch.testing.assert_close(vectors.norm(dim=1), torch.ones(16))


BOUNDED = [case for case in CASES if MODEL_TABLE[case.values[0]].is_bounded(case.values[1])]


@pytest.mark.parametrize("name, parameters, loss", BOUNDED)
def test_similarities_that_are_said_to_be_bounded_are(name: str, parameters: dict, loss: str) -> None:
    config = config_for(name, parameters, loss)
    data = data_for(config)
    (batch,) = batches_of(data, [torch.arange(0, 80, 5)])
    with torch.no_grad():
        assert float(similarities(build_model(config, data), batch).abs().max()) <= 1 + 1e-5


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_scan_says_whether_equal_sets_have_a_similarity_above_1(aggregation: str) -> None:
    model = SCAN(4, 5, 2, 3, aggregation=aggregation)
    equal = Sets(torch.tensor([[[0.6, 0.8]] * 3]), torch.tensor([3]))
    above = float(model.compare_sets(equal, equal)) > 1 + 1e-5
    assert MODEL_TABLE["scan"].is_bounded({"aggregation": aggregation}) == (not above)
    assert MODEL_TABLE["scan"].is_bounded({}) == (PARAMETERS["aggregation"].default in ("mean", "max"))


def test_wsabie_stays_in_the_ball_after_every_step() -> None:
    config = config_for("wsabie", {"radius": 0.7}, "warp", learning_rate=0.5)
    data = data_for(config)
    model = build_model(config, data)
    batches = batches_of(data, [torch.arange(start, 80, 5) for start in range(3)])
    finish(
        train_epoch(
            model, build_loss("warp"), build_optimizer(model.parameters(), config.training), batches, None, epoch=1
        )
    )
    for columns in (model.image_columns, model.word_columns):
        assert float(columns.detach().norm(dim=1).max()) <= 0.7 + 1e-6


def test_sgd_is_the_step_of_the_algorithm() -> None:
    """One violating triple of WARP's algorithm: V += lr w (Z (y - y')) x^T, Z += lr w (V x) (y - y')^T."""
    config = config_for("wsabie", {"radius": 100.0}, "warp", optimizer="sgd", learning_rate=0.1, gradient_clip=None)
    data = data_for(config)
    model = build_model(config, data)
    image, words = torch.randn(1, 24), model.word_columns.detach().clone()
    images_before = model.image_columns.detach().clone()
    tokens, lengths = torch.tensor([[5, 6], [7, 0]]), torch.tensor([2, 1])
    optimizer = build_optimizer(model.parameters(), config.training)
    own, other = model.encode_captions(tokens, lengths)
    (2.5 * (1 - model.encode_images(image) @ own + model.encode_images(image) @ other)).sum().backward()
    optimizer.step()
    difference = torch.zeros(len(words))
    difference[[5, 6]] = model.idf[[5, 6]]
    difference[7] = -model.idf[7]
    steps = torch.outer(image[0], difference @ words), torch.outer(difference, image[0] @ images_before)
    torch.testing.assert_close(model.image_columns.detach(), images_before + 0.1 * 2.5 * steps[0])
    torch.testing.assert_close(model.word_columns.detach(), words + 0.1 * 2.5 * steps[1])


# A linear map of 2,048 features to 1,024 dimensions, and one direction of a GRU from 300 to 1,024 dimensions.
MAP, GRU = 2048 * 1024 + 1024, 3 * 1024 * 300 + 3 * 1024 * 1024 + 2 * 3 * 1024
BLOCKS = {f"blocks.{block}": 16_789_504 for block in range(4)}
PUBLISHED_COUNTS = {
    "vsepp": (lambda: VSEPP(2048, 3178, 1024, 300), {"image_projection": MAP, "text.gru": GRU, "text.words": 953_400}),
    "scan": (
        lambda: SCAN(2048, 8481, 1024, 300),
        {"image_projection": MAP, "gru": 2 * GRU, "words": 2_544_300, "": 12_789_420},
    ),
    "vsrn": (
        lambda: RegionReasoning(2048, 2048),
        {**BLOCKS, "projection": 4_196_352, "gru": 25_178_112, "": 96_536_576},
    ),
}


@pytest.mark.parametrize(("make", "published"), PUBLISHED_COUNTS.values(), ids=PUBLISHED_COUNTS)
def test_published_numbers_of_parameters(make: Callable[[], nn.Module], published: dict[str, int]) -> None:
    with torch.device("meta"):
        model = make()
    counts = {name: sum(p.numel() for p in part.parameters()) for name, part in model.named_modules()}
    assert {name: counts[name] for name in published} == published
    assert (MAP, GRU) == (2_098_176, 4_073_472)
