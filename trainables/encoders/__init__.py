"""Encoders that others trained, such as CLIP, SigLIP, DINOv2 and sentence encoders, from files that the user has.

Nothing is downloaded. A file that is missing is named, with the command that gets it.

What made the features of a dataset stays beside them, so that new captions and pictures can be asked. The files of an
encoder are kept in a folder ``encoder_DIGEST``, which ``read_encoder`` reads. They are hard links to the files of the
user, which take no space, or copies on another disk. ``features_KIND.json`` names the folder.
"""

import json
from pathlib import Path

from trainables.data.features import description_of
from trainables.data.text_files import read_json
from trainables.encoders.pretrained import NoEncoderError, PretrainedEncoder, getting, link_files
from trainables.errors import DataError
from trainables.extras import require
from trainables.files import whole_directory, write_whole

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


KEPT = "kept"
"""Key of ``features_KIND.json``: the folder, beside the features, of the encoder that made them."""

ABOUT = "encoder.json"
"""File in the folder: the encoder's name, its libraries, and the digest of its weights."""


def kept_name(digest: str) -> str:
    """Return the name of the folder of an encoder, by the digest of its weights."""
    return f"encoder_{digest[:12]}"


def keep(encoder: PretrainedEncoder, folder: Path) -> None:
    """Keep the files of an encoder in a folder of features, unless they are there."""
    target = folder / kept_name(encoder.digest)
    if target.exists():
        return
    with whole_directory(target) as partial:
        link_files(encoder.files(), partial)
        about = {"encoder": encoder.name, "libraries": encoder.libraries, "weights_digest": encoder.digest}
        write_whole(partial / ABOUT, json.dumps(about, indent=2) + "\n")


def kept_folder(features: Path) -> Path | None:
    """Return the folder of the encoder that made some features; ``None`` where none is kept."""
    name = (description_of(features) or {}).get(KEPT)
    folder = features.with_name(str(name))
    return folder if name and folder.is_dir() else None


def libraries_of(packed: Path) -> list[str]:
    """Return the packages, by their names for ``pip``, that the encoders in a folder need."""
    abouts = [read_json(path) for path in sorted(packed.glob(f"{kept_name('*')}/{ABOUT}"))]
    return list(dict.fromkeys(name for about in abouts for name in about["libraries"]))


def read_kept(folder: Path, name: str, digest: str, device: str) -> PretrainedEncoder:
    """Read an encoder that is kept, and compare its weights with the digest of those that made the features.

    Raises:
        DataError: If the weights have changed.
        MissingExtraError, NoEncoderError: See ``read_encoder``.
    """
    encoder = read_encoder(str(folder), device=device)
    if encoder.digest != digest:
        raise DataError(f"{folder}: {name} is not what it was when the features were made")
    return encoder
