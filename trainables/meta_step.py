"""The meta-step: a loss's network of weights is trained by what a step with its weights does to other pairs.

With theta the model, eta its learning rate, phi the network, B a batch and M a batch of the meta split [Shu2019]:

    theta'  = theta - eta dL(B; theta, phi)/dtheta               a virtual step of plain gradient descent
    phi    <- Adam's step along  d plain(M; theta')/dphi         the gradient goes through the virtual step
    theta  <- the training's own step along  dL(B; theta, phi)/dtheta, with the new phi

L and ``plain``, its triplet loss without weights, are those of ``trainables.losses.meta_weights``. The virtual step has
the rate of each group of weights, and is not clipped. The meta split is a part of train that is not trained on:
the val split selects epochs and settings, and takes no part.

References:
    [Shu2019] Shu et al., Meta-Weight-Net, eq. 3 to 5, algorithm 1. arXiv:1902.07379; its code, MW-Net.py of
        github.com/xjtushujun/meta-weight-net, has Adam for the network, and the model's rate for the virtual step.
"""

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from trainables.config import TrainingConfig
from trainables.data.batches import Batch, ResidentSplit, epoch_batches
from trainables.errors import ConfigError
from trainables.losses.meta_weights import NETWORK, MetaWeights, WeightNetwork
from trainables.losses.parameters import with_values
from trainables.models.retrieval_model import RetrievalModel, encode
from trainables.optimizers import AdamW
from trainables.seeding import generator


class _Compared(nn.Module):
    """The similarities of a batch as the output of a module, whose weights can be replaced."""

    def __init__(self, model: RetrievalModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Batch) -> Tensor:
        return self.model.compare(*encode(self.model, batch))


class MetaStep:
    """The network of a trial's loss, its optimiser, and the meta split.

    Attributes:
        network: The network.
    """

    def __init__(self, model: RetrievalModel, loss: MetaWeights, split: ResidentSplit) -> None:
        """Begin with a network whose first layer is drawn from torch's generator.

        Raises:
            ConfigError: If no parameter of the model is trained.
        """
        if not any(parameter.requires_grad for parameter in model.parameters()):
            raise ConfigError("loss: meta_weights learns from steps of the model, which has nothing to train here")
        self._compared, self._split = _Compared(model), split
        self.network = WeightNetwork(int(loss.hidden_size)).to(split.device)
        self._optimizer = AdamW(self.network.parameters(), lr=0.0, weight_decay=0.0, fused=True)
        self._batches: Iterator[Batch] = iter(())

    def begin_epoch(self, training: TrainingConfig, seed: int, epoch: int) -> None:
        """Draw the batches of the meta split anew, which seed and epoch decide."""
        self._batches = self._draw(training, seed, epoch)

    def _draw(self, training: TrainingConfig, seed: int, epoch: int) -> Iterator[Batch]:
        for turn in count():
            yield from epoch_batches(self._split, training, generator(seed, "meta batches", epoch, turn))

    def in_force(self, loss: Any) -> Any:
        """Return the loss with the network's present weights, which take no gradient."""
        return with_values(loss, {NETWORK: self.network.constant})

    def take(self, loss: Any, optimizer: torch.optim.Optimizer, similarity: Tensor, batch: Batch) -> None:
        """Take the meta-step before the step of a batch, whose similarities, (I, C), keep their graph.

        Raises:
            NotANumberError: If a similarity is NaN.
        """
        parameters = list(self.network.parameters())
        gradients = self.gradients(loss, optimizer, similarity, batch, next(self._batches))
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        for group in self._optimizer.param_groups:
            group["lr"] = float(loss.meta_learning_rate)
        self._optimizer.step()
        self._optimizer.zero_grad()

    def gradients(
        self, loss: MetaWeights, optimizer: torch.optim.Optimizer, similarity: Tensor, batch: Batch, meta: Batch
    ) -> Sequence[Tensor]:
        """Return the gradient of each parameter of the network, in their order."""
        weighted = with_values(loss, {NETWORK: self.network})
        value = weighted(similarity, batch.positives, batch.ignore)
        rates = {parameter: group["lr"] for group in optimizer.param_groups for parameter in group["params"]}
        named = {name: one for name, one in self._compared.named_parameters() if one.requires_grad}
        moves = torch.autograd.grad(value, list(named.values()), create_graph=True, materialize_grads=True)
        virtual = {
            name: parameter - rates[parameter] * move
            for (name, parameter), move in zip(named.items(), moves, strict=True)
        }
        others = functional_call(self._compared, virtual, (meta,))
        judged = loss.plain(others, meta.positives, meta.ignore) / meta.positives.sum()
        return torch.autograd.grad(judged, list(self.network.parameters()), materialize_grads=True)

    def state_dict(self) -> dict[str, Any]:
        """Return the state for ``load_state_dict``."""
        return {"network": self.network.state_dict(), "optimizer": self._optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the ``state_dict`` of a trial with this loss."""
        self.network.load_state_dict(state["network"])
        self._optimizer.load_state_dict(state["optimizer"])
