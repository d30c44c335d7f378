"""The precision in which a model computes: float32, or mixed precision with bfloat16.

In mixed precision, matrix products and convolutions run in bf16; weights, optimiser, GRUs, lengths of vectors,
similarities and losses stay float32. GRUs are excluded, because autocast would run cuDNN's GRU in float16, which would
need scaled gradients.
"""

from contextlib import AbstractContextManager

import torch
from torch import Tensor

from trainables.config import Precision


def computing(precision: Precision, device: torch.device) -> AbstractContextManager[None]:
    """Return the context in which a model computes its vectors on a device; ``auto`` is bf16 on a GPU that has it."""
    has_bf16 = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    is_low = precision == "bf16" or (precision == "auto" and has_bf16)
    return torch.autocast(device.type, torch.bfloat16, enabled=is_low)


def computing_in_full(device: torch.device) -> AbstractContextManager[None]:
    """Return a context in which autocast is off, for computations that are always float32."""
    return torch.autocast(device.type, enabled=False)


def in_full(values: Tensor) -> Tensor:
    """Return values as float32; values of higher precision are returned as they are."""
    return values.to(torch.promote_types(values.dtype, torch.float32))
