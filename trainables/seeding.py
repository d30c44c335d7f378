"""Randomness, and the device of a trial: every random number is a function of a seed and of the number's purpose.

Each purpose has its own random stream. So the batch order of epoch 7 is the same whether epochs 1 to 6 were trained in
this process, in another process, or before a crash. A resumed trial needs no saved generator.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

from trainables.config import derive_seed
from trainables.errors import ConfigError


def generator(seed: int, *purpose: str | int) -> torch.Generator:
    """Return a CPU generator for one purpose; drawing on the CPU gives the same batches on every device."""
    return torch.Generator().manual_seed(derive_seed(seed, *purpose))


def seed_torch(seed: int, *purpose: str | int) -> None:
    """Seed torch's global generators, from which initialisation and sampled losses (WARP) draw."""
    torch.manual_seed(derive_seed(seed, *purpose))


def make_deterministic(device: torch.device) -> None:
    """Let a GPU use deterministic kernels only; CPU kernels are deterministic for a fixed number of threads."""
    _compute_in_full(device)
    if device.type == "cuda":
        # cuBLAS reads this variable when its first handle is made, and needs it for deterministic mode.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
        # Filling fresh memory helps to find bugs, but costs time and changes no result.
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def _compute_in_full(device: torch.device) -> None:
    """Let a GPU compute float32 in full, so that a model has the same scores in training, evaluation and queries."""
    if device.type == "cuda":
        # cuDNN's default, and an environment variable of NVIDIA's images, would round factors to the 10 bits of TF32.
        # PyTorch's newer settings would make ``torch.backends.cudnn.flags`` raise in the code of others.
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cuda.matmul.allow_tf32 = False


class RandomStream:
    """The random numbers of a device's generator after ``seed_torch``, independent of draws by other code in between.

    A ``with`` block around draws continues the stream where the last block ended.

    For ``seed`` and ``purpose`` see ``derive_seed``.
    """

    def __init__(self, device: torch.device, seed: int, *purpose: str | int) -> None:
        self._device = device
        self._state: torch.Tensor | None = None
        with self:
            seed_torch(seed, *purpose)

    def __enter__(self) -> None:
        self._outer = random_state(self._device)
        if self._state is not None:
            set_random_state(self._device, self._state)

    def __exit__(self, *exc: object) -> None:
        self._state = random_state(self._device)
        set_random_state(self._device, self._outer)


def random_state(device: torch.device) -> torch.Tensor:
    """Return the state of a device's generator."""
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def set_random_state(device: torch.device, state: torch.Tensor) -> None:
    """Put the generator of a device into a state of ``random_state``."""
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)


def reading_beside(device: torch.device) -> Callable[[], AbstractContextManager[object]]:
    """Return a maker of contexts in which tensors of this moment are read while the device computes what comes after.

    On a GPU these are streams of their own, which wait for what has been asked of the GPU so far.
    """
    if device.type != "cuda":
        return nullcontext
    now = torch.cuda.current_stream(device).record_event()

    @contextmanager
    def beside() -> Iterator[None]:
        with torch.cuda.stream(torch.cuda.Stream(device)):
            torch.cuda.current_stream(device).wait_event(now)
            yield

    return beside


def choose_device(name: str = "auto") -> torch.device:
    """Return the device with a name; ``auto`` is a GPU if this machine has a GPU, else the CPU.

    From then on a GPU computes float32 in full in this process.

    Raises:
        ConfigError: If the name is no device, or this machine lacks the device.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"--device must be auto, cpu, cuda or cuda:N, got {name!r}") from None
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"--device must be auto, cpu, cuda or cuda:N, got {name!r}")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(f"--device {name}: this machine has {torch.cuda.device_count()} GPUs; use --device cpu")
    _compute_in_full(device)
    return device
