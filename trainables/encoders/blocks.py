"""The part of a pretrained encoder that is trained: all of it, its last blocks, or adapters of low rank (LoRA).

The blocks of a tower are its longest list of modules with attention. With the last n blocks of each tower, what comes
after them is trained too: last norms and projections. LoRA [Hu2022] adds B A x alpha / r to the linear maps W x of all
blocks, of attention and perceptrons. A is (r, D) and drawn at random, B is (E, r) and 0 at first, so that training
begins with the encoder as it is. Only A and B are trained. They are those of the package ``peft``.

References:
    [Hu2022] Hu et al., LoRA: Low-Rank Adaptation of Large Language Models, section 4.1. arXiv:2106.09685
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from trainables.encoders.pretrained import NoEncoderError, offline
from trainables.extras import require

Part = Literal["whole", "blocks", "lora", "none"]

_BEFORE_BLOCKS = ("embed", "conv1", "bn1", "ln_pre", "pre_layrnorm", "norm_pre", "cls_token", "reg_token")
"""Parts of the names of parameters that a tower uses before its first block."""

_OF_LOSS = ("logit_scale", "logit_bias")
"""Parameters that belong to the loss with which an encoder was trained."""


def open_part(network: nn.Module, part: Part, *, blocks: int, rank: int, alpha: float) -> dict[str, nn.Parameter]:
    """Let the gradient flow to a part of a frozen network, and return the part's parameters by their names.

    Args:
        network: An encoder of pictures and captions; with ``lora`` its linear maps are replaced.
        part: ``whole``, ``blocks``, ``lora`` or ``none``.
        blocks: Number of last blocks of each tower, >= 1.
        rank: r, >= 1.
        alpha: Scale of LoRA, > 0; the adapters are scaled by alpha / r.

    Raises:
        NoEncoderError: If a tower has no blocks with attention, or fewer than asked for.
        MissingExtraError: If ``peft`` is not installed.
    """
    if part in ("lora", "none"):
        # Both compute attention alike, so that an encoder with new adapters equals the encoder to the last bit.
        _split_attention(network)
    if part == "lora":
        _add_adapters(network, rank, alpha)
    is_trained = _CHOICES[part](network, blocks)
    chosen = {name: parameter for name, parameter in network.named_parameters() if is_trained(name)}
    for parameter in chosen.values():
        parameter.requires_grad_(True)
    return chosen


def _choose_whole(network: nn.Module, count: int) -> Callable[[str], bool]:
    return lambda name: not name.endswith(_OF_LOSS)


def _choose_blocks(network: nn.Module, count: int) -> Callable[[str], bool]:
    lists = _block_lists(network)
    for name, members in lists.items():
        if count > len(members):
            raise NoEncoderError(
                f"model_parameters.blocks: {name} has {len(members)} blocks, got {count}; choose at most "
                f"{min(map(len, lists.values()))}"
            )
    last = tuple(
        f"{name}.{place}." for name, members in lists.items() for place in range(len(members) - count, len(members))
    )
    others = tuple(f"{name}." for name in lists)

    def is_trained(name: str) -> bool:
        is_after = not name.startswith(others) and not any(part in name for part in _BEFORE_BLOCKS)
        return name.startswith(last) or (is_after and not name.endswith(_OF_LOSS))

    return is_trained


def _choose_adapters(network: nn.Module, count: int) -> Callable[[str], bool]:
    return lambda name: ".lora_" in name


_CHOICES: Mapping[Part, Callable[[nn.Module, int], Callable[[str], bool]]] = {
    "whole": _choose_whole,
    "blocks": _choose_blocks,
    "lora": _choose_adapters,
    "none": lambda network, count: lambda name: False,
}


def _block_lists(network: nn.Module) -> dict[str, nn.ModuleList | nn.Sequential]:
    """Return the name and the list of the blocks of each tower (``NoEncoderError`` unless there are two)."""
    lists = {
        name: module
        for name, module in network.named_modules()
        if isinstance(module, nn.ModuleList | nn.Sequential) and len(module) and all(map(_has_attention, module))
    }
    if len(lists) != 2:
        raise NoEncoderError(
            f"model_parameters.trained: {len(lists)} towers of the encoder have blocks with attention, where 2 are "
            "needed; train the whole encoder"
        )
    return lists


def _has_attention(block: nn.Module) -> bool:
    return any(name in ("attn", "self_attn") for name, _ in block.named_children())


def _add_adapters(network: nn.Module, rank: int, alpha: float) -> None:
    require("encoders", "trained: lora", "peft")
    with offline():
        from peft import LoraConfig, inject_adapter_in_model

    linear_maps = [
        f"{name}.{inner}"
        for name, members in _block_lists(network).items()
        for inner, module in members.named_modules()
        if isinstance(module, nn.Linear)
    ]
    config = LoraConfig(r=rank, lora_alpha=alpha, lora_dropout=0.0, bias="none", target_modules=linear_maps)
    inject_adapter_in_model(config, network)
    network.requires_grad_(False)


class SplitAttention(nn.Module):
    """Torch's ``nn.MultiheadAttention`` of equal sizes with its projections as linear maps, which adapters can join.

    ``peft`` would adapt the original by adding the adapters to its weights before, and subtracting them after each
    step. Rounding would then change the frozen weights a little in every step.
    """

    def __init__(self, original: nn.MultiheadAttention) -> None:
        """Take the weights over."""
        super().__init__()
        assert original.in_proj_weight is not None
        size = original.embed_dim
        self.heads, self.dropout, self.batch_first = original.num_heads, original.dropout, original.batch_first
        self.in_proj = nn.Linear(size, 3 * size, bias=original.in_proj_bias is not None)
        self.in_proj.weight = original.in_proj_weight
        if original.in_proj_bias is not None:
            self.in_proj.bias = original.in_proj_bias
        self.out_proj = nn.Linear(size, size, bias=original.out_proj.bias is not None)
        self.out_proj.weight, self.out_proj.bias = original.out_proj.weight, original.out_proj.bias

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, need_weights: bool = False, attn_mask: Tensor | None = None
    ) -> tuple[Tensor, None]:
        """Attend from a sequence to itself, (N, T, E), or (T, N, E) without ``batch_first``; no weights are returned.

        The mask (T, T) is added to the products; of a bool mask, True is left out.
        """
        vectors = query if self.batch_first else query.transpose(0, 1)
        parts = self.in_proj(vectors).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        queries, keys, values = parts.unbind()
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            attn_mask = ~attn_mask
        dropped = self.dropout if self.training else 0.0
        attended = scaled_dot_product_attention(queries, keys, values, attn_mask=attn_mask, dropout_p=dropped)
        joined = self.out_proj(attended.transpose(1, 2).flatten(2))
        return joined if self.batch_first else joined.transpose(0, 1), None


def _split_attention(network: nn.Module) -> None:
    """Put ``SplitAttention`` in the place of each attention of torch within a block."""

    def can_split(module: nn.Module) -> bool:
        return isinstance(module, nn.MultiheadAttention) and module.in_proj_weight is not None

    for block in [module for module in network.modules() if _has_attention(module)]:
        attention: Any = getattr(block, "attn", None)
        if can_split(attention):
            block.attn = SplitAttention(attention)
