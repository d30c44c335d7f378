import string

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from trainables.data.tokenizers import tokenize_english as tokenize
from trainables.data.vocabulary import END, SPECIAL, START, UNKNOWN, Vocabulary

WORDS = (
    "a dog the DOG cannot gonna wanna gimme gotta lemme t-shirt two-year-old -x x- a--b can't it's , . .. ... ,, U.S."
    " 3 3,000 3.5 ; : ! ? ' \" `` '' ( ) & $5 café İ ß … – — \u2019s \t \n"
)
TOKENS = st.sampled_from(WORDS.split(" "))


def by_nltk(caption: str) -> list[str]:
    # nltk imports scikit-learn, which takes each process of the tests a second.
    from nltk.tokenize import word_tokenize

    return list(word_tokenize(caption.lower(), preserve_line=True))


@settings(max_examples=400, deadline=None)
@given(st.lists(TOKENS, max_size=8).map(" ".join) | st.lists(TOKENS, max_size=6).map("".join))
@example("A dog , a cat.")
@example("a dog .  ")
@example("a,b")
@example("a ,b , c")
@example("a . b .")
@example("wanna")
@example("cannot-x")
@example("x-gonna")
def test_tokenize_equals_nltk(caption: str) -> None:
    assert tokenize(caption) == by_nltk(caption)


@settings(max_examples=300, deadline=None)
@given(st.text(string.ascii_letters + " ,.-'", max_size=30))
def test_tokenize_equals_nltk_on_any_text(caption: str) -> None:
    assert tokenize(caption) == by_nltk(caption)


def test_ids_go_by_descending_count_then_alphabet() -> None:
    built = Vocabulary.from_counts({"zebra": 9, "b": 4, "a": 4, "rare": 3, "<pad>": 99, "é": 9})
    assert built.words == (*SPECIAL, "zebra", "é", "a", "b")


def test_captions_are_wrapped_and_unknown_words_marked() -> None:
    built = Vocabulary((*SPECIAL, "a", "dog"))
    assert built.encode("A dog barks") == [START, 4, 5, UNKNOWN, END]
    assert built.decode([START, 5, END]) == ["<start>", "dog", "<end>"]


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.integers(1, 9)))
def test_json_round_trip(counts: dict[str, int]) -> None:
    built = Vocabulary.from_counts(counts)
    assert Vocabulary.from_json(built.to_json()) == built


@pytest.mark.parametrize(
    "text", ['{"a": 1}', "[1, 2]", '["a"]', "["], ids=["object", "numbers", "no-special", "broken"]
)
def test_what_is_no_vocabulary_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Vocabulary.from_json(text)
