"""What made the features of a dataset stays beside them, so that new captions and pictures can be asked.

An encoder's files are kept in a folder ``encoder_DIGEST``, which ``read_encoder`` reads. They are hard links to the
files of the user, which take no space, or copies on another disk. ``features_KIND.json`` names the folder.
"""

import json
from pathlib import Path

from trainables.data.features import description_of
from trainables.data.text_files import read_json
from trainables.encoders import read_encoder
from trainables.encoders.pretrained import PretrainedEncoder, link_files
from trainables.errors import DataError
from trainables.files import whole_directory, write_whole

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
