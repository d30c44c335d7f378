"""Randomness, and the device of a trial: every random number is a function of a seed and of the number's purpose.

Each purpose has its own random stream: the batch order of epoch 7 does not depend on whether epochs 1 to 6 were trained
in this process, in another process, or before a crash, so a resumed trial needs no saved generator. Torch is imported
only to be seeded, because this module also draws the seeds of a search, which can be refused or shown without torch.
"""

import hashlib
import os
from typing import TYPE_CHECKING

from trainables.errors import ConfigError

if TYPE_CHECKING:
    import torch


def derive_seed(seed: int, *purpose: str | int, bits: int = 63) -> int:
    """Return a seed in [0, 2**bits) for a purpose, e.g. ``derive_seed(0, "batches", 7)``; equal on all machines."""
    digest = hashlib.sha256("/".join(map(str, (seed, *purpose))).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> (64 - bits)


def generator(seed: int, *purpose: str | int) -> "torch.Generator":
    """Return a CPU generator for one purpose; drawing on the CPU gives the same batches on every device."""
    import torch

    return torch.Generator().manual_seed(derive_seed(seed, *purpose))


def seed_torch(seed: int, *purpose: str | int) -> None:
    """Seed torch's global generators, from which initialisation and sampled losses (WARP) draw."""
    import torch

    torch.manual_seed(derive_seed(seed, *purpose))


def make_deterministic(device: "torch.device") -> None:
    """Let a GPU use deterministic kernels only; CPU kernels are deterministic for a fixed number of threads."""
    import torch

    if device.type == "cuda":
        # cuBLAS reads this variable when its first handle is made, and needs it for deterministic mode.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
        # Filling fresh memory helps to find bugs, but costs time and changes no result.
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


class RandomStream:
    """The random numbers of a device's generator after ``seed_torch``, independent of draws by other code in between.

    A ``with`` block around draws continues the stream where the last block ended.

    For ``seed`` and ``purpose`` see ``derive_seed``.
    """

    def __init__(self, device: "torch.device", seed: int, *purpose: str | int) -> None:
        self._device = device
        self._state: torch.Tensor | None = None
        with self:
            seed_torch(seed, *purpose)

    def __enter__(self) -> None:
        self._outer = self._get()
        if self._state is not None:
            self._set(self._state)

    def __exit__(self, *exc: object) -> None:
        self._state = self._get()
        self._set(self._outer)

    def _get(self) -> "torch.Tensor":
        import torch

        return torch.cuda.get_rng_state(self._device) if self._device.type == "cuda" else torch.get_rng_state()

    def _set(self, state: "torch.Tensor") -> None:
        import torch

        if self._device.type == "cuda":
            torch.cuda.set_rng_state(state, self._device)
        else:
            torch.set_rng_state(state)


def choose_device(name: str = "auto") -> "torch.device":
    """Return the device with a name; ``auto`` is a GPU if this machine has a GPU, else the CPU.

    Raises:
        ConfigError: If the name is no device, or this machine lacks the device.
    """
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"--device must be auto, cpu, cuda or cuda:N, got {name!r}") from None
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"--device must be auto, cpu, cuda or cuda:N, got {name!r}")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(f"--device {name}: this machine has {torch.cuda.device_count()} GPUs; use --device cpu")
    return device
