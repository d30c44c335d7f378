"""A plug-in as a value: its text, its offers, and a digest that identifies its version.

A plug-in is read from a Python file, or from an installed package. A package offers the objects that its entry points
of the groups ``icr_orchestrator.losses``, ``.models``, ``.formats``, ``.samplers`` and ``.metrics`` name. Reading
imports nothing.
"""

import hashlib
import json
import re
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path, PurePosixPath
from typing import Any

from trainables.errors import ConfigError

LARGEST = 2**20
"""Most characters of a plug-in, whose text goes to every actor and into the journal."""

GROUP = "icr_orchestrator."

KINDS = {"losses": "loss", "models": "model", "formats": "form of data", "samplers": "sampler", "metrics": "metric"}
"""Kind of offer -> its name in messages; the entry points of a kind are ``icr_orchestrator.KIND``."""


@dataclass(frozen=True)
class Plugin:
    """The code of a plug-in.

    Attributes:
        name: Name of the file, such as ``my_losses.py``, or of the distribution.
        version: Version of the distribution; empty for a file.
        module: Name of the module that is imported.
        files: Path -> text of each Python file.
        entries: Kind -> name -> attribute of a module (``MODULE:ATTRIBUTE``), as entry points name them.
        offers: The plug-in's offers; empty until the code has run.
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
        if any(PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts for name in self.files):
            raise ConfigError(f"plug-in {self.name}: one of its files lies outside of it; damaged")
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
        version = f" {self.version}" if self.version else ""
        return f"{self.name}{version} (digest {self.digest[:12]})"


def read_plugin_file(path: Path) -> Plugin:
    """Return the plug-in of a Python file, whose code does not run.

    Raises:
        ConfigError: If the file cannot be read, or is larger than any plug-in.
    """
    text = _text_of(path)
    if path.suffix != ".py":
        raise ConfigError(f"plug-in {path}: must be a Python file (*.py) or the name of an installed distribution")
    check_size(str(path), {path.name: text})
    return Plugin(path.name, "", f"icr_plugin_{re.sub('[^a-zA-Z0-9]', '_', path.stem)}", {path.name: text})


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ConfigError(f"plug-in {path}: cannot be read: {reason}") from None


def check_size(name: str, files: Mapping[str, str]) -> None:
    """Refuse a plug-in that is too large to travel with each actor (``ConfigError``)."""
    size = sum(map(len, files.values()))
    if size > LARGEST:
        raise ConfigError(f"plug-in {name}: has {size:,} characters of Python, at most {LARGEST:,} are taken")


def installed_plugins() -> dict[str, dict[str, list[str]]]:
    """Return distribution -> kind -> names that it offers; nothing is imported."""
    offers: dict[str, dict[str, list[str]]] = {}
    for installation in distributions():
        # Of two installations of one name, the first is imported.
        offers.setdefault(installation.name, {kind: list(entries) for kind, entries in _entries(installation).items()})
    return {name: kinds for name, kinds in offers.items() if kinds}


def providers(names: Mapping[str, Collection[str]], chosen: Collection[str] = ()) -> list[str]:
    """Return the installed distributions that offer wanted names, each once; nothing is imported.

    ``names`` are wanted names by kind; a name that a ``chosen`` distribution offers is not looked for elsewhere.

    Raises:
        ConfigError: If two distributions offer one of the names.
    """
    installed = installed_plugins()
    sources: dict[str, None] = {}
    for kind, wanted in names.items():
        for name in wanted:
            offering = sorted(source for source, offers in installed.items() if name in offers.get(kind, ()))
            if not offering or not {*offering}.isdisjoint(chosen):
                continue
            if len(offering) > 1:
                raise ConfigError(
                    f"the {KINDS[kind]} {name!r} is offered by {' and by '.join(offering)}, which are all installed; "
                    f"name the package that is meant with --plugin, or under plugins of the experiment"
                )
            sources[offering[0]] = None
    return sorted(sources)


def read_installed(name: str) -> Plugin:
    """Return an installed distribution as a plug-in; its code does not run.

    Raises:
        ConfigError: If there is no such distribution, it offers nothing, or its code is no plain Python package.
    """
    try:
        installation = distribution(name)
    except (PackageNotFoundError, ValueError):
        raise ConfigError(f"plug-in {name}: no such file, and no installed distribution of that name") from None
    entries = _entries(installation)
    if not entries:
        groups = ", ".join(GROUP + kind for kind in KINDS)
        raise ConfigError(f"plug-in {name}: the distribution has no entry points of the groups {groups}")
    targets = [target for names in entries.values() for target in names.values()]
    tops = dict.fromkeys(target.partition(":")[0].partition(".")[0] for target in targets)
    if len(tops) > 1:
        raise ConfigError(f"plug-in {name}: its entry points must be in one package, got {', '.join(tops)}")
    top = next(iter(tops))
    files = _files(name, top)
    check_size(name, files)
    return Plugin(installation.name, installation.version, targets[0].partition(":")[0], files, entries)


def _entries(installation: Distribution) -> dict[str, dict[str, str]]:
    entries: dict[str, dict[str, str]] = {}
    for entry in installation.entry_points:
        kind = entry.group.removeprefix(GROUP)
        if entry.group.startswith(GROUP) and kind in KINDS:
            entries.setdefault(kind, {})[entry.name] = entry.value
    return entries


def _files(name: str, top: str) -> dict[str, str]:
    """Return path -> text of the Python files of a package; paths begin with the package."""
    # The place where an import would find the package now, also an editable one, without importing the package.
    specs = (finder.find_spec(top, None) for finder in sys.meta_path if hasattr(finder, "find_spec"))
    spec = next(filter(None, specs), None)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise ConfigError(f"plug-in {name}: {top} is no package of Python files here")
    origin = Path(spec.origin)
    if spec.submodule_search_locations is None:
        return {origin.name: _text_of(origin)}
    paths = sorted(origin.parent.rglob("*.py"))
    return {str(path.relative_to(origin.parent.parent)): _text_of(path) for path in paths}
