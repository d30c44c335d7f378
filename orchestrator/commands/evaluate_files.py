"""``orchestrator evaluate`` of files: embeddings or similarities of any model, of one or of two, and choices."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.results.answer import Answer
from orchestrator.results.retrieval import (
    METRICS,
    Retrieved,
    choices_answer,
    judged_answers,
    judged_values,
    length_answers,
    metrics_answers,
    split_values,
)
from orchestrator.text.terminal import path_text, say
from orchestrator.text.wording import listed
from orchestrator.views.forms import print_answers
from orchestrator.workload.vectors import RankedFiles, rank_files, read_choices, write_captions
from trainables.data.dataset import Split, load_dataset
from trainables.errors import ConfigError
from trainables.extras import require
from trainables.judged_ranks import JudgedSplit
from trainables.judgement_files import load_judgements
from trainables.ranks import write_ranks

LIMIT = "The interval is over images of this kind, for the models as they are: another training may give other numbers."


@dataclass(frozen=True)
class FilesRequest:
    """What is asked of files; see the options of ``orchestrator evaluate``."""

    files: Sequence[Path]
    against: Sequence[Path]
    dataset: str | None
    split: str
    folds: int
    metric: str
    by_length: bool
    cut: Mapping[int, Sequence[Path]]
    choices: bool
    questions: Path | None
    captions_to: Path | None
    ranks: Path | None
    data_root: Path
    form: str


def is_of_files(files: Sequence[Path], captions_to: Path | None) -> bool:
    """Whether a command line is about files of arrays, and not about a checkpoint."""
    return captions_to is not None or len(files) > 1 or any(file.suffix == ".npy" for file in files)


def cut_files(texts: Sequence[str]) -> dict[int, list[Path]]:
    """Return words -> files of ``--cut WORDS=FILE``, in the order of the models.

    Raises:
        ConfigError: If a text is no number and file.
    """
    files: dict[int, list[Path]] = {}
    for text in texts:
        words, equals, file = text.partition("=")
        if not (equals and file and words.isdecimal() and int(words)):
            raise ConfigError(f"--cut must be WORDS=FILE, such as --cut 5=captions_5.npy; got {text!r}")
        files.setdefault(int(words), []).append(Path(file))
    return files


def evaluate_files(request: FilesRequest) -> None:
    """Print the answers about files of one model or two."""
    require("report", "`orchestrator evaluate` of files", "scipy")
    answers = _choices(request) if request.choices else _retrieval(request)
    if answers:
        print_answers(answers, request.form)


def _choices(request: FilesRequest) -> list[Answer]:
    sides = [request.files, *([request.against] if request.against else [])]
    if any(len(files) not in (1, 3) for files in sides) or len({len(files) for files in sides}) != 1:
        raise ConfigError("--choices takes three files, IMAGES RIGHT WRONG, or one file of scores, for each model")
    answered = [read_choices(files, request.questions) for files in sides]
    if len({len(choices.correct) for choices in answered}) != 1:
        raise ConfigError(f"the models answer {' and '.join(f'{len(one.correct):,}' for one in answered)} questions")
    models = list(zip(_names(sides), (choices.correct for choices in answered), strict=True))
    return [choices_answer(models[0], models[1] if len(models) > 1 else None, answered[0].images)]


def _retrieval(request: FilesRequest) -> list[Answer]:
    if request.dataset is None:
        raise ConfigError("--dataset must name the dataset whose images and captions the rows are")
    if request.metric not in METRICS:
        raise ConfigError(f"--metric must be one of {', '.join(METRICS)}, got {request.metric!r}")
    split: Split = load_dataset(request.dataset, request.data_root, features=None).splits[request.split]
    if request.captions_to is not None:
        written = write_captions(request.captions_to, split)
        say(f"{len(split.captions):,} captions of {len(split.image_rows):,} images: {listed(map(path_text, written))}")
        say("next: encode the lines in their order, and give the arrays to `orchestrator evaluate`")
        return []
    sides = [request.files, *([request.against] if request.against else [])]
    if any(len(files) not in (1, 2) for files in sides):
        raise ConfigError("evaluate takes two files, IMAGES CAPTIONS, or one file of similarities, for each model")
    if request.folds > 1 and (request.by_length or request.cut or request.ranks):
        raise ConfigError("--folds ranks parts of the split; leave it out with --by-length, --cut or --ranks")
    judgements = load_judgements(request.dataset, request.data_root, {request.split: split})
    sources = judgements.get(request.split, []) if request.folds == 1 else []
    ranked = [rank_files(files, split, folds=request.folds, judgements=sources) for files in sides]
    names = _names(sides)
    if request.ranks is not None:
        write_ranks(request.ranks, ranked[0].folds[0])
    answers = _metrics(request, names, ranked, sources)
    if request.by_length or request.cut:
        answers += _lengths(request, names, ranked, split)
    return answers


def _metrics(
    request: FilesRequest, names: Sequence[str], ranked: Sequence[RankedFiles], sources: Sequence[JudgedSplit]
) -> list[Answer]:
    dataset = str(request.dataset)
    models = [Retrieved(name, split_values(one.folds)) for name, one in zip(names, ranked, strict=True)]
    folds = f", mean of {request.folds} folds" if request.folds > 1 else ""
    title = f"{request.split}{folds}"
    answers = metrics_answers(dataset, models[0], models[1] if len(models) > 1 else None, request.metric, title)
    by_source = [
        {source: Retrieved(name, values) for source, values in judged_values(one.judged).items()}
        for name, one in zip(names, ranked, strict=True)
    ]
    if sources:
        answers += judged_answers(dataset, by_source[0], by_source[1] if len(by_source) > 1 else None)
    first, *others = answers
    return [Answer(**{**vars(first), "notes": (*first.notes, LIMIT)}), *others]


def _lengths(request: FilesRequest, names: Sequence[str], ranked: Sequence[RankedFiles], split: Split) -> list[Answer]:
    import numpy as np

    cut = {}
    sides = [request.files, *([request.against] if request.against else [])]
    for words, files in request.cut.items():
        if len(files) != len(sides):
            raise ConfigError(f"--cut {words}: needs {len(sides)} files, one per model in their order")
        # The captions of a pair of files, or all similarities, are replaced.
        replaced = [[*side[:-1], file] for side, file in zip(sides, files, strict=True)]
        cut[words] = [rank_files(side, split).folds[0] for side in replaced]
    lengths = np.array([len(caption.split()) for caption in split.captions])
    models = [(name, one.folds[0]) for name, one in zip(names, ranked, strict=True)]
    return length_answers(str(request.dataset), models, lengths, cut)


def _names(sides: Sequence[Sequence[Path]]) -> list[str]:
    """Return a name for each model: its file, or its folder where the files of both have equal names."""
    stems = [files[0].stem for files in sides]
    folders = [files[0].resolve().parent.name for files in sides]
    for names in (folders, stems):
        if len(sides) == 1 or len(set(names)) == len(sides):
            return names
    return ["first", "second"][: len(sides)]
