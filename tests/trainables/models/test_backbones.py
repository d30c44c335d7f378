from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from trainables.encoders.pretrained import weights_digest
from trainables.errors import ConfigError, DataError
from trainables.model_parameters import BACKBONES, check_backbone
from trainables.models.backbones import MEAN, STD, Backbone, build_backbone, make_encoder


@pytest.fixture(scope="module")
def torchvision() -> Any:
    """The package, which every worker would wait some seconds for if the head of this file imported it."""
    return import_module("torchvision")


@pytest.fixture(scope="module")
def crops() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (3, 224, 224, 3), dtype=np.uint8)


def save(state: object, path: Path) -> str:
    torch.save(state, path)
    return str(path)


def test_the_names_are_those_of_torchvision(torchvision: Any) -> None:
    assert sorted(BACKBONES) == sorted(torchvision.models.list_models(module=torchvision.models))


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"got 'resnet-50'; nearest: resnet50, "):
        check_backbone("resnet-50")


def test_global_features_feed_the_last_layer_and_regions_are_what_was_pooled(
    crops: np.ndarray, torchvision: Any
) -> None:
    backbone = build_backbone("resnet18", "none")
    published = torchvision.models.resnet18(weights=None)
    published.fc = nn.Identity()
    published.load_state_dict(backbone.network.state_dict())
    published.eval()
    pixels = torch.from_numpy(crops).permute(0, 3, 1, 2) / 255
    pixels = torchvision.transforms.Normalize(MEAN, STD)(pixels)
    with torch.inference_mode():
        expected = published(pixels)
        pooled, grid = backbone(torch.from_numpy(crops))
        cells = nn.Sequential(*list(published.children())[:-2])(pixels)
    torch.testing.assert_close(pooled, expected / expected.norm(dim=1, keepdim=True), rtol=1e-3, atol=1e-5)
    assert grid.shape == (3, 49, 512)
    cell = cells[1, :, 2, 5]
    torch.testing.assert_close(grid[1, 2 * 7 + 5], cell / cell.norm(), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    "name, size, features, grid",
    [
        ("squeezenet1_1", 224, 512, (169, 512)),
        ("mobilenet_v3_small", 224, 1024, (49, 576)),
        ("shufflenet_v2_x0_5", 224, 1024, (49, 1024)),
        ("efficientnet_b0", 224, 1280, (49, 1280)),
        pytest.param("inception_v3", 299, 2048, (64, 2048), marks=pytest.mark.proof),
        pytest.param("convnext_tiny", 224, 768, (49, 768), marks=pytest.mark.proof),
        pytest.param("swin_t", 224, 768, (49, 768), marks=pytest.mark.proof),
        pytest.param("vit_b_32", 224, 768, (49, 768), marks=pytest.mark.proof),
        pytest.param("maxvit_t", 224, 512, (49, 512), marks=pytest.mark.proof),
        pytest.param("vgg11", 224, 4096, (49, 512), marks=pytest.mark.proof),
    ],
)
def test_every_family_has_global_and_region_features(name: str, size: int, features: int, grid: tuple) -> None:
    backbone = build_backbone(name, "none")
    assert backbone.image_size == size
    with torch.inference_mode():
        pooled, regions = backbone(torch.randint(0, 256, (2, size, size, 3), dtype=torch.uint8))
    assert (pooled.shape, regions.shape) == ((2, features), (2, *grid))
    torch.testing.assert_close(pooled.norm(dim=1), torch.ones(2))
    torch.testing.assert_close(regions.norm(dim=2), torch.ones(2, grid[0]))


@pytest.mark.parametrize("scale", [1e-15, 1e-12, 1.0, 1e12])
def test_features_are_unit_vectors_however_short_they_are(scale: float) -> None:
    network = nn.Sequential(nn.Conv2d(3, 5, 3), nn.AdaptiveAvgPool2d(1))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(scale)
    backbone = Backbone(network, 8, 5)
    pooled, regions = backbone(torch.randint(0, 256, (4, 8, 8, 3), dtype=torch.uint8))
    torch.testing.assert_close(pooled.norm(dim=1), torch.ones(4))
    torch.testing.assert_close(regions.norm(dim=2), torch.ones(4, 36))


