"""``orchestrator init``: a new experiment file, made from a shipped experiment."""

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.commands.keys import list_keys
from orchestrator.commands.options import DataRoot
from orchestrator.experiment.experiment import load_experiment, shipped_experiments
from orchestrator.experiment.first_experiment import DatasetFacts, write_first
from orchestrator.experiment.yaml_files import parse_yaml
from orchestrator.results.search_designs import USUAL
from orchestrator.searches.designs import describe_designs, design_table, designs_of
from orchestrator.text.terminal import make_console, say, typed_program
from orchestrator.text.wording import printed
from search_spaces.other_names import suggestion
from trainables.data.features import open_features
from trainables.data.pictures import find_images
from trainables.data.source import dataset_names, find_source
from trainables.errors import ConfigError
from trainables.extras import is_installed, missing_modules
from trainables.files import write_whole

SCENES = "scenes-smoke"
"""Shipped experiment to begin with where there are no data; its own data can be generated."""


def init(
    file: Annotated[Path, typer.Argument(help="File to write; my-search.yaml makes an experiment named my-search.")],
    dataset: Annotated[
        str | None, typer.Option(help="Dataset to search on; by default the first that lies under DATA_ROOT.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from", help="Shipped experiment to begin with, see `list experiments`; by default as the data need."
        ),
    ] = None,
    encoder: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="CLIP or SigLIP to fine-tune on the dataset's pictures.")
    ] = None,
    data_root: DataRoot = Path("data"),
) -> None:
    """Write an experiment file on your data, with all other keys as comments with their meaning."""
    shipped = shipped_experiments()
    if source is not None and source not in shipped:
        hint = suggestion(source, list(shipped), "experiments that ship")
        raise ConfigError(f"--from {source}: no shipped experiment has this name; {hint}")
    if file.suffix not in (".yaml", ".yml") or not file.parent.is_dir():
        raise ConfigError(f"{file}: must be a .yaml file in a folder that is there")
    if file.exists():
        raise ConfigError(f"{file}: is there already; choose another name")

    names = datasets_under(data_root)
    named = None if encoder is None else _encoder_path(encoder, source, data_root, names)
    chosen = _choose(dataset, data_root, names)
    root = [] if data_root == Path("data") else ["--data-root", str(data_root)]
    hint = ""
    if source is None and (encoder is not None or chosen not in (None, "scenes")):
        datasets, begun_as = [str(chosen)], "a first search"
        command = shlex.join([typed_program(), "search", str(file), *root])
        facts = dataset_facts(str(chosen), data_root)
        begun = with_other_keys(write_first(facts, file.stem, command, named))
        hint = _hint(facts, encoder)
    else:
        source = source or SCENES
        text = shipped[source].read_text(encoding="utf-8")
        own = list(parse_yaml(text)[0]["datasets"])
        if dataset is None and (present := [name for name in own if name in names]):
            datasets = present
        else:
            datasets = own if chosen is None else [chosen]
        begun, begun_as = begun_from(text, file, own, datasets), f"begun from {source}"
    write_whole(file, begun)
    try:
        experiment = load_experiment(str(file))
    except ConfigError:
        # Most often the name of the file is no name of an experiment.
        file.unlink()
        raise
    rest = [name for name in names if name not in datasets]
    others = f" (--dataset for another: {', '.join(rest)})" if rest else ""
    say(f"{file}: {begun_as} on {', '.join(datasets)}{others}", *filter(None, [hint]))
    if missing := [name for name in datasets if name not in names]:
        place = data_root / missing[0]
        made = f"`orchestrator data generate scenes --out {place}` makes it"
        say(f"{data_root} has no {', '.join(missing)} yet: {made if missing == ['scenes'] else f'put it into {place}'}")
    # What a search needs has scipy; without it, the dry run that is named next asks for it, and prints this table too.
    designs = [] if missing_modules("scipy") else designs_of(experiment, USUAL)
    if designs:
        make_console(plain_width=160).print(design_table(designs, USUAL))
        say(*describe_designs(experiment, designs, USUAL))
    say(f"look at its plan: {shlex.join([typed_program(), 'search', str(file), *root, '--dry-run'])}")


