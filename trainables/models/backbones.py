"""Convolutional networks and transformers of torchvision as image encoders: a classifier without its last layer.

Global features are the input of the last layer, region features the cells of the last grid before pooling (without a
transformer's class token). Both are scaled to unit length, as in VSE++ before its linear map [Faghri2018], which also
keeps the features of every network in the range of float16.

References:
    [Faghri2018] Faghri et al., VSE++. arXiv:1707.05612; code fartashf/vsepp@abe382f, model.py:117-135, data.py:311-325.
"""

import pickle
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from trainables.errors import ConfigError, DataError, reason_of
from trainables.extras import require
from trainables.model_parameters import check_backbone
from trainables.seeding import seed_torch

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Mean and standard deviation of ImageNet's pixels in [0, 1]: red, green, blue."""

SHORTEST = 1e-16
"""Least length of features that are scaled to unit length; squares of shorter features underflow in float32.

Torch's own bound of 1e-12 is too large: features of some untrained networks are about this long.
"""

_AUXILIARY = ("aux1.", "aux2.", "AuxLogits.")
"""Auxiliary classifiers of two networks, used only in their own training; weight files contain their weights."""

_COUNTER = "num_batches_tracked"
"""Counters of batch norms, which weight files from before 2018 lack and inference does not use."""


class Backbone(nn.Module):
    """A network that gives global features and the grid from which the global features were pooled.

    The network is frozen until ``requires_grad_`` and ``train`` are called.

    Attributes:
        image_size: Side in pixels of the square images that the network reads.
        feature_size: Dimensions of a global feature.
        has_grid: Whether a grid of cells was requested and found in the network.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, network: nn.Module, image_size: int, feature_size: int, *, grid: bool = True) -> None:
        """Take a classifier without its last layer; ``feature_size`` is the input size of the removed layer."""
        super().__init__()
        self.network = network.eval().requires_grad_(False).to(memory_format=torch.channels_last)
        self.image_size, self.feature_size = image_size, feature_size
        self.register_buffer("mean", 255 * torch.tensor(MEAN)[:, None, None], persistent=False)
        self.register_buffer("std", 255 * torch.tensor(STD)[:, None, None], persistent=False)
        self._grid = torch.empty(0)
        grid_name = _last_grid(network, image_size) if grid else None
        self.has_grid = grid_name is not None
        if grid_name is not None:
            network.get_submodule(grid_name).register_forward_hook(self._keep_grid)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Map pixels to unit vectors.

        Args:
            images: Shape (I, image_size, image_size, 3), uint8, red, green, blue.

        Returns:
            Global features (I, D) and region features (I, R, D'); region features are empty without a grid.
        """
        pixels = (images.permute(0, 3, 1, 2) - self.mean) / self.std
        pooled = self.network(pixels).flatten(1)
        grid, self._grid = self._grid, torch.empty(0)
        return normalize(pooled, dim=-1, eps=SHORTEST), normalize(grid, dim=-1, eps=SHORTEST)

    def _keep_grid(self, module: nn.Module, inputs: Any, output: Tensor) -> None:
        self._grid = output.flatten(2).transpose(1, 2) if output.dim() == 4 else output[:, 1:]


def build_backbone(name: str, weights: str = "DEFAULT", *, seed: int = 0, grid: bool = True) -> Backbone:
    """Make a network of torchvision without its last layer, in eval mode.

    Args:
        name: A name of ``trainables.model_parameters.BACKBONES``.
        weights: ``DEFAULT``: torchvision's best weights; ``none``: untrained weights, drawn from the seed; else a
            state-dict file, in which the last layer may have any size or be missing.
        seed: Seed of untrained weights.
        grid: Whether region features are needed.

    Raises:
        ConfigError: If the name is unknown.
        DataError: If the weights cannot be downloaded or read, or belong to another architecture.
    """
    check_backbone(name)
    require("pictures", "a backbone")
    from torchvision import models

    defaults = models.get_model_weights(name).DEFAULT
    network = _make_network(name, defaults if weights == "DEFAULT" else None, seed)
    # The classifier is the last linear map or convolution, with a weight of shape (out, in, ...).
    last = [name for name, module in network.named_modules() if isinstance(module, nn.Linear | nn.Conv2d)][-1]
    feature_size = network.get_parameter(f"{last}.weight").shape[1]
    network.set_submodule(last, nn.Identity())
    if weights not in ("DEFAULT", "none"):
        _load(network, _read_state(Path(weights)), last, weights, name)
    return Backbone(network, defaults.transforms().crop_size[0], feature_size, grid=grid)


