"""The contract of a loss, ours or a plug-in's: each check says what is wrong, and what usually causes it.

Checks call a loss on small batches in float64: pairs, several captions an image, several positives both ways. A loss
that draws random numbers is always called after the same seed, and may depend on the order of the batch.
"""

import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from trainables.contracts import BrokenError, ContractFinding, PerhapsMeantError, run_checks
from trainables.errors import PluginError, reason_of
from trainables.losses import Loss, build_loss
from trainables.losses.parameters import loss_shape, stack_losses
from trainables.model_parameters import MODEL_TABLE

STEP = 1e-5
"""Step of finite differences, in units of similarity."""

TOLERANCE = 1e-4
"""Largest difference of gradients, relative to the largest gradient of the batch."""


def check_loss(name: str, points: list[Mapping[str, Any]]) -> Iterator[ContractFinding]:
    """Return a finding for each check of a loss.

    At the ``points``, parameters such as the ends of the search space, the loss must be finite.
    """
    return run_checks(CHECKS, name, points)


def _eye(size: int) -> Tensor:
    return torch.eye(size, dtype=torch.bool)


BATCHES = {
    "5 pairs": _eye(5),
    "3 images with 3 captions each": _eye(3).repeat_interleave(3, 1),
    "4 images that share captions": _eye(4) | _eye(4).roll(1, 1),
}
"""Description of a batch -> its positives."""


