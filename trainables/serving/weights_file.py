"""The best model of a checkpoint as one safetensors file, which runs no code in the programs that read it."""

import json
import os
from pathlib import Path

from trainables.checkpoint import BEST, read_file
from trainables.config import LEARNED


def write_weights(checkpoint: Path, path: Path) -> None:
    """Write the tensors of a checkpoint's best model, by their names in the model.

    The file's metadata holds ``config`` (JSON of the ``TrialConfig``), ``digest`` of the data, ``epoch`` and ``value``
    of the metric that selected it, and ``learned`` (JSON) where the loss learned hyper-parameters: the values that the
    best model was trained with.

    Args:
        checkpoint: An ``epoch_NNNN`` directory.
        path: Path of the file, in a folder that exists; the file appears whole or not at all.

    Raises:
        CheckpointError: If the checkpoint is damaged.
    """
    from safetensors.torch import save_file

    payload = read_file(checkpoint, BEST)
    told = {
        "config": json.dumps(payload["config"]),
        **{name: str(payload[name]) for name in ("digest", "epoch", "value")},
    }
    if LEARNED in payload:
        told[LEARNED] = json.dumps(payload[LEARNED])
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        save_file({name: tensor.contiguous() for name, tensor in payload["model"].items()}, partial, metadata=told)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