def make_encoder(
    backbone: Backbone, kinds: tuple[str, ...], device: torch.device
) -> Callable[[np.ndarray], dict[str, np.ndarray]]:
    """Return a function from crops (B, S, S, 3) uint8 to float16 features by kind: ``global``, ``regions``.

    Raises:
        ConfigError: If ``kinds`` has ``regions`` and the backbone has no grid.
    """
    if "regions" in kinds and not backbone.has_grid:
        raise ConfigError("this backbone has no grid of cells to take region features from; ask for --features global")
    backbone = backbone.to(device)

    @torch.inference_mode()
    def encode(crops: np.ndarray) -> dict[str, np.ndarray]:
        pooled, grid = backbone(torch.from_numpy(crops).to(device))
        features = {"global": pooled, "regions": grid}
        return {kind: features[kind].to("cpu", torch.float16).numpy() for kind in kinds}

    return encode


@torch.inference_mode()
def _last_grid(network: nn.Module, image_size: int) -> str | None:
    """Return the name of the last module whose output has several cells, found with a forward pass of one image."""
    grids: list[str] = []

    def note(name: str, module: nn.Module, inputs: Any, output: Any) -> None:
        if isinstance(output, Tensor) and (output.dim() == 3 or (output.dim() == 4 and output[0, 0].numel() > 1)):
            grids.append(name)

    hooks = [module.register_forward_hook(partial(note, name)) for name, module in network.named_modules() if name]
    network(torch.zeros(1, 3, image_size, image_size))
    for hook in hooks:
        hook.remove()
    return grids[-1] if grids else None


def _make_network(name: str, weights: Any, seed: int) -> nn.Module:
    """Make a network with weights of torchvision, downloaded or from its cache; ``None`` draws them from the seed."""
    from torchvision import models

    options = {"aux_logits": False} if name in ("googlenet", "inception_v3") else {}
    network: nn.Module
    if weights is None:
        # These two networks print a warning unless initialisation is requested explicitly.
        options |= {"init_weights": True} if options else {}
        # The state of torch's global generator is restored.
        with torch.random.fork_rng(devices=[]):
            seed_torch(seed, "backbone", name)
            network = models.get_model(name, weights=None, **options)
        return network
    try:
        network = models.get_model(name, weights=weights, progress=False, **options)
    except (OSError, RuntimeError) as error:
        raise DataError(
            f"{weights.url}: cannot be fetched: {error}; fetch it elsewhere, and name the file with --weights, or "
            "under model_parameters.weights for a training"
        ) from error
    return network


def _read_state(path: Path) -> dict[str, Tensor]:
    """Read a state dict; code in the file cannot run."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, ValueError, EOFError, KeyError, pickle.UnpicklingError) as error:
        raise DataError(f"{path}: cannot be read as a state dict of torch: {reason_of(error):.200}") from error
    if not isinstance(state, dict) or not state or not all(isinstance(value, Tensor) for value in state.values()):
        raise DataError(f"{path}: not a state dict, the dict of tensors that torch.save(model.state_dict()) writes")
    return state


def _load(network: nn.Module, state: dict[str, Tensor], last: str, source: str, name: str) -> None:
    """Load weights into a network, except the weights of the last layer and of auxiliary classifiers."""
    wanted = network.state_dict()
    # torchvision has renamed modules of DenseNet, but its weight files still have the old names.
    weights = {re.sub(r"\.(norm|conv)\.([12])\.", r".\1\2.", key): value for key, value in state.items()}
    needed = {key for key in wanted if not key.endswith(_COUNTER)}
    foreign = [key for key in weights if key not in wanted and not key.startswith((f"{last}.", *_AUXILIARY))]
    other = [key for key in needed & weights.keys() if weights[key].shape != wanted[key].shape]
    for keys, fault in ((needed - weights.keys(), "missing"), (foreign, "unknown to it"), (other, "of another shape")):
        if keys:
            raise DataError(
                f"{source}: not the weights of a {name}: {len(keys)} tensors are {fault}, e.g. {min(keys)}; "
                "name the architecture that they are of with --backbone"
            )
    network.load_state_dict({key: value for key, value in weights.items() if key in wanted}, strict=False)
