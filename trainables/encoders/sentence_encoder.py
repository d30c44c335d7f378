"""Folders of sentence-transformers as encoders of captions."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from trainables.encoders.pretrained import CAPTIONS, TEXTS, NoEncoderError, PretrainedEncoder, offline
from trainables.errors import reason_of


class SentenceEncoder(PretrainedEncoder):
    """A sentence encoder, as ``SentenceTransformer.save`` writes it."""

    libraries = ("sentence-transformers",)
    sides = (CAPTIONS,)

    def __init__(self, folder: Path, device: str) -> None:
        """Read a folder, see ``read_encoder``; code that the folder brings along is not run."""
        from sentence_transformers import SentenceTransformer

        try:
            with offline():
                self._model = SentenceTransformer(
                    str(folder), device=device, local_files_only=True, trust_remote_code=False
                )
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            raise NoEncoderError(f"{folder}: holds no sentence encoder: {reason_of(error)}") from None
        self.network = self._model.eval()
        self._folder = folder
        self.name, self.weights = f"sentences:{folder.resolve().name}", folder.resolve().name

    def encode_captions(self, captions: Sequence[str]) -> np.ndarray:
        """See ``PretrainedEncoder``."""
        texts = list(captions)
        return np.asarray(self._model.encode(texts, batch_size=len(texts), show_progress_bar=False), dtype=np.float32)

    def files(self) -> Mapping[str, Path | str]:
        """See ``PretrainedEncoder``."""
        modules = json.loads((self._folder / "modules.json").read_text(encoding="utf-8"))
        files = {}
        for module in dict.fromkeys([self._folder, *(self._folder / part["path"] for part in modules)]):
            if not module.is_dir():
                continue
            there = [path for path in module.iterdir() if path.is_file()]
            tensors = [path for path in there if path.suffix == ".safetensors"]
            tensors = tensors or [path for path in there if path.suffix == ".bin"]
            for path in [*(path for path in there if path.suffix in TEXTS), *tensors]:
                files[str(path.relative_to(self._folder))] = path
        return files