def dataset_facts(name: str, data_root: Path) -> DatasetFacts:
    """Return what a first experiment needs to know of a dataset (``DataError`` if it cannot be read)."""
    source = find_source(name, data_root)
    corpus = source.read()
    train = corpus.split("train")
    dimensions = {}
    for kind in source.feature_kinds():
        path = next(iter(source.feature_files(kind).values()))
        dimensions[kind] = int(open_features(path).shape[-1])
    captions = sum(len(image.captions) for image in train)
    first = [image.filename for image in train[:1] if image.filename]
    about = (source.has_one_modality, source.has_label_sets, bool(find_images(source.folder, first)))
    return DatasetFacts(source.name, len(train), captions, dimensions, *about)


def _choose(dataset: str | None, data_root: Path, names: Sequence[str]) -> str | None:
    """Return the dataset to search on, by default the first; ``None`` where there is none."""
    if dataset is not None and dataset not in names:
        there = f"it holds {', '.join(names)}" if names else "it holds no dataset"
        raise ConfigError(f"--dataset {dataset}: no dataset under --data-root {data_root}; {there}")
    return next(iter(names), None) if dataset is None else dataset


def _hint(facts: DatasetFacts, encoder: Path | None) -> str:
    """Return what else could be trained; empty where there is nothing."""
    if encoder is not None or not facts.has_pictures or facts.has_classes or not is_installed("encoders"):
        return ""
    return "its pictures are there: --encoder FOLDER fine-tunes a CLIP or SigLIP of yours"


def _encoder_path(encoder: Path, source: str | None, data_root: Path, names: Sequence[str]) -> str:
    """Return the absolute path of an encoder; refuse a folder that is none, or where there is nothing to train on."""
    if not names:
        raise ConfigError(f"--encoder: --data-root {data_root} holds no dataset on which to fine-tune")
    if source is not None:
        raise ConfigError(f"--encoder: goes without --from {source}, which has models of its own")
    if not any((encoder / name).is_file() for name in ("open_clip_config.json", "config.json")):
        raise ConfigError(
            f"--encoder {encoder}: is no folder of an encoder; it needs open_clip_config.json or config.json, and the "
            "weights"
        )
    return str(encoder.resolve())


def datasets_under(data_root: Path) -> list[str]:
    """Return the names of the datasets under a data root; datasets that can be generated come last."""
    return sorted(dataset_names(data_root), key=lambda name: name in ("scenes", "classes"))


def begun_from(text: str, file: Path, former: Sequence[str] = (), datasets: Sequence[str] = ()) -> str:
    """Return a shipped experiment's text under the name of a new file, with the keys that it leaves out as comments.

    ``datasets`` take the place of its ``former`` datasets, in the description and the comments as well.
    """
    name = re.search(r"^name: *(\S+)", text, re.M)
    assert name is not None
    renamed = re.sub(rf"(?<![\w-]){re.escape(name[1])}(?![\w-])", lambda _: file.stem, text)
    renamed = renamed.replace(f"orchestrator search {file.stem}", f"orchestrator search {file}")
    if [*datasets] != [*former]:
        shown = ", ".join(each if re.fullmatch(r"[A-Za-z][\w-]*", each) else json.dumps(each) for each in datasets)
        renamed = re.sub(r"^datasets: .*$", lambda _: f"datasets: [{shown}]", renamed, flags=re.M)
        if len(former) > 1:
            # The comments and the description are about several datasets, such as languages.
            about = f"description: Begun from {name[1]}."
            renamed = f"# orchestrator search {file}\n{renamed[renamed.index('name: ') :]}"
            renamed = re.sub(r"^description: .*$", lambda _: about, renamed, flags=re.M)
        new = datasets[0] if re.fullmatch(r"\w[\w. -]*", datasets[0]) else "the dataset"
        for old in {former[0], printed(former[0])}:
            renamed = re.sub(rf"(?<![A-Za-z0-9-]){re.escape(old)}(?![\w-])", lambda _: new, renamed)
        # Overrides for datasets that are not searched.
        others = "|".join(re.escape(name) for name in former if name not in datasets)
        renamed = re.sub(rf"^ +- {{.*\bdatasets: \[(?:{others})\].*\n", "", renamed, flags=re.M)
    return with_other_keys(renamed)


def with_other_keys(text: str) -> str:
    """Return an experiment's text with the keys that it leaves out as comments."""
    comment = "# All other keys, with their defaults; a key with a dot goes into its section (budget.hours)."
    lines = [text.rstrip("\n"), "", comment]
    _, places = parse_yaml(text)
    for key in list_keys("experiment"):
        if "[]" in key["name"] or key["default"] == "see below" or key["name"] in places:
            continue
        lines.append(f"# {key['name']}: {key['default']}  # {key['meaning'].replace('`', '')}")
    return "\n".join(lines) + "\n"
