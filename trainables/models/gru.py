"""The last state of a GRU over captions of unequal length.

With r, z, n the reset gate, update gate and candidate, and h the state [Cho2014], in PyTorch's parametrisation:

    r = sigmoid(W_r x + b_r + U_r h + c_r)      n = tanh(W_n x + b_n + r * (U_n h + c_n))
    z = sigmoid(W_z x + b_z + U_z h + c_z)      h' = (1 - z) * n + z * h

On a GPU this is cuDNN's packed GRU. On a CPU the library's packed GRU spends half its time on bookkeeping, so there the
recurrence is written out: W x is computed once for each distinct word of the batch instead of once for each token,
captions are sorted by length so that each step is one matrix product over those that still have a token, and the
backward pass collects the gradient of U in one product at the end.

References:
    [Cho2014] Cho et al., Learning Phrase Representations using RNN Encoder-Decoder, eq. 5-8. arXiv:1406.1078
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, linear
from torch.nn.utils.rnn import pack_padded_sequence


def final_states(words: nn.Embedding, gru: nn.GRU, tokens: Tensor, lengths: Tensor) -> Tensor:
    """Return the state of a one-layer, left-to-right GRU after each caption's last token.

    Args:
        words: Word embeddings, (V, W).
        gru: The GRU's parameters, from W to H.
        tokens: Word ids, shape (C, T), int64; what stands after a caption's end is not read.
        lengths: Tokens of each caption, shape (C,), int64 on the CPU, in [1, T].

    Returns:
        States, shape (C, H).
    """
    if tokens.device.type != "cpu":
        packed = pack_padded_sequence(words(tokens), lengths, batch_first=True, enforce_sorted=False)
        return gru(packed)[1][0]
    order = lengths.argsort(descending=True, stable=True)
    present = torch.arange(int(lengths.max()))[:, None] < lengths[order]
    distinct, token_word = tokens[order].T[: len(present)][present].unique(return_inverse=True)
    input_weight, weight, input_bias, bias = gru.parameters()
    inputs = embedding(token_word, linear(words(distinct), input_weight, input_bias))
    states: Tensor = _Recurrence.apply(inputs, weight, bias, present.sum(1).tolist(), torch.is_grad_enabled())
    return states[order.argsort()]


class _Recurrence(torch.autograd.Function):
    """The steps of a GRU over packed inputs: rows of step 0 first, and in each step the longest caption first."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor, sizes: list[int], with_grad: bool) -> Tensor:
        """Return final states (C, H) from ``inputs`` = W x + b, (sum(sizes), 3H), ordered r, z, n."""
        width = weight.shape[1]
        state = inputs.new_zeros(sizes[0], width)
        final = torch.empty_like(state)
        steps = []
        for x in inputs.split(sizes):
            running = len(x)
            final[running : len(state)] = state[running:]
            state = state[:running]
            hidden = torch.addmm(bias, state, weight.T)
            gates = (x[:, : 2 * width] + hidden[:, : 2 * width]).sigmoid_()
            reset, update = gates[:, :width], gates[:, width:]
            recalled = hidden[:, 2 * width :]
            candidate = torch.addcmul(x[:, 2 * width :], reset, recalled).tanh_()
            if with_grad:
                steps.append((state, reset, update, candidate, recalled))
            state = torch.lerp(candidate, state, update)
        final[: len(state)] = state
        ctx.steps, ctx.sizes = steps, sizes
        ctx.save_for_backward(weight)
        return final

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        """Walk the steps back; the gradient of U is summed over all of them in one product at the end."""
        (final_gradient,) = gradients
        (weight,) = ctx.saved_tensors
        width = weight.shape[1]
        input_gradient = final_gradient.new_empty(sum(ctx.sizes), 3 * width)
        hidden_gradient = torch.empty_like(input_gradient)
        state_gradient = final_gradient[:0]
        by_step = zip(input_gradient.split(ctx.sizes), hidden_gradient.split(ctx.sizes), ctx.steps, strict=True)
        for for_input, for_hidden, (state, reset, update, candidate, recalled) in reversed(list(by_step)):
            # Captions whose last token this is join with the gradient of their final state.
            joined = final_gradient[len(state_gradient) : len(state)]
            state_gradient = torch.cat([state_gradient, joined]) if len(joined) else state_gradient
            for_candidate = state_gradient * (1 - update) * (1 - candidate * candidate)
            for_input[:, :width] = for_candidate * recalled * reset * (1 - reset)
            for_input[:, width : 2 * width] = state_gradient * (state - candidate) * update * (1 - update)
            for_input[:, 2 * width :] = for_candidate
            for_hidden[:, : 2 * width] = for_input[:, : 2 * width]
            torch.mul(for_candidate, reset, out=for_hidden[:, 2 * width :])
            state_gradient = torch.addmm(state_gradient * update, for_hidden, weight)
        states = torch.cat([step[0] for step in ctx.steps])
        return input_gradient, hidden_gradient.T @ states, hidden_gradient.sum(0), None, None
