"""Where an experiment ran: versions, revision and machine, as they go into every record."""

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import orchestrator

REVISION = "ORCHESTRATOR_REVISION"
"""Environment variable that names the commit of code outside a repository, such as the code in an image."""

PACKAGES = ("icr-orchestrator", "torch", "numpy", "ray", "optuna", "mlflow")


def describe_environment() -> dict[str, Any]:
    """Return versions of Python and packages, the git revision of the code, and a description of the machine."""
    return {
        "versions": {"python": platform.python_version(), **package_versions()},
        "git_revision": git_revision(),
        "machine": {"host": platform.node(), "system": platform.platform(), "cpus": os.cpu_count()},
    }


def package_versions() -> dict[str, str]:
    """Return the versions of the packages on which results depend; a missing package is left out."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def git_revision() -> str | None:
    """Return the commit of the code, with ``-dirty`` where files differ from it; ``None`` where nothing tells it."""
    root = Path(orchestrator.__file__ or "").resolve().parent.parent
    if not (root / ".git").exists():
        return os.environ.get(REVISION) or None
    try:
        commit = _git(root, "rev-parse", "HEAD")
        changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{commit}-dirty" if changed else commit


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=10).stdout.strip()
