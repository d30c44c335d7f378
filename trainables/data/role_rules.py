"""Role graphs from dependency parses, by rules in place of a labeller of semantic roles.

Relations are those of spaCy's English pipelines, and of Universal Dependencies where they differ.

    verb        a word with a tag VB*, or the universal tag VERB, that is no auxiliary; with its particle
    ARG0        its nsubj or csubj; the noun that an active participle or relative clause describes; the object of "by"
    ARG1        its dobj, obj, attr, oprd; its nsubjpass; the noun that a passive participle describes
    ARG2        its iobj or dative
    ARGM-LOC    a prepositional phrase with a preposition of ``PLACES``;  ARGM-DIR  of ``WAYS``
    ARGM-COM    one with "with" and a person of ``PEOPLE``;  ARGM-MNR  with another object, and advmod
    ARGM-TMP    a clause with a mark of ``TIMES``, and npadvmod;  ARGM-ADV  any other prepositional phrase
    NOUN        where no verb is found: each noun with its determiners, adjectives and compounds

A verb without a subject has that of the verb that it continues (conj, xcomp, advcl). A phrase is the subtree of its
word, cut at the next verb. Without a parser, ``chunk_graph`` cuts a sentence at punctuation and at ``FUNCTION_WORDS``.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from trainables.data.parses import Word

# fmt: off
PLACES = (
    "in", "on", "at", "near", "under", "through", "over", "behind", "beside", "between", "inside", "above",
    "against", "around", "outside", "below", "amid", "among", "atop", "within",
)
WAYS = (
    "into", "to", "from", "down", "across", "toward", "towards", "up", "off", "along", "past", "onto",
)
TIMES = (
    "while", "when", "as", "before", "after", "during", "until",
)
PEOPLE = (
    "man", "men", "woman", "women", "person", "people", "boy", "boys", "girl", "girls", "child", "children",
    "kid", "kids", "baby", "friend", "friends", "family", "mother", "father", "player", "players", "team",
    "someone", "adult", "adults", "couple", "crowd", "group", "lady", "guy", "toddler", "owner",
)
FUNCTION_WORDS = (
    "a", "an", "the", "of", "with", "and", "or", "in", "on", "at", "to", "from", "by", "for", "as", "is", "are",
)
# fmt: on

SUBJECTS, PASSIVE = ("nsubj", "csubj"), ("nsubjpass", "nsubj:pass", "csubjpass")
ROLE_OF = {
    **dict.fromkeys(SUBJECTS, "ARG0"),
    **dict.fromkeys(PASSIVE, "ARG1"),
    **dict.fromkeys(("dobj", "obj", "attr", "oprd"), "ARG1"),
    **dict.fromkeys(("iobj", "dative"), "ARG2"),
    "agent": "ARG0",
    "obl:agent": "ARG0",
    "advmod": "ARGM-MNR",
    "npadvmod": "ARGM-TMP",
    "obl:tmod": "ARGM-TMP",
}
"""Relation of a word to its verb -> its role."""

NOT_A_VERB = ("aux", "auxpass", "aux:pass", "amod", "cop")
CONTINUES = ("conj", "xcomp", "advcl", "dep", "ccomp")
DESCRIBES = ("acl", "relcl", "acl:relcl")
IN_A_CHUNK = ("det", "amod", "compound", "nummod", "poss", "nmod:poss", "quantmod")

Graph = tuple[dict[str, dict[str, Any]], list[list[str]]]
"""Nodes and edges in HGR's form, see ``role_graphs``."""


def role_graph(words: Sequence[Word]) -> Graph:
    """Return the role graph of a parse."""
    return _Rules(words).graph()


def chunk_graph(words: Sequence[str]) -> Graph:
    """Return a role graph without a parse: runs of words without punctuation and function words, each a NOUN.

    Example:
        >>> nodes, _ = chunk_graph("face with steam from nose".split())
        >>> [node["spans"] for node in nodes.values()]
        [[0], [2], [4]]
    """
    runs: list[list[int]] = [[]]
    for place, word in enumerate(words):
        plain = word.casefold().strip(".,;:!?\"'()")
        if plain and plain not in FUNCTION_WORDS:
            runs[-1].append(place)
        if not plain or plain in FUNCTION_WORDS or word[-1] in ".,;:!?":
            runs.append([])
    return _numbered([("NOUN", run) for run in runs if run], [])


