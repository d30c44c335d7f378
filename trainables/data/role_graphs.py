"""Role graphs of captions: verbs, and the phrases that play a role in them, in HGR's form [Chen2020].

``graphs.jsonl`` has a sentence a line::

    {"sentence": "a dog runs", "nodes": {"1": {"role": "V", "spans": [2]}, "2": {"role": "ARG0", "spans": [0, 1]}},
     "edges": [["1", "2", "ARG0"]]}

``spans`` are the places of a node's words in the sentence, which is cut at blanks, from 0. A file of HGR's,
``sent2rolegraph.augment.json``, is one object: sentence -> [nodes, edges]. As in HGR, the first ``VERBS`` nodes of role
V and the first ``PHRASES`` other nodes count, in the order of the file, ROOT not at all. An edge joins a verb with a
phrase. Roles of continued and repeated arguments (C-ARG0, R-ARG0) are those of the argument, and an unknown role is
NOUN.

References:
    [Chen2020] Chen et al., Fine-grained Video-Text Retrieval with Hierarchical Graph Reasoning. arXiv:2003.00392; code
        cshizhe/hgr_v2t@6727703, t2vretrieval/readers/rolegraphs.py.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trainables.data.sentences import Sentence, WordLayout, text_key
from trainables.data.text_files import numbered_lines, read_json
from trainables.errors import DataError

# fmt: off
ROLES = (
    "V", "ARG1", "ARG0", "ARG2", "ARG3", "ARG4", "ARGM-LOC", "ARGM-MNR", "ARGM-TMP", "ARGM-DIR", "ARGM-ADV", "ARGM-PRP",
    "ARGM-PRD", "ARGM-COM", "ARGM-MOD", "NOUN",
)
# fmt: on
"""Roles of nodes, in the order of their embeddings."""

VERBS, PHRASES = 4, 6
"""Verbs, and phrases, of a caption that count at most."""

NONE = -1
"""Role of a place without a node."""

Span = tuple[int, ...]
"""Places of a node's words in a sentence."""


class RoleGraph(NamedTuple):
    """The graph of a sentence that counts: spans of verbs, spans and roles of phrases, and pairs (verb, phrase)."""

    verbs: tuple[Span, ...]
    phrases: tuple[tuple[str, Span], ...]
    links: frozenset[tuple[int, int]]


def read_role_graphs(path: Path, problems: list[str]) -> dict[str, Sentence]:
    """Return the sentences of a file by the key of their text.

    Raises:
        DataError: If the file cannot be read; a broken sentence is a problem that names its line or itself.
    """
    sentences: dict[str, Sentence] = {}
    for place, sentence, nodes, edges in _entries(path, problems):
        words = tuple(sentence.split())
        graph = _graph(nodes, edges, len(words))
        if isinstance(graph, str) or not words:
            problems.append(f"{place}: {graph if isinstance(graph, str) else 'a sentence without words'}")
            continue
        sentences.setdefault(text_key(sentence), Sentence(place, words, graph))
    return sentences


def number_graph(graph: RoleGraph, layout: WordLayout) -> Mapping[str, np.ndarray]:
    """Return the numbers of a role graph.

    Returns:
        ``phrases``, (T,), int16: bit n says that a token belongs to node n, the verbs first, then the phrases from
        bit ``VERBS`` on; ``roles``, (1, VERBS + PHRASES), int16: index in ``ROLES``, or ``NONE``; ``links``, (1,
        VERBS), int16: bit p says that a verb is joined with phrase p.
    """
    spans = {node: span for node, span in enumerate(graph.verbs)}
    spans |= {VERBS + node: span for node, (_, span) in enumerate(graph.phrases)}
    phrases = np.zeros(layout.tokens, dtype=np.int16)
    roles = np.full((1, VERBS + PHRASES), NONE, dtype=np.int16)
    for node, span in spans.items():
        words = set(span)
        places = [place for place, word in enumerate(layout.word_of) if word in words]
        # A word that has become part of another token is found by that token.
        places = places or [layout.first[word] for word in span if layout.first[word] >= 0]
        if places:
            phrases[places] |= 1 << node
            roles[0, node] = ROLES.index("V" if node < VERBS else graph.phrases[node - VERBS][0])
    links = np.zeros((1, VERBS), dtype=np.int16)
    for verb, phrase in graph.links:
        if NONE not in (roles[0, verb], roles[0, VERBS + phrase]):
            links[0, verb] |= 1 << phrase
    return {"phrases": phrases, "roles": roles, "links": links}


