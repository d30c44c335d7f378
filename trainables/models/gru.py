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
any model needs. States beyond the end of a caption are never read, so their gradient is 0.

References:
    [Cho2014] Cho et al., Learning Phrase Representations using RNN Encoder-Decoder, eq. 5-8. arXiv:1406.1078
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding
from torch.nn.utils.rnn import PackedSequence

from trainables.data.length_profile import Lengths, ProfiledLengths, TokenLayout
from trainables.models.retrieval_model import affine

aten = torch.ops.aten


def final_states(words: nn.Embedding, gru: nn.GRU, tokens: Tensor, lengths: Lengths) -> Tensor:
    """Return the state of a one-layer, left-to-right GRU after each caption's last token.

    Args:
        words: Word embeddings, (V, W), or stacked, (K, V, W).
        gru: The GRU's parameters, from W to H; stacked where the words are.
        tokens: Word ids, shape (C, T), int64; ids after a caption's end are not read. For stacked parameters
            (K, C, T), or (1, C, T) where all models share the captions.
        lengths: Tokens of each caption, shape (C,), (K, C) or (1, C), int64 on the CPU, in [1, T]; or of one model
            those of a profile.

    Returns:
        States, shape (C, H) or (K, C, H).
    """
    is_stacked = words.weight.dim() == 3
    if not is_stacked and tokens.device.type != "cpu":
        if isinstance(lengths, ProfiledLengths):
            return _last_of_profile(words, gru, tokens, lengths)
        return gru(_packed(words, tokens, lengths))[1][0]
    parameters = [words.weight, *gru.parameters()]
    if not is_stacked:
        parameters, tokens = [part[None] for part in parameters], tokens[None]
    values, layout = _laid(lengths, is_stacked)
    states = _look_up(_run(parameters, tokens, layout), _sent(layout.last_rows(values), tokens.device))
    return states if is_stacked else states[0]


def _laid(lengths: Lengths, is_stacked: bool) -> tuple[Tensor, TokenLayout]:
    """Return the lengths of captions, shape (K, C) or (1, C), and their layout."""
    if isinstance(lengths, ProfiledLengths):
        return lengths.values[None], lengths.layout
    values = lengths if is_stacked else lengths[None]
    return values, TokenLayout.of_lengths(values)


def _sent(values: Tensor, device: torch.device) -> Tensor:
    """Return values on a device.

    Not waiting for the GPU is safe, because the data of these unpinned tensors are read before the call returns.
    """
    return values.to(device, non_blocking=True)


def _last_of_profile(words: nn.Embedding, gru: nn.GRU, tokens: Tensor, lengths: ProfiledLengths) -> Tensor:
    """Return the state after each caption's last token, (C, H), by cuDNN, whose rows are those of the profile."""
    layout = lengths.layout
    index = layout.order[0, layout.rows] * tokens.shape[1] + layout.times
    packed = PackedSequence(words(tokens.flatten()[index]), torch.tensor(layout.sizes))
    states: Tensor = gru(packed)[0].data
    return states.index_select(0, layout.last_rows(lengths.values)[0])


