"""The offers of a plug-in: read from an outline of its text, or by running the text.

A plug-in imports torch, which would delay the refusal of an experiment with a mistake elsewhere. An outline has the
decorators, signatures, fields and literal constants of the text; it runs in milliseconds and has the offers of the
text. A text whose offers could depend on other code has no outline. Before a search begins, the code itself always
runs.

Runs a plug-in's code from its text, so that machines with the file and nodes with only the text run the same code.

A module's text is compiled under the plug-in's name for the file (``my_losses.py``), so that tracebacks show one name
on all machines. The modules of a package keep their names; the module of a single file gets a name of its own.
"""

import __future__

import ast
import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import CodeType, ModuleType
from typing import Any

from trainables.errors import PluginError
from trainables.plugins.blame import LABELS, Blaming, find_place
from trainables.plugins.offers import Offer, offer_of
from trainables.plugins.plugin import Plugin

LIGHT = frozenset({"__future__", "collections", "dataclasses", "enum", "functools", "math", "typing"})
"""Modules that an outline imports, beside ``trainables.plugins``."""

_UNKNOWN = (
    ArithmeticError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    SyntaxError,
    SystemExit,
    TypeError,
    ValueError,
)
"""Errors that a name or value missing from the outline raises, and the end of the program, which the code itself has to
answer for."""


def outline_of(plugin: Plugin) -> ModuleType | None:
    """Return a module with the offers of a plug-in's file; ``None`` where the code has to run for that."""
    if not plugin.is_file:
        return None
    module = ModuleType(f"{plugin.module}_outline")
    # A dataclass looks up the module of its class.
    sys.modules[module.__name__] = module
    try:
        body = [kept for node in ast.parse(plugin.files[plugin.name]).body for kept in _outlined(node)]
        tree = ast.fix_missing_locations(ast.Module(body, []))
        # Annotations stay text: most of them name torch.
        flags = __future__.annotations.compiler_flag
        exec(compile(tree, plugin.name, "exec", flags=flags, dont_inherit=True), vars(module))
    except _UNKNOWN:
        return None
    finally:
        del sys.modules[module.__name__]
    return module if any(offer_of(thing) for thing in vars(module).values()) else None


def _outlined(node: ast.stmt) -> list[ast.stmt]:
    """Return the part of a statement that the outline keeps."""
    match node:
        case ast.Import():
            return [ast.Import([name]) for name in node.names if _is_light(name.name)]
        case ast.ImportFrom():
            light = node.level == 0 and (node.module == "trainables.plugins" or _is_light(node.module or ""))
            return [node] if light else []
        case ast.FunctionDef():
            return [_without_work(node)] if node.decorator_list else []
        case ast.ClassDef():
            return [_class(node)] if node.decorator_list else []
        case ast.Assign() | ast.AnnAssign() | ast.Expr():
            return _constant(node)
    raise ValueError(f"line {node.lineno} has to be run")


def _is_light(module: str) -> bool:
    return module.partition(".")[0] in LIGHT


def _without_work(function: ast.FunctionDef) -> ast.FunctionDef:
    """Return a function with its docstring alone."""
    told = ast.get_docstring(function, clean=False)
    function.body = [ast.Expr(ast.Constant(told)), ast.Pass()]
    return function


def _class(node: ast.ClassDef) -> ast.ClassDef:
    """Return a class with its fields and signatures; a class with unknown bases may have more, and is refused."""
    if node.bases or node.keywords:
        raise ValueError(f"line {node.lineno}: what {node.name} inherits is not known")
    node.body = [_without_work(inner) if isinstance(inner, ast.FunctionDef) else inner for inner in node.body]
    return node


def _constant(node: ast.Assign | ast.AnnAssign | ast.Expr) -> list[ast.stmt]:
    """Return an assignment of a literal; other statements are left out, and refused if they call something."""
    if any(isinstance(inner, ast.Call) for inner in ast.walk(node)):
        raise ValueError(f"line {node.lineno} calls something")
    try:
        ast.literal_eval(node.value or ast.Constant(None))
    except ValueError:
        return []
    return [node]


