"""The plug-ins of an experiment: what its file names becomes text and digest, and the names join the tables of ours."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema

from orchestrator.experiment.yaml_files import Document
from search_spaces import SPACES, SpaceError
from search_spaces.declared import declared_bounds, declared_space
from trainables.config import FEATURES
from trainables.errors import ConfigError
from trainables.plugins.in_use import clash, find_plugin, in_use, outlined_plugin, owner_of, use, withdraw
from trainables.plugins.installed import providers
from trainables.plugins.plugin import Plugin

_spaces: set[str] = set()
"""Losses of plug-ins that have a space in ``SPACES``."""


def use_plugins(plugins: Iterable[Plugin]) -> None:
    """Let the names of plug-ins be known: losses with their spaces, models and forms of data; no code runs.

    Raises:
        ConfigError: If a name is taken, or a space is refused.
    """
    for plugin in plugins:
        spaces = {}
        for name, about in plugin.offers.get("losses", {}).items():
            if name in SPACES and name not in _spaces:
                raise clash(about["place"], name, "a loss of ours")
            try:
                spaces[name] = declared_space(about["space"], about["defaults"])
            except SpaceError as error:
                raise ConfigError(f"{about['place']}: {error}") from None
        former = in_use().get(plugin.name)
        use([plugin])
        if former is not None and former.digest != plugin.digest:
            # What the former version had and the new one has not is nobody's now.
            forget_plugins(())
        SPACES.update(spaces)
        _spaces.update(spaces)


def model_bounds(model: str) -> dict[str, Any]:
    """Return where the parameters of a plug-in's model are searched by default; nothing for ours."""
    plugin = owner_of("models", model)
    return {} if plugin is None else dict(declared_bounds(plugin.offers["models"][model]["space"]))


def model_defaults(model: str) -> dict[str, Any]:
    """Return what the parameters of a plug-in's model are where nothing is said; nothing for ours."""
    plugin = owner_of("models", model)
    return {} if plugin is None else dict(plugin.offers["models"][model]["defaults"])


def load_plugins(sources: Sequence[str], folder: Path | None = None) -> tuple[Plugin, ...]:
    """Read and run plug-ins once, and let their names be known.

    Args:
        sources: Python files, or names of installed distributions.
        folder: Where files are looked for first.

    Raises:
        ConfigError: If one cannot be used.
    """
    plugins = tuple(find_plugin(source, folder) for source in sources)
    use_plugins(plugins)
    return plugins


@contextmanager
def outlined(sources: Sequence[Any], folder: Path | None = None) -> Iterator[bool]:
    """Let the names of plug-ins be known for the length of a ``with`` block without running their code.

    So that a mistake elsewhere is refused before a plug-in imports torch.

    Args:
        sources: Python files, names of installed distributions, or whole plug-ins.
        folder: Where files are looked for first.

    Yields:
        Whether all of them are known in the block; where one is not, none is, and the code has to run.

    Raises:
        ConfigError: If one cannot be used.
    """
    new = [outlined_plugin(one, folder) for one in sources if isinstance(one, str)]
    plugins = [plugin for plugin in new if plugin is not None]
    if not plugins or len(plugins) < len(sources) or any(plugin.name in in_use() for plugin in plugins):
        yield False
        return
    try:
        use_plugins(plugins)
        yield True
    finally:
        forget_plugins([plugin.name for plugin in plugins])


def with_plugins(document: Document, further: Sequence[str], folder: Path) -> Document:
    """Return an experiment's keys with all its plug-ins: those beside its file by their paths, and installed ones.

    Args:
        document: As it was read.
        further: ``--plugin``, from the working directory.
        folder: Folder of the experiment's file.
    """
    given = document.values.get("plugins", [])
    if not isinstance(given, list):
        return document
    beside = [str(folder / one) if isinstance(one, str) and (folder / one).is_file() else one for one in given]
    listed = [*beside, *further]
    listed += [name for name in _installed(document.values) if name not in listed]
    return replace(document, values={**document.values, "plugins": listed}) if listed else document


def _installed(values: Mapping[str, Any]) -> list[str]:
    """Return the installed distributions that offer a loss or a model that the experiment names and nobody has yet."""
    whole = [one for one in values.get("plugins", []) if isinstance(one, Mapping)]
    wanted = {}
    for kind, known in (("losses", SPACES), ("models", FEATURES)):
        mine = {name for name in known if owner_of(kind, name) is None}
        recorded = {name for plugin in whole for name in plugin.get("offers", {}).get(kind, {})}
        wanted[kind] = _names(values.get(kind)) - mine - recorded
    # Looking through all that is installed takes a moment, which an experiment with our names alone need not wait for.
    return providers(wanted) if any(wanted.values()) else []


def changed_plugins(before: Mapping[str, Any], after: Sequence[Plugin]) -> list[str]:
    """Return what changed between the plug-ins of two starts of an experiment, a line each.

    Args:
        before: The resolved experiment of the former start.
        after: The plug-ins of now.
    """
    former = {one["name"]: Plugin(**one) for one in before.get("plugins", ())}
    now = {one.name: one for one in after}
    lines = [
        f"{former[name]} -> {now[name]}" for name in former if name in now and former[name].digest != now[name].digest
    ]
    lines += [f"{former[name]} is missing now" for name in former if name not in now]
    return lines + [f"{now[name]} is new" for name in now if name not in former]


def _names(given: Any) -> set[str]:
    return {name for name in given if isinstance(name, str)} if isinstance(given, list | tuple) else set()


def _read(given: Any) -> Any:
    """Return plug-ins as values: a text names a file or a distribution; what is whole already stays."""
    if not isinstance(given, list | tuple):
        raise ConfigError("must be a list of Python files or installed distributions, e.g. [my_losses.py]")
    found: dict[str, Plugin] = {}
    for one in given:
        plugin = find_plugin(one) if isinstance(one, str) else _whole(one)
        if found.setdefault(plugin.name, plugin).digest != plugin.digest:
            raise ConfigError(f"two plug-ins are called {plugin.name}; give one of the files another name")
    return tuple(found.values())


def _whole(one: Any) -> Any:
    if isinstance(one, Plugin):
        return one
    try:
        return Plugin(**one)
    except TypeError:
        raise ConfigError("a plug-in is a Python file, an installed distribution, or what a search wrote") from None


def _use(plugins: tuple[Plugin, ...]) -> tuple[Plugin, ...]:
    use_plugins(plugins)
    return plugins


Plugins = Annotated[
    tuple[Plugin, ...],
    BeforeValidator(_read),
    AfterValidator(_use),
    WithJsonSchema({"type": "array", "items": {"type": "string"}}, mode="validation"),
]
"""The key ``plugins``: files and distributions as they are typed; text and digest where an experiment is whole."""


def forget_plugins(names: Iterable[str]) -> None:
    """Take plug-ins out of the tables, with the spaces of their losses; those that are not there are passed over."""
    for name in names:
        withdraw(name)
    for loss in [loss for loss in _spaces if owner_of("losses", loss) is None]:
        _spaces.discard(loss)
        SPACES.pop(loss, None)