def _numbered(nodes: Sequence[tuple[str, list[int]]], edges: Sequence[tuple[int, int]]) -> Graph:
    """Return nodes, numbered from 1, and edges between their places in the list."""
    named = {str(number): {"role": role, "spans": spans} for number, (role, spans) in enumerate(nodes, 1)}
    return named, [[str(verb + 1), str(phrase + 1), nodes[phrase][0]] for verb, phrase in edges]


class _Rules:
    def __init__(self, words: Sequence[Word]) -> None:
        self.words = words
        self.children: dict[int, list[int]] = {}
        for place, word in enumerate(words):
            self.children.setdefault(word.head, []).append(place)
        self.verbs = [place for place, word in enumerate(words) if self._is_verb(word)]

    def graph(self) -> Graph:
        nodes: list[tuple[str, list[int]]] = [("V", self._verb_span(verb)) for verb in self.verbs]
        edges: list[tuple[int, int]] = []
        number_of: dict[int, int] = {}
        for number, verb in enumerate(self.verbs):
            for place, role in self._arguments(verb):
                if place not in number_of:
                    number_of[place] = len(nodes)
                    nodes.append((role, sorted(self._subtree(place))))
                edges.append((number, number_of[place]))
        if not self.verbs:
            nodes = [
                ("NOUN", sorted(self._chunk(place))) for place in range(len(self.words)) if self._heads_chunk(place)
            ]
        return _numbered(nodes, edges)

    @staticmethod
    def _is_verb(word: Word) -> bool:
        return (word.tag.startswith("VB") or word.universal == "VERB") and word.relation not in NOT_A_VERB

    def _verb_span(self, verb: int) -> list[int]:
        particles = [place for place in self._of(verb) if self.words[place].relation in ("prt", "compound:prt")]
        return sorted([verb, *particles])

    def _of(self, place: int) -> list[int]:
        return self.children.get(place, [])

    def _arguments(self, verb: int) -> Iterator[tuple[int, str]]:
        """Yield words that play a role in a verb, each with its role."""
        subject = self._subject(verb, set())
        if subject is not None:
            yield subject
        for place in self._of(verb):
            word = self.words[place]
            if subject is not None and place == subject[0]:
                continue
            if word.relation in ROLE_OF and word.relation not in (*SUBJECTS, *PASSIVE):
                yield place, ROLE_OF[word.relation]
            elif word.relation in ("prep", "obl", "nmod"):
                yield place, self._role_of_preposition(place)
            elif word.relation == "advcl" and any(self.words[mark].form.lower() in TIMES for mark in self._of(place)):
                yield place, "ARGM-TMP"

    def _subject(self, verb: int, seen: set[int]) -> tuple[int, str] | None:
        """Return the subject of a verb with its role, its own or that of the word that it continues or describes."""
        seen.add(verb)
        for place in self._of(verb):
            if self.words[place].relation in (*SUBJECTS, *PASSIVE):
                return place, ROLE_OF[self.words[place].relation]
        word = self.words[verb]
        if word.head < 0 or word.head in seen:
            return None
        if word.relation in DESCRIBES:
            return word.head, "ARG1" if word.tag == "VBN" else "ARG0"
        continues = word.relation in CONTINUES and word.head in self.verbs
        return self._subject(word.head, seen) if continues else None

    def _role_of_preposition(self, place: int) -> str:
        of = [place, *self._of(place)]
        forms = [self.words[part].form.lower() for part in of]
        names = [form for part, form in zip(of, forms, strict=True) if self.words[part].relation in ("prep", "case")]
        name = names[0] if names else forms[0]
        if name == "with":
            return "ARGM-COM" if set(PEOPLE) & set(forms) else "ARGM-MNR"
        return "ARGM-LOC" if name in PLACES else "ARGM-DIR" if name in WAYS else "ARGM-ADV"

    def _subtree(self, top: int) -> Iterator[int]:
        """Yield the words of a phrase: those below a word, without the verbs there and what is below them."""
        yield top
        for place in self._of(top):
            if place not in self.verbs:
                yield from self._subtree(place)

    def _heads_chunk(self, place: int) -> bool:
        word = self.words[place]
        is_noun = word.tag.startswith("NN") or word.universal in ("NOUN", "PROPN")
        return is_noun and word.relation not in IN_A_CHUNK

    def _chunk(self, place: int) -> Iterator[int]:
        yield place
        yield from (child for child in self._of(place) if self.words[child].relation in IN_A_CHUNK)