def role_of(name: str) -> str:
    """Return the role that a name means.

    Example:
        >>> role_of("C-ARG1"), role_of("ARGM-GOL")
        ('ARG1', 'NOUN')
    """
    plain = name.removeprefix("C-").removeprefix("R-")
    return plain if plain in ROLES else "NOUN"


def _entries(path: Path, problems: list[str]) -> Iterable[tuple[str, str, Any, Any]]:
    """Yield place, sentence, nodes and edges of each entry."""
    if path.suffix == ".json":
        for number, (sentence, entry) in enumerate(read_json(path).items()):
            place = f"{path}: entry {number} ({sentence!r:.40})"
            if not isinstance(entry, list) or len(entry) != 2:
                problems.append(f"{place}: must be [nodes, edges], got {entry!r:.40}")
            else:
                yield place, sentence, *entry
        return
    for place, line in numbered_lines(path):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError) as error:
            reason = "nested too deeply" if isinstance(error, RecursionError) else error
            raise DataError(f"{place}: broken JSON: {reason}; make the file again") from None
        if not isinstance(entry, dict) or not isinstance(entry.get("sentence"), str):
            problems.append(f"{place}: must be an object with sentence, nodes and edges, got {line!r:.40}")
        else:
            yield place, entry["sentence"], entry.get("nodes"), entry.get("edges")


def _graph(nodes: Any, edges: Any, words: int) -> RoleGraph | str:
    """Return the graph of an entry's nodes and edges, or what is wrong with it."""
    if not isinstance(nodes, dict) or not isinstance(edges, list):
        return f"nodes must be an object, and edges a list, got {nodes!r:.30} and {edges!r:.30}"
    verbs: dict[str, Span] = {}
    phrases: dict[str, tuple[str, Span]] = {}
    for key, node in nodes.items():
        if problem := _node_problem(node, words):
            return f"node {key!r:.20}: {problem}"
        if node["role"] == "V" and len(verbs) < VERBS:
            verbs[key] = tuple(node["spans"])
        elif node["role"] not in ("V", "ROOT") and len(phrases) < PHRASES:
            phrases[key] = role_of(node["role"]), tuple(node["spans"])
    links = set()
    for edge in edges:
        if not isinstance(edge, list) or len(edge) < 2:
            return f"an edge must be [from, to, role], got {edge!r:.40}"
        verb, phrase = str(edge[0]), str(edge[1])
        if verb in verbs and phrase in phrases:
            links.add((list(verbs).index(verb), list(phrases).index(phrase)))
    return RoleGraph(tuple(verbs.values()), tuple(phrases.values()), frozenset(links))


def _node_problem(node: Any, words: int) -> str | None:
    """Return what is wrong with a node of a sentence of some words; the root's spans are not read."""
    if not isinstance(node, dict) or not isinstance(node.get("role"), str):
        return f"must have a role and spans, got {node!r:.40}"
    spans = node.get("spans")
    if node["role"] == "ROOT" or (isinstance(spans, list) and spans and all(_is_place(at, words) for at in spans)):
        return None
    return f"spans must be places of the sentence's {words} words, got {spans!r:.40}"


def _is_place(value: Any, words: int) -> bool:
    return type(value) is int and 0 <= value < words
