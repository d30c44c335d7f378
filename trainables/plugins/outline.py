"""The offers of a plug-in's file, read from an outline of its text without the imports of the file.

A plug-in imports torch, which would delay the refusal of an experiment with a mistake elsewhere. An outline has the
decorators, signatures, fields and literal constants of the text; it runs in milliseconds and has the offers of the
text. A text whose offers could depend on other code has no outline. Before a search begins, the code itself always
runs.
"""

import __future__

import ast
import sys
from types import ModuleType

from trainables.plugins.offers import offer_of
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
