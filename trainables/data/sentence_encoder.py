"""Features of captions by a sentence encoder in a local folder; nothing is downloaded."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from trainables.errors import ConfigError
from trainables.extras import require


def encode_sentences(captions: Sequence[str], folder: Path, device: str) -> np.ndarray:
    """Return the features of captions by a model of the package sentence-transformers, (len(captions), D), float32.

    Code that a model's folder brings along is not run.

    Args:
        captions: As written.
        folder: Folder of the model, as ``SentenceTransformer.save`` writes it.
        device: ``cpu`` or ``cuda:N``.

    Raises:
        MissingExtraError: If the package is not installed.
        ConfigError: If the folder holds no such model.
    """
    require("sentences", "--text FOLDER")
    from sentence_transformers import SentenceTransformer

    try:
        model = SentenceTransformer(str(folder), device=device, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise ConfigError(f"--text {folder}: holds no sentence encoder: {str(error).splitlines()[0]}") from None
    return np.asarray(model.encode(list(captions), show_progress_bar=False), dtype=np.float32)