class TextModules(InspectLoader, MetaPathFinder):
    """Finds and loads the modules of one plug-in from its text."""

    def __init__(self, plugin: Plugin) -> None:
        self.plugin = plugin
        if plugin.is_file:
            self._paths = {plugin.module: plugin.name}
        else:
            self._paths = {_module_of(path): path for path in plugin.files}
        LABELS.update(self._paths.values())

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the spec of a module of the plug-in; ``None`` for all others."""
        label = self._paths.get(fullname)
        if label is None:
            return None
        spec = spec_from_loader(fullname, self, origin=label)
        assert spec is not None
        spec.has_location = True
        return spec

    def is_package(self, fullname: str) -> bool:
        """Whether a module is a package."""
        return self._paths[fullname].endswith("__init__.py")

    def get_source(self, fullname: str) -> str:
        """Return the text of a module, from which tracebacks show lines."""
        return self.plugin.files[self._paths[fullname]]

    def get_code(self, fullname: str) -> CodeType:
        """Return a module's code, compiled under the plug-in's name for its file."""
        code: CodeType = compile(self.get_source(fullname), self._paths[fullname], "exec", dont_inherit=True)
        return code

    def forget(self) -> None:
        """Remove the modules, so that another version of the plug-in can be imported."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        for name in self._paths:
            sys.modules.pop(name, None)


_running: dict[str, TextModules] = {}
"""Name of a plug-in -> the importer of its modules in this process."""


def run_plugin(plugin: Plugin) -> ModuleType:
    """Import the module of a plug-in, once; its code runs.

    Raises:
        PluginError: If the code raises, or imports a missing module; the message names file and line.
    """
    _serve(plugin)
    return _import(plugin, plugin.module)


def offers_of(plugin: Plugin) -> dict[tuple[str, str], Offer]:
    """Run a plug-in, and return its offers by kind and name.

    Raises:
        PluginError: If the plug-in offers nothing, offers a name twice, or cannot be run.
    """
    return offers_in(plugin, run_plugin(plugin))


def offers_in(plugin: Plugin, module: ModuleType) -> dict[tuple[str, str], Offer]:
    """Return the offers of a plug-in's module by kind and name.

    Raises:
        PluginError: If the module offers nothing, or a name twice.
    """
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
            raise PluginError(f"{place_of(plugin, offer.thing)}: {plugin.name} offers {offer.name!r} twice")
    if not offers:
        raise PluginError(
            f"{plugin.name}: offers nothing; put @loss(...), @model(...) or @data_format(...) of trainables.plugins "
            f"before a function or class"
        )
    return offers


def place_of(plugin: Plugin, thing: Any) -> str:
    """Return ``FILE:LINE`` of the definition of a function or class; the file alone where the line is unknown."""
    name = getattr(thing, "__name__", "")
    paths = [path for path in plugin.files if plugin.is_file or _module_of(path) == getattr(thing, "__module__", "")]
    for path in paths:
        for node in ast.parse(plugin.files[path]).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
                return f"{path}:{node.lineno}"
    return plugin.name


def stop_running(name: str) -> None:
    """Remove the modules of a plug-in, so that its next version can run."""
    former = _running.pop(name, None)
    if former is not None:
        former.forget()


def _serve(plugin: Plugin) -> None:
    """Let imports find the plug-in's modules."""
    former = _running.get(plugin.name)
    if former is not None and former.plugin.digest == plugin.digest:
        return
    stop_running(plugin.name)
    modules = TextModules(plugin)
    modules.forget()
    _running[plugin.name] = modules
    # First in the path, because another version of the plug-in may be installed on this machine.
    sys.meta_path.insert(0, modules)


def _import(plugin: Plugin, name: str) -> ModuleType:
    try:
        with Blaming():
            return import_module(name)
    except PluginError as error:
        if "ImportError: attempted relative" in str(error) or "ModuleNotFoundError" in str(error):
            way_out = "install it on every node" if not plugin.is_file else "a plug-in of several files is a package"
            raise PluginError(f"{error}; a plug-in can import what is installed: {way_out}") from error
        raise
    except (ImportError, SyntaxError) as error:
        place = find_place(error, error.__traceback__) or plugin.name
        raise PluginError(f"{place}: {type(error).__name__}: {error}") from error


def _resolve(plugin: Plugin, target: str) -> Any:
    name, _, attribute = target.partition(":")
    found: Any = _import(plugin, name)
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise PluginError(f"{plugin.name}: its entry point names {target}, but {name} has no {attribute}")
        found = getattr(found, part)
    return found


def _module_of(path: str) -> str:
    """Return the name of the module at a path: ``a/b.py`` is ``a.b``, ``a/__init__.py`` is ``a``."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def describe(plugin: Plugin, offers: Mapping[tuple[str, str], Offer]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the offers of a plug-in as plain values, by kind and name.

    Raises:
        ConfigError: If a function or class does not fit its decorator.
    """
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for (kind, name), offer in offers.items():
        found.setdefault(kind, {})[name] = offer.describe(place_of(plugin, offer.thing))
    return found