def test_encoder_gives_what_was_asked_for_as_float16(crops: np.ndarray) -> None:
    backbone = build_backbone("squeezenet1_1", "none")
    found = make_encoder(backbone, ("regions",), torch.device("cpu"))(crops)
    assert list(found) == ["regions"]
    assert (found["regions"].shape, found["regions"].dtype) == ((3, 169, 512), np.float16)


def test_regions_of_a_backbone_without_a_grid_are_refused() -> None:
    backbone = build_backbone("squeezenet1_1", "none")
    backbone.has_grid = False
    with pytest.raises(ConfigError, match="--features global"):
        make_encoder(backbone, ("regions",), torch.device("cpu"))


def test_untrained_weights_come_from_the_seed_and_leave_the_generator_alone() -> None:
    torch.manual_seed(0)
    first, again, other = (weights_digest(build_backbone("squeezenet1_1", "none", seed=seed)) for seed in (0, 0, 1))
    assert first == again != other
    after = torch.rand(())
    torch.manual_seed(0)
    assert torch.rand(()) == after


@pytest.mark.parametrize("classes", [None, 1000, 10], ids=["no last layer", "1000 classes", "10 classes"])
def test_a_state_dict_is_read_whatever_its_last_layer(tmp_path: Path, torchvision: Any, classes: int | None) -> None:
    source = torchvision.models.resnet18(num_classes=classes or 1000)
    state = {key: value for key, value in source.state_dict().items() if classes or not key.startswith("fc.")}
    found = build_backbone("resnet18", save(state, tmp_path / "weights.pt")).network.state_dict()
    assert all(torch.equal(value, state[key]) for key, value in found.items())


def test_files_without_batch_counters_and_with_old_densenet_names_are_read(tmp_path: Path, torchvision: Any) -> None:
    import re

    source = torchvision.models.densenet121(weights=None)
    old = {
        re.sub(r"\.(norm|conv)([12])\.", r".\1.\2.", key): value
        for key, value in source.state_dict().items()
        if not key.endswith("num_batches_tracked")
    }
    found = build_backbone("densenet121", save(old, tmp_path / "weights.pt")).network
    layer = "features.denseblock1.denselayer1.conv2.weight"
    assert torch.equal(found.state_dict()[layer], source.state_dict()[layer])


REFUSED = {
    "another network": ("resnet18", "squeezenet1_1", r"not the weights of a resnet18: \d+ tensors are missing, e.g."),
    "a deeper network": ("resnet18", "resnet34", r"\d+ tensors are unknown to it, e.g. layer1"),
    "another width": ("shufflenet_v2_x0_5", "shufflenet_v2_x1_0", "tensors are of another shape"),
    "strings": ("resnet18", {"weight": "words"}, "not a state dict"),
    "a list": ("resnet18", [1, 2], "not a state dict"),
    "nothing": ("resnet18", {}, "not a state dict"),
    "an empty file": ("resnet18", b"", "cannot be read as a state dict"),
    "a text": ("resnet18", b"no weights", "cannot be read as a state dict"),
    "a torn file": ("resnet18", b"PK\x03\x04 torn", "cannot be read as a state dict"),
}


@pytest.mark.parametrize(("name", "content", "message"), REFUSED.values(), ids=REFUSED)
def test_other_files_are_refused(tmp_path: Path, torchvision: Any, name: str, content: object, message: str) -> None:
    path = tmp_path / "weights.pt"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        save(torchvision.models.get_model(content).state_dict() if isinstance(content, str) else content, path)
    with pytest.raises(DataError, match=message) as caught:
        build_backbone(name, str(path))
    assert str(path) in str(caught.value)


class Malicious:
    def __reduce__(self):
        return (Path.touch, (Path("pwned"),))


def test_weights_that_cannot_be_fetched_name_the_option_and_the_key(
    torchvision: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise OSError("no network")

    monkeypatch.setattr("torchvision.models.get_model", refuse)
    with pytest.raises(DataError, match="no network; .* --weights, or under model_parameters.weights for a training"):
        build_backbone("resnet18")


def test_weights_cannot_run_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="cannot be read as a state dict"):
        build_backbone("squeezenet1_1", save({"weight": Malicious()}, tmp_path / "weights.pt"))
    assert not Path("pwned").exists()
