"""The plug-ins in use in this process, the tables of names that they join, and the import of their code.

Names of a plug-in that is in use are accepted wherever our names are. The code of a plug-in runs when it is first
needed. The recorded text of a plug-in is imported from the user's cache, where a folder for each digest holds it. So a
machine that has the file and a node that has only the text run the same code, whatever else is installed there.
"""

import ast
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

from trainables.errors import LABELS, Blaming, ConfigError, PluginError, find_place
from trainables.files import cache_folder, make_in_cache, write_whole
from trainables.plugins.offers import Offer, offer_of
from trainables.plugins.plugin import KINDS, Plugin, providers, read_installed, read_plugin_file

NO_CODE = "ORCHESTRATOR_NO_PLUGIN_CODE"
"""Environment variable that, where it is set, forbids a process to run the code of any plug-in."""


def _import_plugin(plugin: Plugin) -> ModuleType:
    """Import the module of a plug-in, whose code runs once in a process; an error in it names file and line."""
    if os.environ.get(NO_CODE):
        raise PluginError(
            f"{plugin.name}: code of plug-ins does not run here ({NO_CODE} is set); leave the plug-in out, or give "
            f"`orchestrator mcp` --allow-runs"
        )
    # A file gets a module name of its own for each version. A package keeps its name, because its modules import each
    # other by it. A version that was imported under this name before is imported no longer.
    top = f"{plugin.module}_{plugin.digest[:12]}" if plugin.is_file else plugin.module.partition(".")[0]
    path = _path_of(plugin)
    if getattr(sys.modules.get(top), "__file__", None) != str(path):
        for former in [name for name in sys.modules if name == top or name.startswith(f"{top}.")]:
            del sys.modules[former]
        _run(plugin, _import_path, top, path)
    return sys.modules[top] if plugin.is_file else _run(plugin, import_module, plugin.module)


def offers_of(plugin: Plugin) -> dict[tuple[str, str], Offer]:
    """Import a plug-in, and return its offers by kind and name.

    Raises:
        PluginError: If the plug-in offers nothing, offers a name twice, or cannot be imported.
    """
    module = _import_plugin(plugin)
    all_offers: list[Offer] = []
    for kind, entries in plugin.entries.items():
        for name, target in entries.items():
            definition = _resolve(plugin, target)
            marked = offer_of(definition) or Offer(kind, name, definition)
            all_offers.append(Offer(kind, name, definition, marked.space, marked.options))
    if not plugin.entries:
        members = {id(member): member for member in vars(module).values() if not isinstance(member, ModuleType)}
        all_offers = [offer for member in members.values() if (offer := offer_of(member)) is not None]
    offers: dict[tuple[str, str], Offer] = {}
    for offer in all_offers:
        if offers.setdefault((offer.kind, offer.name), offer) is not offer:
            raise PluginError(f"{_place_of(plugin, offer.definition)}: {plugin.name} offers {offer.name!r} twice")
    if not offers:
        raise PluginError(
            f"{plugin.name}: offers nothing; put @loss(...), @model(...) or @data_format(...) of trainables.plugins "
            f"before a function or class"
        )
    return offers


def _path_of(plugin: Plugin) -> Path:
    """Return the path of the plug-in's file, or of its package's first module, which is written where it is not yet."""
    folder = cache_folder() / "plugins" / plugin.digest
    for name, text in plugin.files.items():
        file = folder / name
        try:
            make_in_cache(file.parent)
            # Several processes of a machine write the same text, each file whole, so that no process reads a part.
            if not file.is_file() or file.read_text(encoding="utf-8") != text:
                write_whole(file, text)
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"{file}: the text of the plug-in {plugin.name} cannot be kept here, from where it is imported: "
                f"{error}; point XDG_CACHE_HOME to a folder that you may write to"
            ) from None
        # Messages show one name on all machines.
        LABELS[str(file)] = name
    top = plugin.module.partition(".")[0]
    return folder / next(name for name in (plugin.name, f"{top}/__init__.py", f"{top}.py") if name in plugin.files)


def _import_path(name: str, path: Path) -> ModuleType:
    spec = spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    # Before it runs, because a dataclass looks up the module of its class.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _run(plugin: Plugin, load: Callable[..., ModuleType], *arguments: Any) -> ModuleType:
    """Return the module that ``load`` imports; an error of the plug-in's code names file and line."""
    try:
        with Blaming():
            return load(*arguments)
    except PluginError as error:
        if "ImportError: attempted relative" in str(error) or "ModuleNotFoundError" in str(error):
            remedy = "a plug-in of several files is a package" if plugin.is_file else "install it on every node"
            raise PluginError(f"{error}; a plug-in can import what is installed: {remedy}") from error
        raise
    except (ImportError, SyntaxError) as error:
        place = find_place(error, error.__traceback__) or plugin.name
        raise PluginError(f"{place}: {type(error).__name__}: {error}") from error


def _resolve(plugin: Plugin, target: str) -> Any:
    name, _, attribute = target.partition(":")
    value: Any = _run(plugin, import_module, name)
    for part in attribute.split("."):
        if not hasattr(value, part):
            raise PluginError(f"{plugin.name}: its entry point names {target}, but {name} has no {attribute}")
        value = getattr(value, part)
    return value


