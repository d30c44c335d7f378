"""The last state, or all states, of a GRU over captions of different lengths, for one model or K stacked models.

With r, z, n the reset gate, update gate and candidate, and h the state [Cho2014], in PyTorch's parametrisation:

    r = sigmoid(W_r x + b_r + U_r h + c_r)      n = tanh(W_n x + b_n + r * (U_n h + c_n))
    z = sigmoid(W_z x + b_z + U_z h + c_z)      h' = (1 - z) * n + z * h

One model on a GPU uses cuDNN's packed GRU. PyTorch's packed GRU is slow on a CPU, where half of its time is overhead,
and does not support stacked models. In both cases this module computes the recurrence itself. Captions are sorted by
length, so that each step is one (batched) matrix product over the captions that still have a token. The backward pass
computes the gradient of U in one product at the end. On a CPU W x is computed once for each distinct word of the batch
instead of once for each token.

Stacked models have their own captions each, or share captions. A step takes equally many rows of each model, as many as
any model needs. States beyond the end of a caption are never read and get no gradient.

References:
    [Cho2014] Cho et al., Learning Phrase Representations using RNN Encoder-Decoder, eq. 5-8. arXiv:1406.1078
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding
from torch.nn.utils.rnn import PackedSequence

from trainables.models.retrieval_model import affine


def final_states(words: nn.Embedding, gru: nn.GRU, tokens: Tensor, lengths: Tensor) -> Tensor:
    """Return the state of a one-layer, left-to-right GRU after each caption's last token.

    Args:
        words: Word embeddings, (V, W), or stacked, (K, V, W).
        gru: The GRU's parameters, from W to H; stacked where the words are.
        tokens: Word ids, shape (C, T), int64; ids after a caption's end are not read. For stacked parameters
            (K, C, T), or (1, C, T) where all models share the captions.
        lengths: Tokens of each caption, shape (C,), (K, C) or (1, C), int64 on the CPU, in [1, T].

    Returns:
        States, shape (C, H) or (K, C, H).
    """
    is_stacked = words.weight.dim() == 3
    if not is_stacked and tokens.device.type != "cpu":
        return gru(_packed(words, tokens, lengths))[1][0]
    parameters = [words.weight, *gru.parameters()]
    if not is_stacked:
        parameters, tokens, lengths = [part[None] for part in parameters], tokens[None], lengths[None]
    # The order has a row where all models share the captions, else K rows.
    order, _, (states, _) = _run(parameters, tokens, lengths, keep_all=False)
    back = order.argsort(dim=-1)[..., None]
    states = states.gather(1, back.expand(len(parameters[0]), -1, states.shape[-1]))
    return states if is_stacked else states[0]


def _packed(words: nn.Embedding, tokens: Tensor, lengths: Tensor) -> PackedSequence:
    """Return the words of captions in cuDNN's order: all first tokens, the longest caption first, then all second ones.

    PyTorch's ``pack_padded_sequence`` waits for the GPU in each step, and its backward pass copies each place alone.
    """
    ordered, order = lengths.sort(descending=True, stable=True)
    inside = torch.arange(int(ordered[0]))[:, None] < ordered
    place, row = inside.nonzero(as_tuple=True)
    # Not waiting for the GPU is safe, because the data of these unpinned tensors are read before the calls return.
    index, order, back = (
        part.to(tokens.device, non_blocking=True)
        for part in (order[row] * tokens.shape[1] + place, order, order.argsort())
    )
    return PackedSequence(words(tokens.flatten()[index]), inside.sum(1), order, back)


def last_state(gru: nn.GRU, inputs: Tensor) -> Tensor:
    """Return the state of a one-layer, left-to-right GRU after sequences of one length, (N, T, W), shape (N, H).

    With stacked parameters, map (K, N, T, W) to (K, N, H).
    """
    if inputs.dim() == 3:
        state: Tensor = gru(inputs)[1][0]
        return state
    input_weight, weight, input_bias, bias = gru.parameters()
    rows, length = inputs.shape[1:3]
    steps = [_Step(rows, rows, None)] * (length - 1) + [_Step(rows, 0, None)]
    projected = affine(inputs.transpose(1, 2).flatten(1, 2), input_weight, input_bias)
    states: Tensor = _Recurrence.apply(projected, weight, bias, steps, torch.is_grad_enabled(), False)[0]
    return states


def all_states(table: Tensor, gru: nn.GRU, tokens: Tensor, lengths: Tensor) -> Tensor:
    """Return the states of a one-layer, bidirectional GRU at each token: the mean of both directions.

    Args:
        table: The vector of each token id, (V, W), or stacked, (K, V, W).
        gru: The GRU's parameters, from W to H in each direction; stacked where the table is.
        tokens: Ids, shape (C, T), or (K, C, T) or (1, C, T) for stacked parameters, as in ``final_states``.
        lengths: Tokens of each sequence, shape (C,), (K, C) or (1, C), int64 on the CPU, in [1, T].

    Returns:
        States, shape (C, T, H) or (K, C, T, H); 0 after the end of a sequence.
    """
    parameters: list[Tensor] = list(gru.parameters())
    is_stacked = table.dim() == 3
    if not is_stacked:
        parameters = [part[None] for part in parameters]
        table, tokens, lengths = table[None], tokens[None], lengths[None]
    places = torch.arange(tokens.shape[-1], device=tokens.device)
    last = lengths.to(tokens.device, non_blocking=True)[..., None] - 1
    mirrored = torch.where(places <= last, last - places, places)
    forward = _states_in_order([table, *parameters[:4]], tokens, lengths)
    backward = _states_in_order([table, *parameters[4:]], tokens.gather(-1, mirrored), lengths)
    back = mirrored[..., None].expand(len(backward), -1, -1, backward.shape[-1])
    states = (forward + backward.gather(2, back)) / 2
    return states if is_stacked else states[0]


class _Step(NamedTuple):
    """One step: one token of each caption that still has a token."""

    rows: int
    """Number of captions, sorted by length, that the step takes."""
    first: int
    """The first caption that ends with this step, in any of the models."""
    ends: Tensor | None
    """Which captions from ``first`` on end here, shape (K, rows - first, 1), bool; ``None`` where all of them do."""


def _states_in_order(parameters: list[Tensor], tokens: Tensor, lengths: Tensor) -> Tensor:
    """Return the state after each token, (K, C, T, H), of a GRU that reads from left to right; 0 after the end."""
    order, steps, (_, states) = _run(parameters, tokens, lengths, keep_all=True)
    times = torch.arange(tokens.shape[-1], device=tokens.device)
    rows = torch.tensor([step.rows for step in steps]).to(tokens.device, non_blocking=True)
    firsts = torch.zeros_like(times)
    firsts[: len(rows)] = rows.cumsum(0) - rows
    inside = times < lengths.to(tokens.device, non_blocking=True)[..., None]
    where = (firsts + order.argsort(dim=-1)[..., None]) * inside
    index = where.flatten(1)[..., None].expand(len(parameters[0]), -1, states.shape[-1])
    return states.gather(1, index).unflatten(1, where.shape[1:]) * inside[..., None]


def _run(
    parameters: list[Tensor], tokens: Tensor, lengths: Tensor, *, keep_all: bool
) -> tuple[Tensor, list[_Step], tuple[Tensor, Tensor]]:
    """Return the order of the captions, longest first, (G, C), the steps, and the result of ``_Recurrence``."""
    words, input_weight, weight, input_bias, bias = parameters
    device = tokens.device
    order = lengths.argsort(dim=-1, descending=True, stable=True)
    ordered = lengths.gather(-1, order)
    steps = _plan(ordered, device)
    # Rows of all steps one after the other: the captions with a first token, then those with a second, and so on.
    places = torch.cat([torch.arange(step.rows) * tokens.shape[-1] + t for t, step in enumerate(steps)])
    # Not waiting for the GPU is safe, because the data of these unpinned tensors are read before the calls return.
    order, places = order.to(device, non_blocking=True), places.to(device, non_blocking=True)
    by_length = tokens.gather(1, order[..., None].expand_as(tokens))
    ids = by_length.flatten(1)[:, places]
    if device.type == "cpu":
        distinct, place = _distinct(ids, words.shape[1])
        inputs = _look_up(affine(_look_up(words, distinct), input_weight, input_bias), place)
    else:
        inputs = affine(_look_up(words, ids), input_weight, input_bias)
    return order, steps, _Recurrence.apply(inputs, weight, bias, steps, torch.is_grad_enabled(), keep_all)


def _plan(lengths: Tensor, device: torch.device) -> list[_Step]:
    """Return the steps over captions with the given lengths, (G, C), longest first, on the CPU."""
    times = torch.arange(int(lengths.max()) + 1)
    counts = (lengths[:, None, :] > times[:, None]).sum(-1)
    rows, fewest = counts.amax(0).tolist(), counts.amin(0).tolist()
    agree = rows == fewest
    there = lengths.to(device, non_blocking=True)
    steps = []
    for t in range(len(rows) - 1):
        first = fewest[t + 1]
        ends = None if agree else there[:, first : rows[t], None] == t + 1
        steps.append(_Step(rows[t], first, ends))
    return steps


def _look_up(tables: Tensor, rows: Tensor) -> Tensor:
    """Return rows (G, N) of tables (K, V, W), shape (K, N, W)."""
    offsets = torch.arange(len(tables), device=rows.device)[:, None] * tables.shape[1]
    return embedding(rows + offsets, tables.flatten(0, 1))


def _distinct(ids: Tensor, words: int) -> tuple[Tensor, Tensor]:
    """Return the distinct ids of each row, (G, U), padded with 0, and the index of each id among them, (G, N)."""
    groups = len(ids)
    keys, place = (ids + torch.arange(groups)[:, None] * words).unique(return_inverse=True)
    counts = torch.bincount(keys // words, minlength=groups)
    firsts = counts.cumsum(0) - counts
    if groups == 1:
        return keys[None], place
    distinct = torch.zeros(groups, int(counts.max()), dtype=ids.dtype)
    group = keys // words
    distinct[group, torch.arange(len(keys)) - firsts[group]] = keys % words
    return distinct, place - firsts[:, None]


class _Recurrence(torch.autograd.Function):
    """The steps of K GRUs over packed inputs: rows of step 0 first, and in each step the longest caption first."""

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor, steps: list[_Step], with_grad: bool, keep_all: bool
    ) -> tuple[Tensor, Tensor]:
        """Return final states (K, C, H), and those after each step, (K, sum of rows, H), if ``keep_all``, else none.

        ``inputs`` are W x + b, (K, sum of rows, 3H), ordered r, z, n; ``weight`` is U, (K, 3H, H), ``bias`` c, (K, 3H).
        """
        width = weight.shape[-1]
        state = inputs.new_zeros(len(weight), steps[0].rows, width)
        final = torch.empty_like(state)
        kept, after = [], [state[:, :0]]
        for step, x in zip(steps, inputs.split([step.rows for step in steps], dim=1), strict=True):
            state = state[:, : step.rows]
            hidden = torch.baddbmm(bias[:, None], state, weight.mT)
            gates = (x[..., : 2 * width] + hidden[..., : 2 * width]).sigmoid_()
            reset, update = gates[..., :width], gates[..., width:]
            recalled = hidden[..., 2 * width :]
            candidate = torch.addcmul(x[..., 2 * width :], reset, recalled).tanh_()
            if with_grad:
                kept.append((state, reset, update, candidate, recalled))
            state = torch.lerp(candidate, state, update)
            ended = slice(step.first, step.rows)
            final[:, ended] = (
                state[:, ended] if step.ends is None else torch.where(step.ends, state[:, ended], final[:, ended])
            )
            if keep_all:
                after.append(state)
        ctx.steps, ctx.kept, ctx.keep_all = steps, kept, keep_all
        ctx.save_for_backward(weight)
        return final, torch.cat(after, dim=1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None, None]:
        """Go backwards through the steps; one product at the end sums the gradient of U over all steps."""
        final_gradient, all_gradients = gradients
        (weight,) = ctx.saved_tensors
        width, sizes = weight.shape[-1], [step.rows for step in ctx.steps]
        input_gradient = final_gradient.new_empty(len(weight), sum(sizes), 3 * width)
        hidden_gradient = torch.empty_like(input_gradient)
        state_gradient = final_gradient[:, :0]
        of_steps = all_gradients.split(sizes, 1) if ctx.keep_all else [None] * len(sizes)
        parts = (input_gradient.split(sizes, 1), hidden_gradient.split(sizes, 1), ctx.kept, of_steps)
        for step, for_input, for_hidden, kept, of_step in reversed(list(zip(ctx.steps, *parts, strict=True))):
            state, reset, update, candidate, recalled = kept
            state_gradient = _join(state_gradient, final_gradient, step)
            if of_step is not None:
                state_gradient = state_gradient + of_step
            for_candidate = state_gradient * (1 - update) * (1 - candidate * candidate)
            for_input[..., :width] = for_candidate * recalled * reset * (1 - reset)
            for_input[..., width : 2 * width] = state_gradient * (state - candidate) * update * (1 - update)
            for_input[..., 2 * width :] = for_candidate
            for_hidden[..., : 2 * width] = for_input[..., : 2 * width]
            torch.mul(for_candidate, reset, out=for_hidden[..., 2 * width :])
            state_gradient = torch.baddbmm(state_gradient * update, for_hidden, weight)
        states = torch.cat([kept[0] for kept in ctx.kept], dim=1)
        return input_gradient, hidden_gradient.mT @ states, hidden_gradient.sum(1), None, None, None


def _join(state_gradient: Tensor, final_gradient: Tensor, step: _Step) -> Tensor:
    """Add the gradient of the final states of captions that end in this step; new rows have no other gradient."""
    joined = final_gradient[:, step.first : step.rows]
    if step.ends is not None:
        joined = torch.where(step.ends, joined, 0.0)
    overlap = state_gradient.shape[1] - step.first
    if overlap:
        both = state_gradient[:, step.first :] + joined[:, :overlap]
        return torch.cat([state_gradient[:, : step.first], both, joined[:, overlap:]], dim=1)
    return torch.cat([state_gradient, joined], dim=1) if joined.shape[1] else state_gradient
