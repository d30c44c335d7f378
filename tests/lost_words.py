"""How text for people is checked: the words that it does without, and the length of its sentences.

A document is Markdown. Its code, tables, headings and link targets are no sentences; a list item without a full stop is
one. A code span, a link and a number with a decimal point are words of the sentence around them.
"""

import re
from collections.abc import Iterator

LOST_WORDS = (
    # "told apart", "is told from", "the seeds do not tell", "unless told otherwise".
    re.compile(r"\b(?:tell|tells|told|telling)\b", re.I),
    re.compile(r"\bso (?:many|few)\b", re.I),
    re.compile(r"\b(?:stand|stands|stood)\b(?!-)", re.I),
    re.compile(r"\beach of\b", re.I),
    re.compile(r"\bthose (?:that|which|who)\b", re.I),
    # "Who wants ...", "says who ..."; people who do something are a noun with its clause.
    re.compile(r"\bwhoever\b|(?:^|[;:,(] |\b(?:of|on|in|and|but|or|is|says?|shows?|decides?|knows?) )who\b", re.I),
    re.compile(r"\bwa(?:y|ys) out\b", re.I),
    re.compile(r"\b(?:at hand|all the same)\b", re.I),
    # "What decides is ..." as a subject; a question may begin so.
    re.compile(r"(?:^What|[;:] what)\b(?!.*\?)"),
    # "one", "each" and "found" in place of a noun.
    re.compile(r"\bones\b|\bone's\b", re.I),
    re.compile(
        r"\b(?:the|this|that|which|another|every|each|\w+er|\w+est|new|own|last|first) one"
        r"(?= (?:is|are|has|was|in|on|at|by|for|from|with|that|which|and|or)\b|[,.;:)?]|$)",
        re.I,
    ),
    re.compile(r"\beach (?:is|has|was|had|says|can|may|must|gets|takes|keeps|needs)\b", re.I),
    re.compile(r"\bas found\b|\bthe found\b", re.I),
)
"""Words and turns that a reader of English as a second language stumbles over."""

ABBREVIATED = re.compile(r"(?:^|[\s(])(?:(?i:e\.g|i\.e|et al|eq|cf|vs|approx|sec|tab|fig)|[A-Z])$")
"""Text whose full stop ends no sentence: an abbreviation, or the initial of a name."""

FENCE = re.compile(r"^(?P<indent> *)(?P<fence>```+).*?^(?P=indent)(?P=fence)\s*$", re.M | re.S)
NO_TEXT = re.compile(r"^\s*(?:\||#|!\[|\[[^\]]+\]: |<!--|---\s*$|\[!\[| {4,}orchestrator )")
ITEM = re.compile(r"^\s*(?:[-*+]|\d+\.) +")


def sentences(markdown: str) -> list[str]:
    """Return the sentences of a document in their order, without markup."""
    return [sentence for paragraph in _paragraphs(markdown) for sentence in _split(paragraph)]


def cells(markdown: str) -> list[str]:
    """Return the cells of a document's tables, without markup; a cell is no sentence, and may begin with "what"."""
    rows = [line for line in FENCE.sub("\n", markdown).splitlines() if line.lstrip().startswith("|")]
    texts = [_plain(cell.strip()) for row in rows for cell in re.split(r"(?<!\\)\|", row)]
    return [text[:1].lower() + text[1:] for text in texts if text]


def words_of(sentence: str) -> int:
    """Return the number of words of a sentence; a sign without a letter or digit is no word."""
    return sum(any(sign.isalnum() for sign in word) for word in sentence.split())


def lost_words(sentence: str) -> list[str]:
    """Return the lost words of a sentence, as they are written there."""
    return [found.group() for pattern in LOST_WORDS for found in pattern.finditer(sentence)]


def _paragraphs(markdown: str) -> Iterator[str]:
    """Yield paragraphs and list items on one line each."""
    lines: list[str] = []
    for line in [*FENCE.sub("\n", markdown).splitlines(), ""]:
        ends = not line.strip() or NO_TEXT.match(line) or ITEM.match(line)
        if ends and lines:
            yield _plain(" ".join(lines))
            lines = []
        if line.strip() and not NO_TEXT.match(line):
            lines.append(ITEM.sub("", line).strip().removeprefix("> "))


def _plain(text: str) -> str:
    """Return a paragraph without markup, in which each code span and address is one word."""
    text = re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "Code", text)
    # A label may begin a sentence, and a file's name begins with a small letter.
    text = re.sub(r"!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])?", lambda link: link[1][:1].upper() + link[1][1:], text)
    text = re.sub(r"<?https?://\S+>?", "Code", text)
    return re.sub(r"\*\*|(?<!\w)[*_](?=\w)|(?<=[\w.?!])[*_](?!\w)", "", text)


def _split(paragraph: str) -> list[str]:
    """Cut a paragraph behind full stops, question marks and exclamation marks that a capital or digit follows."""
    parts: list[str] = []
    start = 0
    for mark in re.finditer(r"[.!?][)\"”']*\s+(?=[\"“(]?[A-Z0-9ΔτΑ-Ω])", paragraph):
        before = paragraph[start : mark.start()]
        if mark.group().startswith(".") and ABBREVIATED.search(before):
            continue
        parts.append(paragraph[start : mark.end()].strip())
        start = mark.end()
    return [part for part in [*parts, paragraph[start:].strip()] if part]
