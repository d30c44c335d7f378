"""A plug-in as a value: its text, its offers, and a digest that identifies its version."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainables.errors import ConfigError

LARGEST = 2**20
"""Most characters of a plug-in, whose text goes to every actor and into the journal."""

KINDS = {"losses": "loss", "models": "model", "formats": "form of data", "samplers": "sampler"}
"""Kind of offer -> its name in messages; the entry points of a kind are ``icr_orchestrator.KIND``."""

Offers = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Kind -> name -> description of the offer as plain values, see ``offers.Offer.describe``."""


@dataclass(frozen=True)
class Plugin:
    """The code of a plug-in.

    Attributes:
        name: Name of the file, such as ``my_losses.py``, or of the distribution.
        version: Version of the distribution; empty for a file.
        module: Name of the module that is imported.
        files: Path -> text of each Python file.
        entries: Kind -> name -> attribute of a module (``MODULE:ATTRIBUTE``), as entry points name them.
        offers: The plug-in's offers; empty until the code has run, or has been outlined.
        digest: SHA-256 of module, files and entries; computed where it is left empty.
    """

    name: str
    version: str
    module: str
    files: dict[str, str]
    entries: dict[str, dict[str, str]] = field(default_factory=dict)
    offers: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    digest: str = ""

    def __post_init__(self) -> None:
        made = hashlib.sha256(json.dumps([self.module, self.files, self.entries], sort_keys=True).encode()).hexdigest()
        if self.digest not in ("", made):
            raise ConfigError(f"plug-in {self.name}: its text is not what its digest {self.digest[:12]} says; damaged")
        object.__setattr__(self, "digest", made)

    @property
    def is_file(self) -> bool:
        """Whether the plug-in is a single file, and no package."""
        return list(self.files) == [self.name]

    @property
    def reference(self) -> str:
        """Return the name of this version in configs and messages: ``my_losses.py@1f0c6a2b9d3e``."""
        return f"{self.name}@{self.digest[:12]}"

    def __str__(self) -> str:
        """Return name, version and digest, as messages show a plug-in."""
        version = f" {self.version}" if self.version else ""
        return f"{self.name}{version} (digest {self.digest[:12]})"


def read_file(path: Path) -> Plugin:
    """Return the plug-in of a Python file, whose code does not run.

    Raises:
        ConfigError: If the file cannot be read, or is larger than any plug-in.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ConfigError(f"plug-in {path}: cannot be read: {reason}") from None
    if path.suffix != ".py":
        raise ConfigError(f"plug-in {path}: must be a Python file (*.py) or the name of an installed distribution")
    check_size(str(path), {path.name: text})
    return Plugin(path.name, "", f"icr_plugin_{_identifier(path.stem)}", {path.name: text})


def check_size(name: str, files: Mapping[str, str]) -> None:
    """Refuse a plug-in that is too large to travel with each actor.

    Raises:
        ConfigError: If the plug-in is too large.
    """
    size = sum(map(len, files.values()))
    if size > LARGEST:
        raise ConfigError(f"plug-in {name}: has {size:,} characters of Python, at most {LARGEST:,} are taken")


def _identifier(stem: str) -> str:
    return "".join(character if character.isalnum() and character.isascii() else "_" for character in stem)