def _packed(words: nn.Embedding, tokens: Tensor, lengths: Tensor) -> PackedSequence:
    """Return the words of captions in cuDNN's order: all first tokens, the longest caption first, then all second ones.

    PyTorch's ``pack_padded_sequence`` waits for the GPU in each step, and its backward pass copies each place alone.
    """
    ordered, order = lengths.sort(descending=True, stable=True)
    inside = torch.arange(int(ordered[0]))[:, None] < ordered
    place, row = inside.nonzero(as_tuple=True)
    index, order, back = (
        _sent(part, tokens.device) for part in (order[row] * tokens.shape[1] + place, order, order.argsort())
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
    projected = affine(inputs.transpose(1, 2).flatten(1, 2), input_weight, input_bias)
    states: Tensor = _Recurrence.apply(projected, weight, bias, [rows] * length, torch.is_grad_enabled())
    return states[:, -rows:]


def all_states(table: Tensor, gru: nn.GRU, tokens: Tensor, lengths: Lengths) -> Tensor:
    """Return the states of a one-layer, bidirectional GRU at each token: the mean of both directions.

    Args:
        table: The vector of each token id, (V, W), or stacked, (K, V, W).
        gru: The GRU's parameters, from W to H in each direction; stacked where the table is.
        tokens: Ids, shape (C, T), or (K, C, T) or (1, C, T) for stacked parameters, as in ``final_states``.
        lengths: Tokens of each sequence, as in ``final_states``.

    Returns:
        States, shape (C, T, H) or (K, C, T, H); 0 after the end of a sequence.
    """
    parameters: list[Tensor] = list(gru.parameters())
    is_stacked = table.dim() == 3
    if not is_stacked:
        parameters = [part[None] for part in parameters]
        table, tokens = table[None], tokens[None]
    values, layout = _laid(lengths, is_stacked)
    places = torch.arange(tokens.shape[-1], device=tokens.device)
    last = _sent(values, tokens.device)[..., None] - 1
    mirrored = torch.where(places <= last, last - places, places)
    forward = _states_in_order([table, *parameters[:4]], tokens, values, layout)
    backward = _states_in_order([table, *parameters[4:]], tokens.gather(-1, mirrored), values, layout)
    back = mirrored[..., None].expand(len(backward), -1, -1, backward.shape[-1])
    states = (forward + backward.gather(2, back)) / 2
    return states if is_stacked else states[0]


def _states_in_order(parameters: list[Tensor], tokens: Tensor, lengths: Tensor, layout: TokenLayout) -> Tensor:
    """Return the state after each token, (K, C, T, H), of a GRU that reads from left to right; 0 after the end."""
    states = _run(parameters, tokens, layout)
    times = torch.arange(tokens.shape[-1], device=lengths.device)
    inside = times < lengths[..., None]
    where = (layout.firsts[times.clamp(max=len(layout.firsts) - 1)] + layout.places[..., None]) * inside
    where, inside = _sent(where, tokens.device), _sent(inside, tokens.device)
    return _look_up(states, where.flatten(1)).unflatten(1, where.shape[1:]) * inside[..., None]


def _run(parameters: list[Tensor], tokens: Tensor, layout: TokenLayout) -> Tensor:
    """Return the states after all steps, (K, sum of rows, H), in the rows of the layout."""
    words, input_weight, weight, input_bias, bias = parameters
    index = _sent(layout.order[:, layout.rows] * tokens.shape[-1] + layout.times, tokens.device)
    ids = tokens.flatten(1).gather(1, index)
    if tokens.device.type == "cpu":
        distinct, place = _distinct(ids, words.shape[1])
        inputs = _look_up(affine(_look_up(words, distinct), input_weight, input_bias), place)
    else:
        inputs = affine(_look_up(words, ids), input_weight, input_bias)
    states: Tensor = _Recurrence.apply(inputs, weight, bias, layout.sizes, torch.is_grad_enabled())
    return states


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
    """The steps of K GRUs over packed inputs: rows of step 0 first, and in each step the longest caption first.

    On a GPU an operation on a small step costs the time to start it, so there are few.
    """

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor, sizes: list[int], with_grad: bool) -> Tensor:
        """Return the states after each step, (K, sum of rows, H); ``sizes`` are the rows of each step.

        ``inputs`` are W x + b, (K, sum of rows, 3H), ordered r, z, n; ``weight`` is U, (K, 3H, H), ``bias`` c, (K, 3H).
        """
        width = weight.shape[-1]
        state = inputs.new_zeros(len(weight), sizes[0], width)
        kept, states = [], []
        for size, x in zip(sizes, inputs.split(sizes, dim=1), strict=True):
            state = state[:, :size]
            hidden = torch.baddbmm(bias[:, None], state, weight.mT)
            gates = (x[..., : 2 * width] + hidden[..., : 2 * width]).sigmoid_()
            reset, update = gates[..., :width], gates[..., width:]
            recalled = hidden[..., 2 * width :]
            candidate = torch.addcmul(x[..., 2 * width :], reset, recalled).tanh_()
            if with_grad:
                kept.append((state, reset, update, candidate, recalled))
            state = torch.lerp(candidate, state, update)
            states.append(state)
        ctx.sizes, ctx.kept = sizes, kept
        ctx.save_for_backward(weight)
        return torch.cat(states, dim=1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        """Go backwards through the steps; one product at the end sums the gradient of U over all steps."""
        (weight,) = ctx.saved_tensors
        of_states, sizes, width = gradients[0], ctx.sizes, weight.shape[-1]
        of_inputs = of_states.new_empty(*of_states.shape[:2], 3 * width)
        of_hidden = torch.empty_like(of_inputs)
        carried = of_states.new_zeros(len(weight), sizes[0], width)
        steps = zip(ctx.kept, *(part.split(sizes, dim=1) for part in (of_states, of_inputs, of_hidden)), strict=True)
        for (state, reset, update, candidate, recalled), of_state, of_input, of_step in reversed(list(steps)):
            gradient = carried[:, : len(state[0])].add_(of_state)
            of_reset, of_update, of_candidate = of_input.split(width, dim=-1)
            through_candidate = torch.addcmul(gradient, gradient, update, value=-1)
            aten.tanh_backward.grad_input(through_candidate, candidate, grad_input=of_candidate)
            aten.sigmoid_backward.grad_input(of_candidate * recalled, reset, grad_input=of_reset)
            aten.sigmoid_backward.grad_input(gradient * (state - candidate), update, grad_input=of_update)
            of_step[..., : 2 * width] = of_input[..., : 2 * width]
            torch.mul(of_candidate, reset, out=of_step[..., 2 * width :])
            gradient.mul_(update).baddbmm_(of_step, weight)
        before = torch.cat([kept[0] for kept in ctx.kept], dim=1)
        return of_inputs, of_hidden.mT @ before, of_hidden.sum(1), None, None
