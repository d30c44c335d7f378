"""The plug-ins of this process: their names stand in the tables of ours; their code runs when it is first needed."""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from trainables.errors import ConfigError
from trainables.model_parameters import FEATURES, MODEL_PARAMETERS, Like
from trainables.plugins.installed import installed_plugins, is_installed, providers, read_installed
from trainables.plugins.offers import FEATURES as KNOWN_FEATURES
from trainables.plugins.offers import Offer
from trainables.plugins.outline import outline_of
from trainables.plugins.plugin import Plugin, read_file
from trainables.plugins.running import describe, offers_in, offers_of, stop_running

_in_use: dict[str, Plugin] = {}
_owners: dict[tuple[str, str], str] = {}


def find_plugin(source: str, folder: Path | None = None) -> Plugin:
    """Return a plug-in with what it offers, after running it once.

    Args:
        source: A Python file, or the name of an installed distribution.
        folder: Where a file is looked for first, before the working directory.

    Raises:
        ConfigError: If there is no such file or distribution, or it cannot be used.
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
    """Return the plug-in of a file with what it offers, without running it; ``None`` where only running it tells.

    Raises:
        ConfigError: If it cannot be used.
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
    """Let the names that plug-ins offer be known in this process, in the place of former versions of the same plug-ins.

    Raises:
        ConfigError: If a name is one of ours, or of another plug-in.
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
                parameter: Like(default, tuple(about["space"].get(parameter, {}).get("values", ())))
                for parameter, default in about["defaults"].items()
            }


def withdraw(name: str) -> None:
    """Take a plug-in out of the tables, if it is there."""
    if _in_use.pop(name, None) is None:
        return
    gone = [key for key, owner in _owners.items() if owner == name]
    for kind, offered in gone:
        del _owners[kind, offered]
        for table in (FEATURES, MODEL_PARAMETERS) if kind == "models" else ():
            table.pop(offered, None)
        # Tables that need torch are there only if torch is.
        module = sys.modules.get(f"trainables.{kind}")
        if module is not None:
            getattr(module, kind.upper()).pop(offered, None)
    stop_running(name)


def in_use() -> Mapping[str, Plugin]:
    """Return the plug-ins of this process by name."""
    return dict(_in_use)


def owner_of(kind: str, name: str) -> Plugin | None:
    """Return the plug-in that offers a name; ``None`` where it is ours, or nobody's."""
    owner = _owners.get((kind, name))
    return None if owner is None else _in_use[owner]


def find_owner(kind: str, name: str) -> Plugin | None:
    """Return the plug-in that offers a name; one that is installed and not in use yet is taken into use, and runs.

    Raises:
        ConfigError: If two installed packages offer the name, or the one that does cannot be used.
    """
    if owner_of(kind, name) is None:
        use(find_plugin(source) for source in providers({kind: {name}}))
    return owner_of(kind, name)


def offered(kind: str) -> dict[str, Mapping[str, Any]]:
    """Return what plug-ins offer of a kind, by name, without running them."""
    return {name: _in_use[owner].offers[kind][name] for (of, name), owner in _owners.items() if of == kind}


def run_offer(kind: str, name: str) -> tuple[Offer, str] | None:
    """Run the code of a name that a plug-in offers; return it with its ``FILE:LINE``, or ``None`` where none does.

    Raises:
        PluginError: If the code cannot be run.
        ConfigError: See ``find_owner``.
    """
    plugin = find_owner(kind, name)
    if plugin is None:
        return None
    return offers_of(plugin)[kind, name], plugin.offers[kind][name]["place"]


def references(loss: str, model: str) -> tuple[str, ...]:
    """Return which plug-ins a training with a loss and a model depends on, those with forms of data among them."""
    owners = [owner_of("losses", loss), owner_of("models", model)]
    owners += [plugin for plugin in _in_use.values() if "formats" in plugin.offers]
    return tuple(dict.fromkeys(plugin.reference for plugin in owners if plugin is not None))


def use_installed(kind: str) -> None:
    """Take all installed packages into use that offer something of a kind; their code runs.

    Raises:
        ConfigError: If one of them cannot be used.
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
    """Return the refusal of a name that is taken."""
    return ConfigError(f"{place}: the name {name!r} is {whose}; choose another with name=... in the decorator")
