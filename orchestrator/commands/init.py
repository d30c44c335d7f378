"""``orchestrator init``: a new experiment file, made from a shipped experiment."""

import re
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.text.terminal import say
from trainables.errors import ConfigError


def init(
    file: Annotated[Path, typer.Argument(help="File to write; my-search.yaml makes an experiment named my-search.")],
    source: Annotated[str, typer.Option("--from", help="Shipped experiment to begin with; see `list experiments`.")] = (
        "scenes-smoke"
    ),
) -> None:
    """Write an experiment file: the keys of a shipped experiment, all other keys as comments."""
    from orchestrator.experiment.experiment import load_experiment, shipped_experiments
    from search_spaces.space import suggestion

    shipped = shipped_experiments()
    if source not in shipped:
        raise ConfigError(
            f"--from {source}: no shipped experiment has this name; {suggestion(source, list(shipped), '')}"
        )
    if file.suffix not in (".yaml", ".yml") or not file.parent.is_dir():
        raise ConfigError(f"{file}: must be a .yaml file in a folder that is there")
    if file.exists():
        raise ConfigError(f"{file}: is there already; choose another name")
    from trainables.files import write_whole

    write_whole(file, begun_from(shipped[source].read_text(encoding="utf-8"), file))
    load_experiment(str(file))
    say(f"{file}: begun from {source}; change it, look at the plan with `orchestrator search {file} --dry-run`")


def begun_from(text: str, file: Path) -> str:
    """Return the text of an experiment under a new name, with the keys that the text leaves out as comments.

    Args:
        text: File of a shipped experiment.
        file: The new file, which names the experiment.
    """
    from orchestrator.commands.config_schema import list_keys

    former = re.search(r"^name: *(\S+)", text, re.M)
    assert former is not None
    renamed = re.sub(rf"(?<![\w-]){re.escape(former[1])}(?![\w-])", file.stem, text)
    renamed = renamed.replace(f"orchestrator search {file.stem}", f"orchestrator search {file}")
    told = "# All other keys, with their defaults; a key with a dot goes into its section (budget.hours)."
    lines = [renamed.rstrip("\n"), "", told]
    for key in list_keys("experiment"):
        if "[]" in key.name or key.default == "see below" or _is_set(text, key.name):
            continue
        lines.append(f"# {key.name}: {key.default}  # {key.meaning.replace('`', '')}")
    return "\n".join(lines) + "\n"


def _is_set(text: str, name: str) -> bool:
    """Say whether the text of an experiment sets a key, which may be in a section."""
    from orchestrator.experiment.yaml_text import parse_yaml

    values, _ = parse_yaml(text)
    for part in name.split("."):
        if not isinstance(values, dict) or part not in values:
            return False
        values = values[part]
    return True
