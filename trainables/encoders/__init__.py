"""Encoders that others trained, such as CLIP, SigLIP, DINOv2 and sentence encoders, from files that the user has.

Nothing is downloaded. A file that is missing is named, with the command that gets it.
"""

from pathlib import Path

from trainables.encoders.pretrained import NoEncoderError, PretrainedEncoder, getting
from trainables.extras import require

OPEN_CLIP = "open_clip:"
"""Beginning of the name of a model of open_clip, whose weights are a file of their own."""


def read_encoder(
    name: str, weights: str | None = None, device: str = "cpu", *, key: str = "--encoder"
) -> PretrainedEncoder:
    """Read an encoder.

    Args:
        name: ``open_clip:MODEL``, ``open_clip:MODEL:TAG``, or the folder of a model: of open_clip, of transformers
            (CLIP, SigLIP, DINOv2), or of sentence-transformers.
        weights: File of the weights of a model of open_clip that is named; ``None`` with a folder, which holds them.
        device: ``cpu`` or ``cuda:N``.
        key: Where the user gave the name, for messages.

    Raises:
        MissingExtraError: If the library of the encoder is not installed.
        NoEncoderError: If a file is missing or of something else.
    """
    if name.startswith(OPEN_CLIP):
        require("encoders", f"{key} {name}", "torch", "torchvision", "open_clip")
        from trainables.encoders.open_clip_encoder import read_named

        return read_named(name.removeprefix(OPEN_CLIP), weights, device)
    if weights is not None:
        raise NoEncoderError(f"--weights goes with {key} {OPEN_CLIP}MODEL; a folder holds its weights")
    folder = Path(name)
    if not folder.is_dir():
        raise NoEncoderError(
            f"{key} {name}: is neither {OPEN_CLIP}MODEL nor a folder; nothing is downloaded here: "
            f"{getting(name if name.count('/') == 1 else 'REPOSITORY')}"
        )
    if (folder / "modules.json").exists():
        require("sentences", f"{key} {name}")
        from trainables.encoders.sentence_encoder import SentenceEncoder

        return SentenceEncoder(folder, device)
    if (folder / "open_clip_config.json").exists():
        require("encoders", f"{key} {name}", "torch", "torchvision", "open_clip")
        from trainables.encoders.open_clip_encoder import find_weights, read_folder

        # A folder of both libraries may hold the weights of one of them.
        if find_weights(folder) or not (folder / "config.json").exists():
            return read_folder(folder, device)
    if (folder / "config.json").exists():
        require("encoders", f"{key} {name}", "torch", "torchvision", "transformers")
        from trainables.encoders.transformers_encoder import TransformersEncoder

        return TransformersEncoder(folder, device)
    raise NoEncoderError(
        f"{key} {name}: holds no config.json, open_clip_config.json or modules.json, so it is no folder of an "
        f"encoder; {getting('REPOSITORY')}"
    )
