"""Plug-ins that are installed packages: found by their entry points, and read as text.

A package offers the objects that its entry points of the groups ``icr_orchestrator.losses``, ``.models``, ``.formats``
and ``.samplers`` name. Finding a package imports nothing of the package.
"""

import sys
from collections.abc import Collection, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path

from trainables.errors import ConfigError
from trainables.plugins.outline import TextModules
from trainables.plugins.plugin import KINDS, Plugin, check_size

GROUP = "icr_orchestrator."


def is_installed(name: str) -> bool:
    """Whether a distribution with this name is installed."""
    try:
        return bool(name) and distribution(name) is not None
    except (PackageNotFoundError, ValueError):
        return False


def installed_plugins() -> dict[str, dict[str, list[str]]]:
    """Return distribution -> kind -> names that it offers; nothing is imported."""
    offers = {found.name: entries for found in distributions() if (entries := _entries(found))}
    return {name: {kind: list(names) for kind, names in entries.items()} for name, entries in offers.items()}


def providers(names: Mapping[str, Collection[str]], chosen: Collection[str] = ()) -> list[str]:
    """Return the installed distributions that offer wanted names, each once; nothing is imported.

    Args:
        names: Kind -> wanted names.
        chosen: Distributions that are returned in any case; names that they offer are not looked for elsewhere.

    Raises:
        ConfigError: If two distributions offer one of the names.
    """
    installed = installed_plugins()
    found: dict[str, None] = {}
    for kind, wanted in names.items():
        for name in wanted:
            offering = sorted(one for one, offers in installed.items() if name in offers.get(kind, ()))
            if not offering or not {*offering}.isdisjoint(chosen):
                continue
            if len(offering) > 1:
                raise ConfigError(
                    f"the {KINDS[kind]} {name!r} is offered by {' and by '.join(offering)}, which are all installed; "
                    f"name the package that is meant with --plugin, or under plugins of the experiment"
                )
            found[offering[0]] = None
    return sorted(found)


def read_installed(name: str) -> Plugin:
    """Return an installed distribution as a plug-in; its code does not run.

    Raises:
        ConfigError: If the distribution offers nothing, or its code is no plain Python package.
    """
    found = distribution(name)
    entries = _entries(found)
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
    return Plugin(found.name, found.version, targets[0].partition(":")[0], files, entries)


def _entries(found: Distribution) -> dict[str, dict[str, str]]:
    entries: dict[str, dict[str, str]] = {}
    for entry in found.entry_points:
        kind = entry.group.removeprefix(GROUP)
        if entry.group.startswith(GROUP) and kind in KINDS:
            entries.setdefault(kind, {})[entry.name] = entry.value
    return entries


def _files(name: str, top: str) -> dict[str, str]:
    """Return path -> text of the Python files of a package; paths begin with the package."""
    # The place where an import would find the package now, also an editable one, without importing the package.
    finders = [finder for finder in sys.meta_path if not isinstance(finder, TextModules)]
    specs = (finder.find_spec(top, None) for finder in finders if hasattr(finder, "find_spec"))
    spec = next(filter(None, specs), None)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise ConfigError(f"plug-in {name}: {top} is no package of Python files here")
    origin = Path(spec.origin)
    if spec.submodule_search_locations is None:
        return {origin.name: origin.read_text(encoding="utf-8")}
    paths = sorted(origin.parent.rglob("*.py"))
    return {str(path.relative_to(origin.parent.parent)): path.read_text(encoding="utf-8") for path in paths}
