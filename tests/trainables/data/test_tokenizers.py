"""How captions of any script are cut, and that whatever reads captions follows the dataset's tokenizer."""

import json
import string
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as FileTokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from typer.testing import CliRunner

from orchestrator.cli import app
from orchestrator.extraction.feature_files import extract_text
from tests.trainables.data.folders import KarpathyFolder
from trainables.checkpoint import save_epoch
from trainables.config import TrainingConfig, TrialConfig
from trainables.data.dataset import data_notes, load_dataset, open_dataset
from trainables.data.text_features import fit_tfidf, read_extractor
from trainables.data.tokenizers import (
    CHARACTERS,
    END,
    ENGLISH,
    SPECIAL,
    START,
    UNKNOWN,
    WORDS,
    Vocabulary,
    infer_tokenizer,
    tokenize_characters,
    tokenize_words,
)
from trainables.data.tokenizers import tokenize_english as tokenize
from trainables.dataset_description import describe_dataset
from trainables.errors import CheckpointError, ConfigError, DataError
from trainables.evaluation import evaluate_checkpoint
from trainables.serving.packed import write_retriever
from trainables.serving.retriever import Retriever
from trainables.trial import run_trial

CHINESE = ["两只狗在草地上跑。", "一个男孩在玩 frisbee。", "穿红衣服的女孩在跑。"]
ARABIC = ["كلبان يركضان على العشب", "طفلة صغيرة تتسلق الدرج إلى منزلها", "رجل يركب دراجة"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("Zwei Straßenhunde", ["zwei", "strassenhunde"], id="folded"),
        pytest.param("l'été, 3.14 m", ["l'été", ",", "3.14", "m"], id="inside-a-word"),
        pytest.param("نهاية.بداية", ["نهاية", ".", "بداية"], id="full-stop-without-space"),
        pytest.param("كَتَبَ الوَلَدُ", ["كَتَبَ", "الوَلَدُ"], id="vowelled"),
        pytest.param("नमस्ते दुनिया", ["नमस्ते", "दुनिया"], id="vowel-signs"),
        pytest.param("می‌روم", ["می‌روم"], id="joiner-in-a-word"),
        pytest.param("\u202eab\u202c c\u200f", ["ab", "c"], id="marks-of-direction"),
        pytest.param("ＡＢＣ１", ["abc1"], id="full-width"),
        pytest.param("cafe\u0301", ["café"], id="decomposed"),
        pytest.param("狗跑", ["狗", "跑"], id="ideographs"),
        pytest.param("  ", [], id="nothing"),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert tokenize_words(text) == words


@pytest.mark.parametrize(
    "text", [*ARABIC, "Ein Mädchen, das rennt!", "한국어 문장입니다.", "नमस्ते दुनिया", "don't stop 3,000 times", "狗在跑"]
)
def test_words_lie_between_unicodes_word_boundaries(text: str) -> None:
    parts = regex.split(r"(?w)\b", text.casefold(), flags=regex.V1)
    assert tokenize_words(text) == [part.strip() for part in parts if part.strip()]


@pytest.mark.parametrize(
    ("text", "characters"),
    [
        pytest.param("一只狗在玩Frisbee 3次。", ["一", "只", "狗", "在", "玩", "frisbee", "3", "次", "。"], id="mixed"),
        pytest.param("สวัสดี", ["ส", "วั", "ส", "ดี"], id="thai-with-its-marks"),
        pytest.param("ロボット", ["ロ", "ボ", "ッ", "ト"], id="katakana"),
        pytest.param(ARABIC[2], ARABIC[2].split(), id="a-script-with-spaces"),
    ],
)
def test_characters(text: str, characters: list[str]) -> None:
    assert tokenize_characters(text) == characters


@pytest.mark.parametrize(
    ("captions", "tokenizer"),
    [
        pytest.param(["A dog runs at the café."] + 50 * ["Two dogs run on grass."], ENGLISH, id="a-foreign-name"),
        pytest.param(["Ein Mädchen läuft über die Straße"], WORDS, id="german"),
        pytest.param(ARABIC, WORDS, id="arabic"),
        pytest.param(["아이들이 공원에서 놀고 있다"], WORDS, id="korean-has-spaces"),
        pytest.param(CHINESE, CHARACTERS, id="chinese-with-a-latin-word"),
        pytest.param(["犬が走る", "ロボット"], CHARACTERS, id="japanese"),
        pytest.param(["123", "..."], ENGLISH, id="no-letters"),
        pytest.param([], ENGLISH, id="no-captions"),
    ],
)
def test_the_script_decides(captions: list[str], tokenizer: Any) -> None:
    assert infer_tokenizer(captions) == tokenizer


def write_captions(folder: KarpathyFolder, captions: list[str]) -> None:
    """Give image i of ``tiny`` the captions i and i + 1 of a list, around its end."""
    for place, image in enumerate(folder.images):
        for number, sentence in enumerate(image["sentences"]):
            sentence["raw"] = captions[(place + number) % len(captions)]
    folder.save()


@pytest.fixture
def chinese(karpathy_folder: KarpathyFolder) -> KarpathyFolder:
    write_captions(karpathy_folder, CHINESE)
    return karpathy_folder


def write_file(folder: Path, *words: str) -> Path:
    tokenizer = FileTokenizer(WordLevel({word: place for place, word in enumerate(["[?]", *words])}, "[?]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.enable_truncation(1)
    path = folder / "tokenizer.json"
    tokenizer.save(str(path))
    return path


def test_english_is_what_it_was(karpathy_folder: KarpathyFolder) -> None:
    inferred, named = (load_dataset("tiny", karpathy_folder.root, tokenizer=name) for name in (None, "english"))
    assert (inferred.digest, inferred.vocabulary) == (named.digest, named.vocabulary)
    assert "tokenizer" not in TrialConfig(dataset="tiny").to_dict()
    assert load_dataset("tiny", karpathy_folder.root, tokenizer="words").digest != named.digest


def test_the_inferred_tokenizer_cuts_the_captions_and_is_said(chinese: KarpathyFolder) -> None:
    data = load_dataset("tiny", chinese.root)
    assert data.vocabulary.tokenizer == CHARACTERS
    assert {"狗", "在", "跑"} & set(data.vocabulary.words)
    assert data.splits["val"].tokens.tolist()[:4] == data.vocabulary.encode(data.splits["val"].captions[0])[:4]
    (note,) = data_notes(TrialConfig(dataset="tiny"), data)
    assert note.startswith("tiny: tokenizer characters, inferred from the captions: most letters are of scripts")
    assert load_dataset("tiny", chinese.root).digest == data.digest
    write_captions(chinese, ARABIC)
    assert load_dataset("tiny", chinese.root).vocabulary.tokenizer == WORDS


def test_a_caption_of_one_token_is_a_warning(chinese: KarpathyFolder) -> None:
    told = describe_dataset("tiny", chinese.root)
    assert (told.tokenizer, told.splits["train"]["tokens_per_image"]) == ("characters", 18.0)
    assert told.digest["global"] == load_dataset("tiny", chinese.root).digest
    arguments = ["data", "describe", "tiny", "--data-root", str(chinese.root), "--tokenizer"]
    lines = CliRunner().invoke(app, [*arguments, "english"]).output.splitlines()
    assert "tokenizer: english (as asked for)" in lines
    warning = "warning: half of the captions are a single token to the tokenizer english"
    assert any(line.startswith(warning) for line in lines)
    assert "no problems found" not in lines
    lines = CliRunner().invoke(app, [*arguments, "words"]).output.splitlines()
    assert any(line.startswith("warning: ") and "of the tokens are unknown" in line for line in lines)


def test_a_file_that_lies_with_the_dataset(chinese: KarpathyFolder) -> None:
    before = load_dataset("tiny", chinese.root).digest
    with pytest.raises(DataError, match=r"there is no file .*tokenizer\.json; name english, words, characters"):
        load_dataset("tiny", chinese.root, tokenizer="tokenizer.json")
    path = write_file(chinese.folder, "frisbee", "。")
    data = load_dataset("tiny", chinese.root, tokenizer="tokenizer.json")
    # The file asks for one token a caption, which is what a batch of a transformer needs and no caption has.
    assert data.vocabulary.tokenizer("frisbee 。") == ["frisbee", "。"]
    assert load_dataset("tiny", chinese.root, tokenizer=str(path)).digest != before
    write_file(chinese.folder, "frisbee")
    assert load_dataset("tiny", chinese.root, tokenizer="tokenizer.json").digest not in (before, data.digest)
    path.write_text("{}")
    with pytest.raises(DataError, match=r"tokenizer\.json: is no tokenizer of the package tokenizers"):
        load_dataset("tiny", chinese.root, tokenizer="tokenizer.json")


def test_a_file_may_not_be_a_link_out_of_the_data_root(chinese: KarpathyFolder, tmp_path: Path) -> None:
    outside = write_file(tmp_path, "frisbee")
    (chinese.folder / "tokenizer.json").symlink_to(outside)
    with pytest.raises(DataError, match="is a link that leaves the data root"):
        load_dataset("tiny", chinese.root, tokenizer="tokenizer.json")


def test_what_is_no_tokenizer_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"tokenizer must be english, words, characters, labels, or a tokenizer\.json file"
    ):
        TrialConfig(dataset="tiny", tokenizer="chinese")


def test_features_follow_the_tokenizer(chinese: KarpathyFolder) -> None:
    options: dict[str, Any] = {"dimensions": 2, "seed": 0, "out": None, "tokenizer": None}
    assert extract_text("tiny", chinese.root, **options)["tokenizer"] == "characters"
    path = chinese.folder / "features_text.npy"
    assert json.loads(path.with_suffix(".json").read_text())["tokenizer"] == "characters"
    extractor = read_extractor(chinese.folder / "extractor_text.safetensors")
    assert extractor.tokenizer == CHARACTERS
    assert extractor.unknown("狗飞") == ["飞"]
    made = extractor.transform(CHINESE[:2])
    assert np.array_equal(np.load(path)[:2], made.astype(np.float16))
    assert load_dataset("tiny", chinese.root, text=True, tokenizer="characters").vocabulary.tokenizer == CHARACTERS
    with pytest.raises(DataError, match="was made with the tokenizer characters, not words"):
        load_dataset("tiny", chinese.root, text=True, tokenizer="words")


def test_an_extractor_of_english_is_what_it_was() -> None:
    captions = ["a dog runs", "the dog", "a dog sits on the grass", "grass"]
    assert b"tokenizer" not in fit_tfidf(captions, 1, 0).to_bytes()


TINY = TrialConfig(dataset="tiny", training=TrainingConfig(epochs=1, batch_size=2, embedding_size=4, word_size=4))


def test_a_checkpoint_refuses_another_tokenizer(chinese: KarpathyFolder, tmp_path: Path) -> None:
    data = load_dataset("tiny", chinese.root)
    (report,) = run_trial(TINY, data, device="cpu")
    checkpoint = save_epoch(tmp_path / "run", report)
    assert evaluate_checkpoint(checkpoint, open_dataset(TINY, chinese.root), "test", device="cpu")["rsum"] >= 0
    other = replace(TINY, tokenizer="words")
    refusal = r"trained with the tokenizer characters, but the captions of tiny are cut by words here"
    with pytest.raises(CheckpointError, match=refusal):
        evaluate_checkpoint(checkpoint, open_dataset(other, chinese.root), "test", device="cpu")
    with pytest.raises(CheckpointError, match=refusal):
        list(run_trial(TINY, open_dataset(other, chinese.root), checkpoint, device="cpu"))


@pytest.mark.parametrize("name", [None, "tokenizer.json"])
def test_a_packed_model_cuts_queries_as_its_captions(chinese: KarpathyFolder, tmp_path: Path, name: str | None) -> None:
    path = write_file(chinese.folder, "frisbee", "。")
    config = replace(TINY, tokenizer=name)
    data = open_dataset(config, chinese.root)
    (report,) = run_trial(config, data, device="cpu")
    write_retriever(tmp_path / "packed", save_epoch(tmp_path / "run", report), data, "test")
    # A packed model travels without the dataset.
    path.unlink()
    retriever = Retriever(tmp_path / "packed")
    query, doubt = ("在飞", "the model does not know 飞") if name is None else ("frisbee", "the model knows no word")
    answers = retriever.images_for(query)
    assert len(answers) == 2
    assert retriever.doubts_about(query, answers)[0].startswith(doubt)


NLTK_WORDS = (
    "a dog the DOG cannot gonna wanna gimme gotta lemme t-shirt two-year-old -x x- a--b can't it's , . .. ... ,, U.S."
    " 3 3,000 3.5 ; : ! ? ' \" `` '' ( ) & $5 café İ ß … – — \u2019s \t \n"
)
TOKENS = st.sampled_from(NLTK_WORDS.split(" "))


def by_nltk(caption: str) -> list[str]:
    # nltk imports scikit-learn, which takes each process of the tests a second.
    from nltk.tokenize import word_tokenize

    return list(word_tokenize(caption.lower(), preserve_line=True))


ANY_TEXT = st.text(string.ascii_letters + " ,.-'", max_size=30)


@settings(max_examples=700, deadline=None)
@given(st.lists(TOKENS, max_size=8).map(" ".join) | st.lists(TOKENS, max_size=6).map("".join) | ANY_TEXT)
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


def test_ids_go_by_descending_count_then_alphabet() -> None:
    built = Vocabulary.from_counts({"zebra": 9, "b": 4, "a": 4, "rare": 3, "<pad>": 99, "é": 9})
    assert built.words == (*SPECIAL, "zebra", "é", "a", "b")


def test_captions_are_wrapped_and_unknown_words_marked() -> None:
    built = Vocabulary((*SPECIAL, "a", "dog"))
    assert built.encode("A dog barks") == [START, 4, 5, UNKNOWN, END]
    assert [built.words[token] for token in (START, 5, END)] == ["<start>", "dog", "<end>"]


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.integers(1, 9)))
def test_json_round_trip(counts: dict[str, int]) -> None:
    built = Vocabulary.from_counts(counts)
    assert Vocabulary.from_json(built.to_json()) == built


@pytest.mark.parametrize("text", ['{"a": 1}', "[1, 2]", '["a"]', "["], ids=["object", "numbers", "words", "broken"])
def test_what_is_no_vocabulary_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Vocabulary.from_json(text)
