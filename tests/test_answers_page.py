"""The page of all answers is what the product says now, in short sentences without lost words.

So are the texts for people in the code of results, pages and commands.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.answers_page import page
from tests.lost_words import cells, lost_words, words_of

ROOT = Path(__file__).parent.parent
LONGEST = 25
"""Words of a sentence."""

FILES = sorted(
    file for package in ("orchestrator", "search_spaces", "trainables") for file in ROOT.glob(f"{package}/**/*.py")
)
"""Modules whose texts are checked."""


def test_the_page_is_what_the_product_says() -> None:
    assert (ROOT / "docs" / "answers.md").read_text() == page(), "python -m tests.answers_page > docs/answers.md"


def said() -> list[str]:
    return [sentence.strip() for cell in cells(page().replace("`", "")) for sentence in cell.split("<br>")]


def test_no_sentence_is_long_or_has_a_lost_word() -> None:
    assert {sentence: words_of(sentence) for sentence in said() if words_of(sentence) > LONGEST} == {}
    assert {sentence: found for sentence in said() if (found := lost_words(sentence))} == {}


def texts_of(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of each string that may be shown: with a space, and no docstring."""
    tree = ast.parse(source)
    statements = (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr))
    docstrings = {id(value) for value in statements}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in docstrings:
            continue
        if isinstance(node.value, str) and " " in node.value.strip():
            yield node.lineno, node.value


def test_texts_for_people_have_no_lost_words() -> None:
    lost = [
        f"{file.relative_to(ROOT)}:{line}: {', '.join(found)}: {text}"
        for file in FILES
        for line, text in texts_of(file.read_text())
        if (found := lost_words(text))
    ]
    assert not lost, "\n".join(lost)
