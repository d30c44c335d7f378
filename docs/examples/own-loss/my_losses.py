"""A loss of one's own: every image-caption pair is judged by itself, without a softmax over the others."""

import torch
from torch.nn.functional import softplus

from trainables.plugins import loss


@loss(space={"scale": (1.0, 100.0, "log"), "bias": (-0.5, 1.0)})
def pair_sigmoid(similarity, positives, ignore, scale=10.0, bias=0.0):
    """Sigmoid loss of each pair: matching pairs above the bias, all others below."""
    logits = scale * (similarity - bias)
    costs = softplus(torch.where(positives, -logits, logits))
    return costs[~ignore].sum() / positives.sum()
