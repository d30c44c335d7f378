"""Which installed packages an extra brings, and environments that have these packages alone."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
NAME = "icr-orchestrator"
OWN = {"orchestrator", "search_spaces", "tests", "trainables"}


@cache
def asked(extra: str = "") -> tuple[Requirement, ...]:
    """Return what ``pyproject.toml`` asks for: of the core, or of an extra with the core and the extras in it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = list(map(Requirement, project["dependencies"]))
    for requirement in map(Requirement, project["optional-dependencies"][extra] if extra else ()):
        if requirement.name == NAME:
            found += [one for inner in sorted(requirement.extras) for one in asked(inner)]
        else:
            found.append(requirement)
    return tuple(dict.fromkeys(found))


def closure(requirements: Iterable[Requirement]) -> dict[str, Distribution]:
    """Return the installed packages that requirements bring, directly or not, by their canonical names."""
    found: dict[str, Distribution] = {}
    todo, seen = list(requirements), set()
    while todo:
        requirement = todo.pop()
        name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        try:
            found[name] = distribution(requirement.name)
        except PackageNotFoundError:
            # What the lock file leaves out on this platform.
            continue
        for inner in map(Requirement, found[name].requires or []):
            if inner.marker is None or any(inner.marker.evaluate({"extra": extra}) for extra in (*extras, "")):
                todo.append(inner)
    return found


def link(packages: Iterable[Distribution], folder: Path) -> None:
    """Fill the packages of an environment with hard links to the files of packages that are installed here."""
    here = Path(sysconfig.get_path("purelib")).resolve()
    there = folder / here.relative_to(Path(sys.prefix).resolve())
    for package in packages:
        for file in package.files or ():
            source = Path(str(package.locate_file(file)))
            if ".." in file.parts or not source.is_file() or not source.resolve().is_relative_to(here):
                continue
            target = there / file
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                os.link(source, target)


def make_environment(folder: Path, extra: str = "") -> Path:
    """Make an environment with the packages of the core, or of an extra, and ours; return its Python.

    The packages of others are hard links to those of this environment, which costs seconds and no download. Ours is
    built from a copy of the checkout and installed, so that a file which is missing from the package is missed.
    """
    uv = Path(sys.executable).parent / "uv"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    # Ours is built in the environment, by a package that torch brings and other extras do not.
    link([*closure(asked(extra)).values(), distribution("setuptools")], folder)
    sources, python = folder / "sources", folder / "bin" / "python"
    for name in sorted(OWN - {"tests"}):
        shutil.copytree(ROOT / name, sources / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, sources)
    install = [uv, "pip", "install", "--quiet", "--offline", "--no-deps", "--no-build-isolation"]
    subprocess.run([*install, "--python", python, sources], check=True)
    return python
