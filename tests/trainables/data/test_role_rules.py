"""Role graphs by rules: what plays which role in which verb."""

import re
from pathlib import Path

import pytest

from trainables.data.parses import Word
from trainables.data.role_graphs import ROLES
from trainables.data.role_rules import ROLE_OF, chunk_graph, role_graph

ROOT = Path(__file__).parents[3]

ROLES_BY_RULES = {
    "V",
    "ARG0",
    "ARG1",
    "ARG2",
    "ARGM-LOC",
    "ARGM-DIR",
    "ARGM-COM",
    "ARGM-MNR",
    "ARGM-TMP",
    "ARGM-ADV",
    "NOUN",
}


def parse(text: str) -> list[Word]:
    """``form/tag/head/relation`` of each word, heads from 1."""
    parts = [word.split("/") for word in text.split()]
    universal = {"NN": "NOUN", "VB": "VERB", "IN": "ADP", "DT": "DET", "RB": "ADV"}
    return [Word(f, f, universal.get(tag[:2], "X"), tag, int(head) - 1, rel) for f, tag, head, rel in parts]


def spelled(words: list[Word]) -> tuple[list[str], list[str]]:
    """Return nodes as ``ROLE words``, and edges as ``verb > words``."""
    nodes, edges = role_graph(words)
    said = {key: " ".join(words[place].form for place in node["spans"]) for key, node in nodes.items()}
    return [f"{node['role']} {said[key]}" for key, node in nodes.items()], [
        f"{said[a]} > {said[b]}" for a, b, _ in edges
    ]


CHILD = (
    "A/DT/2/det child/NN/5/nsubj in/IN/2/prep pink/JJ/3/pobj climbing/VBG/0/root up/RP/5/prt a/DT/8/det set/NN/5/dobj"
)
CASES = {
    "subject, particle, object": (
        CHILD,
        ["V climbing up", "ARG0 A child in pink", "ARG1 a set"],
        ["climbing up > A child in pink", "climbing up > a set"],
    ),
    "passive": (
        "ball/NN/3/nsubjpass is/VBZ/3/auxpass thrown/VBN/0/root by/IN/3/agent man/NN/4/pobj",
        ["V thrown", "ARG1 ball", "ARG0 by man"],
        ["thrown > ball", "thrown > by man"],
    ),
    "a noun that a participle describes": (
        "girl/NN/0/root going/VBG/1/acl into/IN/2/prep house/NN/3/pobj",
        ["V going", "ARG0 girl", "ARGM-DIR into house"],
        ["going > girl", "going > into house"],
    ),
    "a shared subject": (
        "dog/NN/2/nsubj runs/VBZ/0/root and/CC/2/cc jumps/VBZ/2/conj high/RB/4/advmod",
        ["V runs", "V jumps", "ARG0 dog", "ARGM-MNR high"],
        ["runs > dog", "jumps > dog", "jumps > high"],
    ),
    "with a person, with a thing": (
        "man/NN/2/nsubj plays/VBZ/0/root with/IN/2/prep friend/NN/3/pobj with/IN/2/prep ball/NN/5/pobj",
        ["V plays", "ARG0 man", "ARGM-COM with friend", "ARGM-MNR with ball"],
        ["plays > man", "plays > with friend", "plays > with ball"],
    ),
    "universal dependencies": (
        "dog/NN/2/nsubj sits/VBZ/0/root on/IN/5/case a/DT/5/det couch/NN/2/obl",
        ["V sits", "ARG0 dog", "ARGM-LOC on a couch"],
        ["sits > dog", "sits > on a couch"],
    ),
    "a clause of time": (
        "dog/NN/2/nsubj barks/VBZ/0/root while/IN/4/mark running/VBG/2/advcl",
        ["V barks", "V running", "ARG0 dog", "ARGM-TMP while running"],
        ["barks > dog", "barks > while running", "running > dog"],
    ),
    "no verb": (
        "two/CD/3/nummod brown/JJ/3/amod dogs/NNS/0/root on/IN/3/prep grass/NN/4/pobj",
        ["NOUN two brown dogs", "NOUN grass"],
        [],
    ),
}


@pytest.mark.parametrize("text, nodes, edges", CASES.values(), ids=CASES)
def test_rules(text: str, nodes: list[str], edges: list[str]) -> None:
    assert spelled(parse(text)) == (nodes, edges)


def test_a_circle_of_heads_ends() -> None:
    words = [Word("a", "a", "VERB", "VB", 1, "conj"), Word("b", "b", "VERB", "VB", 0, "conj")]
    assert len(role_graph(words)[0]) == 2


def test_roles_are_those_of_the_model() -> None:
    assert set(ROLES) >= ROLES_BY_RULES


def test_the_documents_list_the_rules() -> None:
    page = (ROOT / "docs" / "reference" / "data.md").read_text()
    rows = [re.findall(r"`([^`]+)`", line) for line in page.splitlines() if re.match(r"\| `(V|ARG|NOUN)", line)]
    listed = {name: row for row in rows for name in row if name in ROLES}
    assert listed.keys() == ROLES_BY_RULES
    assert {relation for row in rows for relation in row if relation not in ROLES} == ROLE_OF.keys()
    assert all(relation in listed[role] for relation, role in ROLE_OF.items())


def test_chunks_are_cut_at_punctuation_and_function_words() -> None:
    nodes, edges = chunk_graph(["a", "beating", "heart,", "pink", "bow", "on", "gift"])
    assert [node["spans"] for node in nodes.values()] == [[1, 2], [3, 4], [6]]
    assert edges == []
