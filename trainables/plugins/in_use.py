"""The plug-ins in use in this process, and the tables of names that they join.

Names of a plug-in that is in use are accepted wherever our names are. The code of a plug-in runs when it is first
needed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from trainables.errors import ConfigError
from trainables.plugins.imported import describe_offers, offers_of
from trainables.plugins.offers import Offer
from trainables.plugins.plugin import (
    KINDS,
    Plugin,
    installed_plugins,
    is_installed,
    providers,
    read_file,
    read_installed,
)

_in_use: dict[str, Plugin] = {}
_ours: dict[str, set[str]] = {}
"""Kind -> names that no plug-in may offer, because a table of ours has them."""

Entry = TypeVar("Entry")


class NameTable(Mapping[str, Entry], Generic[Entry]):
    """What each name of a kind means: our entries, then one for each offer of the plug-ins in use.

    The entry of an offer is made when it is first read, once for each version of a plug-in.
    """

    def __init__(self, kind: str, ours: Mapping[str, Entry], make: Callable[[str, Mapping[str, Any]], Entry]) -> None:
        """Make the table.

        Args:
            kind: A kind of ``plugin.KINDS``.
            ours: Our entries by name.
            make: Returns the entry of an offer, given its name and its description, see ``offers.Offer.describe``.
        """
        self._kind, self._ours, self._make = kind, dict(ours), make
        self._made: dict[tuple[str, str], Entry] = {}
        _ours.setdefault(kind, set()).update(ours)

    def __getitem__(self, name: str) -> Entry:
        """Return the entry of a name; the code of a plug-in runs where the entry is made of it."""
        if name in self._ours:
            return self._ours[name]
        plugin = owner_of(self._kind, name)
        if plugin is None:
            raise KeyError(name)
        if (plugin.digest, name) not in self._made:
            self._made[plugin.digest, name] = self._make(name, plugin.offers[self._kind][name])
        return self._made[plugin.digest, name]

    def __contains__(self, name: object) -> bool:
        """Whether the name is ours or a plug-in's; no code runs."""
        return name in self._ours or name in offered(self._kind)

    def __iter__(self) -> Iterator[str]:
        """Return the names, ours first."""
        return iter([*self._ours, *offered(self._kind)])

    def __len__(self) -> int:
        """Return the number of names."""
        return len(self._ours) + len(offered(self._kind))


def find_plugin(source: str, folder: Path | None = None) -> Plugin:
    """Return a plug-in with its offers; the code of the plug-in runs once, if it has not run yet.

    Args:
        source: A Python file, or the name of an installed distribution.
        folder: Folder in which a file is looked for first, before the working directory.

    Raises:
        ConfigError: If there is no such file or distribution, or the plug-in cannot be used.
    """
    path = next((path for path in ((folder or Path()) / source, Path(source)) if path.is_file()), None)
    if path is not None:
        plugin = read_file(path)
    elif is_installed(source):
        plugin = read_installed(source)
    else:
        raise ConfigError(f"plug-in {source}: no such file, and no installed distribution of that name")
    if (known := _in_use.get(plugin.name)) is not None and known.digest == plugin.digest:
        return known
    return replace(plugin, offers=describe_offers(plugin))


def use(plugins: Iterable[Plugin]) -> None:
    """Let the names that plug-ins offer be known in this process; a plug-in replaces its former version.

    Raises:
        ConfigError: If one of the names is ours, or another plug-in's.
    """
    for plugin in plugins:
        for kind, offers in plugin.offers.items():
            for name, about in offers.items():
                owner = owner_of(kind, name)
                if owner is not None and owner.name != plugin.name:
                    raise _clash(about["place"], name, f"offered by the plug-in {owner.name}")
                if name in _ours.get(kind, ()):
                    raise _clash(about["place"], name, f"a {KINDS[kind]} of ours")
        _in_use[plugin.name] = plugin


def forget(*names: str) -> None:
    """Let the names of plug-ins be unknown again; all plug-ins in use if none is named."""
    for name in names or list(_in_use):
        _in_use.pop(name, None)


def in_use() -> Mapping[str, Plugin]:
    """Return the plug-ins in use by name."""
    return dict(_in_use)


def owner_of(kind: str, name: str) -> Plugin | None:
    """Return the plug-in in use that offers a name; ``None`` where the name is ours, or unknown."""
    return next((plugin for plugin in _in_use.values() if name in plugin.offers.get(kind, ())), None)


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
    return {name: about for plugin in _in_use.values() for name, about in plugin.offers.get(kind, {}).items()}


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


def _clash(place: str, name: str, whose: str) -> ConfigError:
    return ConfigError(f"{place}: the name {name!r} is {whose}; choose another with name=... in the decorator")