def _place_of(plugin: Plugin, definition: Any) -> str:
    """Return ``FILE:LINE`` of the definition of a function or class; the file alone where the line is unknown."""
    module = sys.modules.get(getattr(definition, "__module__", ""))
    label = LABELS.get(getattr(module, "__file__", None) or "", plugin.name)
    for node in ast.parse(plugin.files.get(label, "")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == getattr(definition, "__name__", ""):
            return f"{label}:{node.lineno}"
    return plugin.name


_in_use: dict[str, Plugin] = {}
_ours: dict[str, set[str]] = {}
"""Kind -> names that no plug-in may offer, because a table of ours has them."""

Entry = TypeVar("Entry")


class NameTable(Mapping[str, Entry], Generic[Entry]):
    """Name of a kind -> its entry: our entries, then an entry for each offer of the plug-ins in use.

    The entry of an offer is made when it is first read, once for each version of a plug-in. No code runs before.
    """

    def __init__(self, kind: str, ours: Mapping[str, Entry], make: Callable[[str, Mapping[str, Any]], Entry]) -> None:
        """Make a table; ``make`` returns an entry from the name and the description of an offer."""
        self._kind, self._ours, self._make = kind, dict(ours), make
        self._made: dict[tuple[str, str], Entry] = {}
        _ours.setdefault(kind, set()).update(ours)

    def __getitem__(self, name: str) -> Entry:
        if name in self._ours:
            return self._ours[name]
        plugin = plugin_offering(self._kind, name)
        if plugin is None:
            raise KeyError(name)
        if (plugin.digest, name) not in self._made:
            self._made[plugin.digest, name] = self._make(name, plugin.offers[self._kind][name])
        return self._made[plugin.digest, name]

    def __contains__(self, name: object) -> bool:
        return name in self._ours or name in offered(self._kind)

    def __iter__(self) -> Iterator[str]:
        return iter([*self._ours, *offered(self._kind)])

    def __len__(self) -> int:
        return len(self._ours) + len(offered(self._kind))


def class_at(path: str) -> Any:
    """Import the module of a dotted path, and return the class that the last part names."""
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def find_plugin(source: str) -> Plugin:
    """Return a plug-in with its offers; the code of the plug-in runs once, if it has not run yet.

    ``source`` is a Python file or an installed distribution.

    Raises:
        ConfigError: If there is no such file or distribution, or the plug-in cannot be used.
        PluginError: See ``offers_of``.
    """
    plugin = read_plugin_file(Path(source)) if Path(source).is_file() else read_installed(source)
    if (known := _in_use.get(plugin.name)) is not None and known.digest == plugin.digest:
        return known
    described: dict[str, dict[str, dict[str, Any]]] = {}
    for (kind, name), offer in offers_of(plugin).items():
        described.setdefault(kind, {})[name] = offer.describe(_place_of(plugin, offer.definition))
    return replace(plugin, offers=described)


def use(plugins: Iterable[Plugin]) -> None:
    """Let the names that plug-ins offer be known in this process; a plug-in replaces its former version.

    Raises:
        ConfigError: If one of the names is ours, or another plug-in's.
    """
    for plugin in plugins:
        for kind, offers in plugin.offers.items():
            for name, about in offers.items():
                owner = plugin_offering(kind, name)
                whose = f"a {KINDS[kind]} of ours" if name in _ours.get(kind, ()) else ""
                if owner is not None and owner.name != plugin.name:
                    whose = f"offered by the plug-in {owner.name}"
                if whose:
                    raise ConfigError(
                        f"{about['place']}: the name {name!r} is {whose}; choose another with name=... in the decorator"
                    )
        _in_use[plugin.name] = plugin


def forget(*names: str) -> None:
    """Let the names of plug-ins be unknown again; all plug-ins in use if none is named."""
    for name in names or list(_in_use):
        _in_use.pop(name, None)


def in_use() -> Mapping[str, Plugin]:
    """Return the plug-ins in use by name."""
    return dict(_in_use)


def plugin_offering(kind: str, name: str) -> Plugin | None:
    """Return the plug-in in use that offers a name; ``None`` where the name is ours, or unknown."""
    return next((plugin for plugin in _in_use.values() if name in plugin.offers.get(kind, ())), None)


def find_owner(kind: str, name: str) -> Plugin | None:
    """Return the plug-in that offers a name; an installed plug-in is taken into use for that, and its code runs.

    Raises:
        ConfigError: If two installed packages offer the name, or the package that offers it cannot be used.
    """
    if plugin_offering(kind, name) is None:
        use(find_plugin(source) for source in providers({kind: {name}}))
    return plugin_offering(kind, name)


def offered(kind: str) -> dict[str, Mapping[str, Any]]:
    """Return the offers of a kind by name, without running code."""
    return {name: about for plugin in _in_use.values() for name, about in plugin.offers.get(kind, {}).items()}


def run_offer(kind: str, name: str) -> tuple[Offer, str]:
    """Run the code of the plug-in that offers a name; return the offer and its ``FILE:LINE``.

    Raises:
        KeyError: If no plug-in offers the name.
        PluginError: If the code cannot be run.
        ConfigError: See ``find_owner``.
    """
    plugin = find_owner(kind, name)
    if plugin is None:
        raise KeyError(name)
    return offers_of(plugin)[kind, name], plugin.offers[kind][name]["place"]


def references(loss: str, model: str) -> tuple[str, ...]:
    """Return the plug-ins that a training with a loss and a model depends on.

    All that offer forms of data or metrics count: every training reports every metric.
    """
    owners = [plugin_offering("losses", loss), plugin_offering("models", model)]
    owners += [plugin for plugin in _in_use.values() if {"formats", "metrics"} & plugin.offers.keys()]
    return tuple(dict.fromkeys(plugin.reference for plugin in owners if plugin is not None))
