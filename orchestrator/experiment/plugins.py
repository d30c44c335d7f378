"""The plug-ins of an experiment: names in its file become text and digest, and their offers join our tables."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema

from orchestrator.experiment.values import SAMPLERS
from orchestrator.experiment.yaml_files import Document
from search_spaces import SPACES, SpaceError
from search_spaces.independent import independent_space
from trainables.errors import ConfigError
from trainables.hyper_parameters import declared_parameters
from trainables.metric_table import METRICS, name_parts
from trainables.model_parameters import FEATURES
from trainables.plugins.in_use import find_plugin, plugin_offering, use
from trainables.plugins.plugin import Plugin, providers


def use_plugins(plugins: tuple[Plugin, ...]) -> tuple[Plugin, ...]:
    """Let the names that plug-ins offer be known, and return the plug-ins; no code runs.

    Raises:
        ConfigError: If a name is taken, or a space is refused.
    """
    for plugin in plugins:
        for about in plugin.offers.get("losses", {}).values():
            try:
                independent_space(declared_parameters(about, of_loss=True))
            except SpaceError as error:
                raise ConfigError(f"{about['place']}: {error}") from None
        use([plugin])
    return plugins


def load_plugins(sources: Sequence[str]) -> tuple[Plugin, ...]:
    """Read and run Python files or installed distributions once, and register their names.

    Raises:
        ConfigError: If a plug-in cannot be used.
    """
    return use_plugins(tuple(find_plugin(source) for source in sources))


def with_plugins(document: Document, further: Sequence[str], folder: Path) -> Document:
    """Return an experiment's keys with all its plug-ins: files beside its file by their paths, and installed plug-ins.

    ``further`` is ``--plugin``, relative to the working directory; ``folder`` holds the experiment's file.
    """
    plugins = document.values.get("plugins", [])
    if not isinstance(plugins, list):
        return document
    beside = [
        str(folder / plugin) if isinstance(plugin, str) and (folder / plugin).is_file() else plugin
        for plugin in plugins
    ]
    listed = [*beside, *further]
    listed += installed_sources(_names_in(document.values), listed)
    return replace(document, values={**document.values, "plugins": listed}) if listed else document


def installed_sources(names: Mapping[str, set[str]], listed: Sequence[Any] = ()) -> list[str]:
    """Return the installed distributions that offer one of some names, unless the names are ours.

    ``names`` are by kind; ``listed`` plug-ins are files, distributions, or whole plug-ins that a search wrote.

    Raises:
        ConfigError: If two distributions offer one of the names.
    """
    recorded = [plugin.get("offers", {}) for plugin in listed if isinstance(plugin, Mapping)]
    wanted = {}
    for kind, known in (("losses", SPACES), ("models", FEATURES), ("samplers", SAMPLERS), ("metrics", METRICS)):
        mine = {name for name in known if plugin_offering(kind, name) is None}
        wanted[kind] = names.get(kind, set()) - mine - {name for offers in recorded for name in offers.get(kind, {})}
    # A look through all installed distributions takes a moment, for which an experiment with our names does not wait.
    return providers(wanted, [plugin for plugin in listed if isinstance(plugin, str)]) if any(wanted.values()) else []


def _names_in(values: Mapping[str, Any]) -> dict[str, set[str]]:
    """Return the names in an experiment that a plug-in may offer, by kind."""
    search = values.get("search")
    sampler = search.get("sampler") if isinstance(search, Mapping) else None
    kinds = {
        "losses": values.get("losses"),
        "models": values.get("models"),
        "samplers": [sampler],
        "metrics": [name_parts(goal).measure for goal in _goals_in(values)],
    }
    return {
        kind: {name for name in names if isinstance(name, str)}
        for kind, names in kinds.items()
        if isinstance(names, list | tuple)
    }


def _goals_in(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the metrics that an experiment names, as they are typed."""
    search, overrides = values.get("search"), values.get("overrides")
    sections: list[Any] = [search, *(overrides if isinstance(overrides, list) else [])]
    objectives = search.get("objectives") if isinstance(search, Mapping) else None
    sections += objectives if isinstance(objectives, list) else []
    goals = (section.get("metric") if isinstance(section, Mapping) else section for section in sections)
    return (goal for goal in goals if isinstance(goal, str))


def changed_plugins(before: Sequence[Plugin], after: Sequence[Plugin]) -> list[str]:
    """Return a line for each change between the plug-ins of two starts of an experiment."""
    former = {plugin.name: plugin for plugin in before}
    now = {plugin.name: plugin for plugin in after}
    lines = [
        f"{former[name]} -> {now[name]}" for name in former if name in now and former[name].digest != now[name].digest
    ]
    lines += [f"{former[name]} is missing now" for name in former if name not in now]
    return lines + [f"{now[name]} is new" for name in now if name not in former]


def _read(sources: Any) -> Any:
    """Return plug-ins as values: a text names a file or a distribution; a whole plug-in stays as it is."""
    if not isinstance(sources, list | tuple):
        raise ConfigError("must be a list of Python files or installed distributions, e.g. [my_losses.py]")
    plugins: dict[str, Plugin] = {}
    for source in sources:
        plugin = find_plugin(source) if isinstance(source, str) else _whole(source)
        if plugins.setdefault(plugin.name, plugin).digest != plugin.digest:
            raise ConfigError(f"two plug-ins are called {plugin.name}; give one of the files another name")
    return tuple(plugins.values())


def _whole(plugin: Any) -> Any:
    if isinstance(plugin, Plugin):
        return plugin
    try:
        return Plugin(**plugin)
    except TypeError:
        raise ConfigError("a plug-in is a Python file, an installed distribution, or what a search wrote") from None


Plugins = Annotated[
    tuple[Plugin, ...],
    BeforeValidator(_read),
    AfterValidator(use_plugins),
    WithJsonSchema({"type": "array", "items": {"type": "string"}}, mode="validation"),
]
"""The key ``plugins``: typed files and distributions, or, in a resolved experiment, text and digest."""
