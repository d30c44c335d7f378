"""Imports a plug-in's code by its path, and finds what the code offers.

The recorded text of a plug-in is imported from the user's cache, where a folder for each digest holds it. So a machine
that has the file and a node that has only the text run the same code, whatever else is installed there.
"""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from trainables.errors import ConfigError, PluginError
from trainables.files import cache_folder, write_whole
from trainables.plugins.blame import LABELS, Blaming, find_place
from trainables.plugins.offers import Offer, offer_of
from trainables.plugins.plugin import Plugin


def import_plugin(plugin: Plugin) -> ModuleType:
    """Import the module of a plug-in; its code runs once in a process.

    A file gets a module name of its own for each version. A package keeps its name, because its modules import each
    other by it; a version that was imported under this name before is imported no longer.

    Raises:
        PluginError: If the code raises, or imports a missing module; the message names file and line.
    """
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
    module = import_plugin(plugin)
    found: list[Offer] = []
    for kind, entries in plugin.entries.items():
        for name, target in entries.items():
            thing = _resolve(plugin, target)
            marked = offer_of(thing) or Offer(kind, name, thing)
            found.append(Offer(kind, name, thing, marked.space, marked.options))
    if not plugin.entries:
        things = {id(thing): thing for thing in vars(module).values() if not isinstance(thing, ModuleType)}
        found = [offer for thing in things.values() if (offer := offer_of(thing)) is not None]
    offers: dict[tuple[str, str], Offer] = {}
    for offer in found:
        if offers.setdefault((offer.kind, offer.name), offer) is not offer:
            raise PluginError(f"{_place_of(plugin, offer.thing)}: {plugin.name} offers {offer.name!r} twice")
    if not offers:
        raise PluginError(
            f"{plugin.name}: offers nothing; put @loss(...), @model(...) or @data_format(...) of trainables.plugins "
            f"before a function or class"
        )
    return offers


def describe_offers(plugin: Plugin) -> dict[str, dict[str, dict[str, Any]]]:
    """Import a plug-in, and return its offers as plain values, by kind and name.

    Raises:
        PluginError: See ``offers_of``.
        ConfigError: If a function or class does not fit its decorator.
    """
    described: dict[str, dict[str, dict[str, Any]]] = {}
    for (kind, name), offer in offers_of(plugin).items():
        described.setdefault(kind, {})[name] = offer.describe(_place_of(plugin, offer.thing))
    return described


def _path_of(plugin: Plugin) -> Path:
    """Return the path of the plug-in's file, or of its package's first module; the text is written where it is not yet.

    Raises:
        ConfigError: If the folder cannot be written.
    """
    folder = cache_folder() / "plugins" / plugin.digest
    for name, text in plugin.files.items():
        file = folder / name
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
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
    """Return the object that an entry point ``MODULE:ATTRIBUTE`` names."""
    name, _, attribute = target.partition(":")
    thing: Any = _run(plugin, import_module, name)
    for part in attribute.split("."):
        if not hasattr(thing, part):
            raise PluginError(f"{plugin.name}: its entry point names {target}, but {name} has no {attribute}")
        thing = getattr(thing, part)
    return thing


def _place_of(plugin: Plugin, thing: Any) -> str:
    """Return ``FILE:LINE`` of the definition of a function or class; the file alone where the line is unknown."""
    module = sys.modules.get(getattr(thing, "__module__", ""))
    label = LABELS.get(getattr(module, "__file__", None) or "", plugin.name)
    for node in ast.parse(plugin.files.get(label, "")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == getattr(thing, "__name__", ""):
            return f"{label}:{node.lineno}"
    return plugin.name