def _scores(positives: Tensor, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(positives.shape, generator=generator, dtype=torch.float64) * 1.8 - 0.9


def _value(loss: Loss, similarity: Tensor, positives: Tensor, ignore: Tensor | None = None) -> Tensor:
    torch.manual_seed(7)
    return loss(similarity, positives, ignore)


def _gradient(loss: Loss, similarity: Tensor, positives: Tensor, ignore: Tensor | None = None) -> Tensor:
    leaf = similarity.clone().requires_grad_()
    value = _value(loss, leaf, positives, ignore)
    try:
        return torch.autograd.grad(value.sum(), leaf)[0]
    except RuntimeError as error:
        said = f"the gradient cannot be computed: {reason_of(error)}; change no tensor in place"
        raise BrokenError(said) from None


def _is_random(loss: Loss) -> bool:
    positives = BATCHES["5 pairs"]
    values = []
    for seed in range(5):
        torch.manual_seed(seed)
        values.append(float(loss(_scores(positives), positives)))
    return len(set(values)) > 1


def _check_value(name: str, points: list[Mapping[str, Any]]) -> None:
    for parameters in ({}, *points):
        loss = build_loss(name, **parameters)
        for words, positives in BATCHES.items():
            try:
                value = _value(loss, _scores(positives), positives)
            except PluginError as error:
                raise BrokenError(f"{error} (with {_shown(loss)})") from None
            if not value.isfinite():
                raise BrokenError(f"the value is {float(value)} for {words} with {_shown(loss)}; {LOGS}")


def _check_gradient(name: str, points: list[Mapping[str, Any]]) -> None:
    loss = build_loss(name)
    for words, positives in BATCHES.items():
        similarity = _scores(positives)
        gradient = _gradient(loss, similarity, positives)
        numeric = _differences(loss, similarity, positives)
        wrong = (gradient - numeric).abs()
        if not bool(wrong.max() <= TOLERANCE * numeric.abs().max().clamp(min=1e-3)):
            image, caption = divmod(int(wrong.nan_to_num(torch.inf).argmax()), positives.shape[1])
            raise BrokenError(
                f"for {words}, image {image} and caption {caption}, autograd says "
                f"{float(gradient[image, caption]):.4g}, finite differences say {float(numeric[image, caption]):.4g}: "
                f"the loss detaches, rounds or compares similarity, or changes a value that it uses again"
            )


def _check_order(name: str, points: list[Mapping[str, Any]]) -> None:
    loss = build_loss(name)
    if _is_random(loss):
        return
    for words, positives in BATCHES.items():
        similarity, ignore = _scores(positives), (_scores(positives, 1) > 0.5) & ~positives
        generator = torch.Generator().manual_seed(2)
        rows, columns = (torch.randperm(size, generator=generator) for size in positives.shape)
        moved = (matrix[rows][:, columns] for matrix in (similarity, positives, ignore))
        _same(
            _value(loss, similarity, positives, ignore),
            _value(loss, *moved),
            f"the value of {words} depends on their order; use positives, not the diagonal: with random pairs the "
            f"positives are wherever positives says",
        )


def _check_transpose(name: str, points: list[Mapping[str, Any]]) -> None:
    loss = build_loss(name)
    if _is_random(loss):
        return
    for words, positives in BATCHES.items():
        similarity = _scores(positives)
        first, second = _value(loss, similarity, positives), _value(loss, similarity.mT, positives.mT)
        if not torch.allclose(first, second, rtol=1e-6, atol=1e-9):
            raise PerhapsMeantError(
                f"with images and captions swapped the value of {words} is {float(second):.6g} instead of "
                f"{float(first):.6g}: the loss treats the two directions differently; if unwanted, average it with "
                f"the loss of similarity.T"
            )


def _check_ties(name: str, points: list[Mapping[str, Any]]) -> None:
    loss = build_loss(name)
    for words, positives in {**BATCHES, "images without negatives": torch.ones(2, 3, dtype=torch.bool)}.items():
        for score in (1.0, -1.0, 0.0):
            similarity = torch.full(positives.shape, score, dtype=torch.float64)
            for quantity, tensor in (
                ("value", _value(loss, similarity, positives)),
                ("gradient", _gradient(loss, similarity, positives)),
            ):
                if not tensor.isfinite().all():
                    raise BrokenError(
                        f"the {quantity} is not finite for {words} where all similarities are {score:g}; {LOGS}"
                    )


def _check_range(name: str, points: list[Mapping[str, Any]]) -> None:
    loss = build_loss(name)
    for words, positives in BATCHES.items():
        similarity = 4 * _scores(positives)
        value, gradient = _value(loss, similarity, positives), _gradient(loss, similarity, positives)
        if not (value.isfinite() and gradient.isfinite().all()):
            raise PerhapsMeantError(
                f"value or gradient is not finite for {words} with similarities outside [-1, 1]: the loss "
                f"needs cosines; clamp the similarities, or leave out the models of others: {_UNBOUNDED}"
            )


def _check_batch_of_two(name: str, points: list[Mapping[str, Any]]) -> None:
    loss = build_loss(name)
    for positives in (_eye(2), _eye(2)[[1, 0]], _eye(2).repeat_interleave(2, 1)):
        if not _gradient(loss, _scores(positives), positives).isfinite().all():
            raise BrokenError(f"the gradient of a batch of {tuple(positives.shape)} is not finite; {LOGS}")


def _check_pickling(name: str, points: list[Mapping[str, Any]]) -> None:
    for parameters in ({}, *points):
        loss = build_loss(name, **parameters)
        try:
            hash(loss)
            again = pickle.loads(pickle.dumps(loss))  # noqa: S301  # its own bytes
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            raise BrokenError(f"{type(error).__name__}: {error}; write a frozen dataclass of plain values") from None
        if again != loss:
            raise BrokenError(f"{loss!r} comes back as {again!r}: its parameters are no plain values")


def _check_stacking(name: str, points: list[Mapping[str, Any]]) -> None:
    default = build_loss(name)
    alike = [build_loss(name, **point) for point in points]
    losses = [default, *(loss for loss in alike if loss_shape(loss) == loss_shape(default))]
    stacked = stack_losses(losses, torch.device("cpu"))
    for words, positives in BATCHES.items():
        similarity = torch.stack([_scores(positives, seed) for seed in range(len(losses))])
        together = _value(stacked, similarity, positives)
        gradients = _gradient(stacked, similarity, positives)
        for place, loss in enumerate(losses):
            cause = f"{words} with {_shown(loss)} beside others: remove vectorised=True, or take leading dimensions"
            _same(_value(loss, similarity[place], positives), together[place], f"the value changes for {cause}")
            _same(_gradient(loss, similarity[place], positives), gradients[place], f"the gradient changes for {cause}")


def _check_ignored(name: str, points: list[Mapping[str, Any]]) -> None:
    loss = build_loss(name)
    for words, positives in BATCHES.items():
        ignore = ~positives & (torch.arange(positives.shape[1]) == 0)
        ignore[1:] &= False
        ignore = ignore if ignore.any() else ~positives & (torch.cumsum(~positives, 1) == 1)
        similarity = _scores(positives)
        cause = (
            f"an ignored pair of {words} {{}}: leave out the pairs of ignore, which are neither positive nor negative"
        )
        if bool((_gradient(loss, similarity, positives, ignore)[ignore].abs() > 1e-9).any()):
            raise BrokenError(cause.format("has a gradient"))
        changed = torch.where(ignore, similarity + 0.05, similarity)
        if not _is_random(loss):
            _same(
                _value(loss, similarity, positives, ignore),
                _value(loss, changed, positives, ignore),
                cause.format("changes the value"),
            )


_UNBOUNDED = ", ".join(name for name, entry in MODEL_TABLE.items() if not entry.is_bounded({}))
"""Models whose similarities are no cosines."""

Points = list[Mapping[str, Any]]

CHECKS: Mapping[str, tuple[Callable[[str, Points], None], str]] = {
    "value": (
        _check_value,
        "a finite scalar on pairs, on several captions an image, and at the ends of the search space",
    ),
    "gradient": (_check_gradient, "autograd agrees with finite differences"),
    "permutation": (_check_order, "the order of images and captions in the batch does not matter"),
    "transpose": (_check_transpose, "images and captions have the same role"),
    "ties": (_check_ties, "value and gradient are finite where all similarities are 1, all -1 or all 0"),
    "range": (_check_range, f"value and gradient are finite outside [-1, 1] too, as similarities of {_UNBOUNDED} are"),
    "batches of two": (_check_batch_of_two, "the last batch of an epoch may be as small"),
    "pickling": (_check_pickling, "a loss is a value that survives the way to another process"),
    "stacking": (_check_stacking, "trials that are trained together get the same values as alone"),
    "ignore": (_check_ignored, "an ignored pair has no gradient, and its similarity no influence"),
}
"""Name of a check -> the check, and the statement that it proves."""

LOGS = "logarithms, divisions and roots need a bound away from 0, exponentials one above (logsumexp, softplus)"


def _same(first: Tensor, second: Tensor, otherwise: str) -> None:
    if not torch.allclose(first, second, rtol=1e-6, atol=1e-9):
        wrong = (first - second).abs().max()
        raise BrokenError(f"{otherwise} (they differ by {float(wrong):.3g})")


def _differences(loss: Loss, similarity: Tensor, positives: Tensor) -> Tensor:
    """Return the gradient by central differences."""
    gradient = torch.zeros_like(similarity)
    for place in range(similarity.numel()):
        step = torch.zeros_like(similarity).flatten()
        step[place] = STEP
        step = step.view_as(similarity)
        rise = _value(loss, similarity + step, positives) - _value(loss, similarity - step, positives)
        gradient.view(-1)[place] = rise / (2 * STEP)
    return gradient


def _shown(loss: Loss) -> str:
    made: Any = loss
    values = ", ".join(f"{field.name}={getattr(loss, field.name)!r}" for field in fields(made))
    return values or "no parameters"
