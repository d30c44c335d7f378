"""The plug-ins of a packed model: their text lies beside the model, and runs only if the user trusts it."""

import warnings
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from trainables.config import TrialConfig
from trainables.errors import CheckpointError, ConfigError
from trainables.plugins.in_use import in_use, use
from trainables.plugins.plugin import Plugin

FOLDER = "plugins"


def write_plugins(folder: Path, config: TrialConfig) -> list[dict[str, Any]]:
    """Write the text of the plug-ins that a training depended on, and return their descriptions.

    Args:
        folder: Folder of the packed model.
        config: Config of the training.
    """
    known = [plugin for plugin in in_use().values() if plugin.reference in config.plugins]
    for plugin in known:
        for path, text in plugin.files.items():
            file = folder / FOLDER / plugin.name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    return [{**asdict(plugin), "files": list(plugin.files)} for plugin in known]


def use_packed(folder: Path, about: Mapping[str, Any], *, trust: bool) -> None:
    """Take the packed plug-in of the model into use; for a model of ours, nothing runs.

    Args:
        folder: Folder of the packed model.
        about: Content of ``retriever.json``.
        trust: Whether the code may run.

    Raises:
        CheckpointError: If the code may not run, or has changed since it was packed.
    """
    model = about["config"]["model"]
    offering = [one for one in about.get("plugins", ()) if model in one["offers"].get("models", {})]
    for one in offering:
        plugin = _read(folder, one)
        loaded = in_use().get(plugin.name)
        if loaded is not None and loaded.digest == plugin.digest:
            continue
        told = f"the model {model} of {folder} is code of the plug-in {plugin}, under {folder / FOLDER / plugin.name}"
        if not trust:
            raise CheckpointError(
                f"{told}; it would run with your rights: read it, then say that you trust it (--trust-plugins, or "
                f"trust_plugins=True in Python)"
            )
        warnings.warn(f"{told}; it runs now", stacklevel=3)
        use([plugin])


def _read(folder: Path, one: Mapping[str, Any]) -> Plugin:
    """Return a packed plug-in; its text must not have changed."""
    root = (folder / FOLDER).resolve()
    try:
        files = {}
        for path in one["files"]:
            file = (root / one["name"] / path).resolve()
            if not file.is_relative_to(root):
                raise CheckpointError(f"{folder}: its plug-in {one['name']} names a file outside: {path}")
            files[path] = file.read_text(encoding="utf-8")
        return Plugin(**{**one, "files": files})
    except (OSError, KeyError, TypeError, ConfigError) as error:
        raise CheckpointError(f"{folder}: damaged: {str(error).splitlines()[0]}; register the model again") from None
