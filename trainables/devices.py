"""The device on which a trial runs."""

import torch

from trainables.errors import ConfigError


def choose_device(name: str = "auto") -> torch.device:
    """Return the device with a name; ``auto`` is a GPU if this machine has a GPU, else the CPU.

    Raises:
        ConfigError: If the name is no device, or this machine lacks the device.
    """
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
