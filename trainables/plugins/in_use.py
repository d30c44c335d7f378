"""The plug-ins in use in this process.

Names of a plug-in that is in use are accepted wherever our names are. The code of a plug-in runs when it is first
needed.
"""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from trainables.errors import ConfigError
from trainables.model_parameters import FEATURES, MODEL_PARAMETERS, like
from trainables.plugins.installed import installed_plugins, is_installed, providers, read_installed
from trainables.plugins.offers import FEATURES as KNOWN_FEATURES
from trainables.plugins.offers import Offer
from trainables.plugins.outline import describe, offers_in, offers_of, outline_of, stop_running
from trainables.plugins.plugin import Plugin, read_file

_in_use: dict[str, Plugin] = {}
_owners: dict[tuple[str, str], str] = {}


def find_plugin(source: str, folder: Path | None = None) -> Plugin:
    """Return a plug-in with its offers; the code of the plug-in runs once, if it has not run yet.

    Args:
        source: A Python file, or the name of an installed distribution.
        folder: Folder in which a file is looked for first, before the working directory.

    Raises:
        ConfigError: If there is no such file or distribution, or the plug-in cannot be used.
    """
    path = _file_of(source, folder)
    if path is not None:
        plugin = read_file(path)
    elif is_installed(source):
        plugin = read_installed(source)
    else:
        raise ConfigError(f"plug-in {source}: no such file, and no installed distribution of that name")
    if (known := _in_use.get(plugin.name)) is not None and known.digest == plugin.digest:
        return known
    return replace(plugin, offers=describe(plugin, offers_of(plugin)))


def outlined_plugin(source: str, folder: Path | None = None) -> Plugin | None:
    """Return the plug-in of a file with its offers, without running its code; ``None`` where the code has to run.

    Raises:
        ConfigError: If the plug-in cannot be used.
    """
    path = _file_of(source, folder)
    if path is None:
        return None
    plugin = read_file(path)
    outline = outline_of(plugin)
    return None if outline is None else replace(plugin, offers=describe(plugin, offers_in(plugin, outline)))


def _file_of(source: str, folder: Path | None) -> Path | None:
    return next((path for path in ((folder or Path()) / source, Path(source)) if path.is_file()), None)


def use(plugins: Iterable[Plugin]) -> None:
    """Register the names that plug-ins offer in this process; a plug-in replaces its former version.

    Raises:
        ConfigError: If one of the names is ours, or another plug-in's.
    """
    for plugin in plugins:
        former = _in_use.get(plugin.name)
        if former is not None and former.digest == plugin.digest:
            continue
        _refuse_clashes(plugin)
        if former is not None:
            withdraw(former.name)
        _in_use[plugin.name] = plugin
        for kind, offers in plugin.offers.items():
            _owners.update({(kind, name): plugin.name for name in offers})
        for name, about in plugin.offers.get("models", {}).items():
            FEATURES[name] = about["features"]
            MODEL_PARAMETERS[name] = {
                parameter: like(default, about["space"].get(parameter, {}).get("values", ()))
                for parameter, default in about["defaults"].items()
            }


def withdraw(name: str) -> None:
    """Remove the names of a plug-in, if it is in use."""
    if _in_use.pop(name, None) is None:
        return
    gone = [key for key, owner in _owners.items() if owner == name]
    for kind, offered in gone:
        del _owners[kind, offered]
        for table in (FEATURES, MODEL_PARAMETERS) if kind == "models" else ():
            table.pop(offered, None)
        # Without torch, the tables of losses and models do not exist.
        module = sys.modules.get(f"trainables.{kind}")
        if module is not None:
            getattr(module, kind.upper()).pop(offered, None)
    stop_running(name)


def in_use() -> Mapping[str, Plugin]:
    """Return the plug-ins in use by name."""
    return dict(_in_use)


def owner_of(kind: str, name: str) -> Plugin | None:
    """Return the plug-in in use that offers a name; ``None`` where the name is ours, or unknown."""
    owner = _owners.get((kind, name))
    return None if owner is None else _in_use[owner]


def find_owner(kind: str, name: str) -> Plugin | None:
    """Return the plug-in that offers a name; an installed plug-in is taken into use for that, and its code runs.

    Raises:
        ConfigError: If two installed packages offer the name, or the package that offers it cannot be used.
    """
    if owner_of(kind, name) is None:
        use(find_plugin(source) for source in providers({kind: {name}}))
    return owner_of(kind, name)


def offered(kind: str) -> dict[str, Mapping[str, Any]]:
    """Return the offers of a kind by name, without running code."""
    return {name: _in_use[owner].offers[kind][name] for (of, name), owner in _owners.items() if of == kind}


def run_offer(kind: str, name: str) -> tuple[Offer, str] | None:
    """Run the code of the plug-in that offers a name; return the offer and its ``FILE:LINE``, or ``None``.

    Raises:
        PluginError: If the code cannot be run.
        ConfigError: See ``find_owner``.
    """
    plugin = find_owner(kind, name)
    if plugin is None:
        return None
    return offers_of(plugin)[kind, name], plugin.offers[kind][name]["place"]


def references(loss: str, model: str) -> tuple[str, ...]:
    """Return the plug-ins that a training with a loss and a model depends on; all that offer forms of data count."""
    owners = [owner_of("losses", loss), owner_of("models", model)]
    owners += [plugin for plugin in _in_use.values() if "formats" in plugin.offers]
    return tuple(dict.fromkeys(plugin.reference for plugin in owners if plugin is not None))


def use_installed(kind: str) -> None:
    """Take all installed packages into use that offer names of a kind; their code runs.

    Raises:
        ConfigError: If a package cannot be used.
    """
    use(find_plugin(name) for name, offers in installed_plugins().items() if kind in offers)


def _refuse_clashes(plugin: Plugin) -> None:
    for kind, offers in plugin.offers.items():
        for name, about in offers.items():
            owner = _owners.get((kind, name))
            if owner is None and kind == "models" and name in FEATURES:
                raise clash(about["place"], name, "a model of ours")
            if owner not in (None, plugin.name):
                raise clash(about["place"], name, f"offered by the plug-in {owner}")
            if kind == "models" and about["features"] not in KNOWN_FEATURES:
                known = " or ".join(KNOWN_FEATURES)
                raise ConfigError(f"{about['place']}: features must be {known}, got {about['features']!r}")


def clash(place: str, name: str, whose: str) -> ConfigError:
    """Return the error about a name that is already taken."""
    return ConfigError(f"{place}: the name {name!r} is {whose}; choose another with name=... in the decorator")
