"""Writes the parses and role graphs of a dataset's captions: with a spaCy pipeline, of a parse, or without a parser."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.extraction.feature_files import check_targets, open_corpus
from trainables.data.parses import Word, read_parses
from trainables.data.role_rules import chunk_graph, role_graph
from trainables.data.sentences import text_key
from trainables.errors import ConfigError, DataError
from trainables.extras import require
from trainables.files import write_whole

if TYPE_CHECKING:
    from spacy.tokens import Doc

CHUNKS = "chunks"
"""Name in place of a pipeline: no parser, phrases alone."""

PARSES, GRAPHS = "captions.conllu", "graphs.jsonl"

Progress = Callable[[int, int], None]


def parse_captions(
    dataset: str,
    data_root: Path,
    pipeline: str | None,
    out: Path | None,
    on_progress: Progress = lambda done, total: None,
) -> dict[str, Any]:
    """Write ``graphs.jsonl`` of a dataset, and with a spaCy pipeline ``captions.conllu``.

    Args:
        dataset: A folder under ``data_root``, or a path.
        data_root: Folder of datasets.
        pipeline: Name or folder of a spaCy pipeline with tagger and parser; ``chunks`` for no parser; ``None`` takes
            the parses that lie in the dataset's folder.
        out: Folder to write; by default the dataset's.
        on_progress: Called with the number of sentences that are parsed, and of all.

    Returns:
        Plain values for JSON: ``sentences``, ``verbs`` and ``phrases`` that were found in all, and ``files``.

    Raises:
        ConfigError: If the pipeline cannot be loaded or does not parse, or a file exists already.
        DataError: If the dataset is missing, has problems, or has no parse where one is to be read.
        MissingExtraError: If spaCy is not installed.
    """
    corpus, _ = open_corpus(dataset, data_root, out, [])
    source = data_root / dataset if (data_root / dataset).is_dir() else Path(dataset)
    folder = out or source
    captions = list(dict.fromkeys(caption for image in corpus.images for caption in image.captions))
    is_parsed_here = pipeline not in (None, CHUNKS)
    targets = [folder / name for name in ((PARSES, GRAPHS) if is_parsed_here else (GRAPHS,))]
    check_targets(folder, targets)
    if pipeline == CHUNKS:
        graphs = [(caption, chunk_graph(caption.split())) for caption in captions]
    else:
        parsed = _by_spacy(captions, str(pipeline), on_progress) if is_parsed_here else _read(source / PARSES, captions)
        graphs = [(" ".join(word.form for word in words), role_graph(words)) for words in parsed]
        if is_parsed_here:
            write_whole(targets[0], "".join(map(_conllu, captions, parsed)))
    lines = [
        json.dumps({"sentence": sentence, "nodes": nodes, "edges": edges}, ensure_ascii=False)
        for sentence, (nodes, edges) in graphs
    ]
    write_whole(targets[-1], "\n".join(lines) + "\n")
    roles = [node["role"] for _, (nodes, _) in graphs for node in nodes.values()]
    counts = {"verbs": roles.count("V"), "phrases": len(roles) - roles.count("V")}
    return {"sentences": len(graphs), **counts, "files": list(map(str, targets))}


def _read(path: Path, captions: Sequence[str]) -> list[tuple[Word, ...]]:
    """Return the parse of each caption from a file."""
    if not path.exists():
        raise ConfigError(f"{path}: is not there; name a spaCy pipeline with --pipeline, or --pipeline {CHUNKS}")
    problems: list[str] = []
    sentences = read_parses(path, problems)
    missing = [caption for caption in captions if text_key(caption) not in sentences]
    if missing:
        problems.append(f"{path}: has no sentence for {len(missing):,} captions, the first {missing[0]!r:.60}")
    if problems:
        raise DataError(problems)
    return [sentences[text_key(caption)].content for caption in captions]


def _by_spacy(captions: Sequence[str], name: str, on_progress: Progress) -> list[tuple[Word, ...]]:
    """Return the parse of each caption by a pipeline."""
    require("parse", "`orchestrator data parse --pipeline`")
    parsed = []
    for words in _parsed(load_pipeline(name).pipe(captions)):
        parsed.append(words)
        on_progress(len(parsed), len(captions))
    return parsed


def load_pipeline(name: str) -> Any:
    """Return a spaCy pipeline by its name or folder (``ConfigError`` if there is none, or it has no parser)."""
    import spacy

    try:
        pipeline = spacy.load(name)
    except (OSError, ValueError, ImportError) as error:
        raise ConfigError(f"--pipeline {name}: cannot be loaded by spaCy: {error!s:.120}") from None
    if "parser" not in pipeline.pipe_names:
        raise ConfigError(f"--pipeline {name}: has no parser; take a pipeline with tagger and parser")
    return pipeline


def _parsed(documents: "Iterable[Doc]") -> Iterator[tuple[Word, ...]]:
    for document in documents:
        kept = [token for token in document if not token.is_space]
        place_of = {token.i: place for place, token in enumerate(kept)}
        yield tuple(
            Word(
                token.text,
                token.lemma_ or token.text,
                token.pos_ or "X",
                token.tag_ or "X",
                -1 if token.head is token or token.head.i == token.i else place_of.get(token.head.i, -1),
                token.dep_.lower() or "dep",
            )
            for token in kept
        )


def _conllu(caption: str, words: Sequence[Word]) -> str:
    lines = [f"# text = {' '.join(caption.split())}"]
    for number, word in enumerate(words, 1):
        columns = (number, word.form, word.lemma, word.universal, word.tag, "_", word.head + 1, word.relation, "_", "_")
        lines.append("\t".join(map(str, columns)))
    return "\n".join(lines) + "\n\n"
