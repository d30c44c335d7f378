"""What the documents name is there: files of the repository, and what is said to stand in them."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from orchestrator.experiment.experiment import load_experiment, shipped_experiments
from orchestrator.regression.suite import shipped_suites
from orchestrator.results.verdict import LEVEL
from orchestrator.tracking import registry
from tests.answers_page import page
from tests.deploy.commands import check, in_markdown
from tests.lost_words import cells, lost_words, sentences, words_of
from tests.test_architecture import MODULES, ROOT, tree_of
from trainables.model_parameters import MODEL_TABLE

PAGES = sorted(
    str(path.relative_to(ROOT))
    for folder in ("", "evidence/", "reference/", "studies/")
    for path in (ROOT / "docs").glob(f"{folder}*.md")
)
DOCUMENTS = [
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    "deploy/README.md",
    "orchestrator/reference/README.md",
    *PAGES,
]
TEXTS = [*DOCUMENTS, "tests/benchmarks/README.md"]
MADE = ("docs/answers.md", "docs/commands.md", "docs/experiment-keys.md", "docs/journal.md")
"""Pages that are made from the code."""

HOW_TO = tuple(
    f"docs/{name}.md"
    for name in (
        *("installing", "searching", "confirming", "reading", "watching", "data"),
        *("models", "plugins", "training", "clusters", "regression", "certify", "judge", "gate", "python", "examples"),
    )
)
"""Pages that lead through one task."""

FOLDERS = ("trainables/", "search_spaces/", "orchestrator/", "tests/", "deploy/", "docs/")


def places(text: str) -> set[str]:
    """Return what a document says of where things are in the repository."""
    return {code for code in re.findall(r"`([\w./-]+)`", text) if code.startswith(FOLDERS) and "NAME" not in code}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_files_and_links_are_there(name: str) -> None:
    text = (ROOT / name).read_text()
    assert [place for place in places(text) if not (ROOT / place).exists()] == []
    links = re.findall(r"\]\((?!https?:)([^)#]+)", text)
    assert [link for link in links if not (ROOT / name).parent.joinpath(link).exists()] == []


def test_what_stands_where() -> None:
    """``X`` in ``FILE``, as docs/contributing.md says where a loss, a model and a form of data are registered."""
    said = re.findall(r"`([A-Z_]{3,})` (?:in|of) `([\w./]+\.py)`", (ROOT / "docs" / "contributing.md").read_text())
    assert len(said) >= 6
    for name, file in said:
        assert re.search(rf"^{name}\b", (ROOT / file).read_text(), re.M), (name, file)


def test_the_list_of_documents_leads_to_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    pages = [page.removeprefix("docs/") for page in PAGES if page != "docs/README.md"]
    assert [page for page in pages if f"]({page})" not in index] == []
    assert "docs/README.md)" in (ROOT / "README.md").read_text()


def test_the_readme_is_short_and_activates_the_environment_before_it_calls_the_program() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 110
    blocks = re.findall(r"```sh\n(.*?)```", text, re.S)
    calling = [block for block in blocks if re.search(r"^orchestrator ", block, re.M)]
    assert calling and all(block.startswith(". .venv/bin/activate") for block in calling)


@pytest.mark.parametrize("name", ["README.md", *PAGES])
def test_every_command_is_one_that_its_program_takes(name: str) -> None:
    for command in in_markdown((ROOT / name).read_text()):
        check(command)


def test_what_is_missing_is_found() -> None:
    assert places("see `trainables/gone.py`, `nt_xent.py` and `trainables/losses/NAME.py`") == {"trainables/gone.py"}


def test_license_and_citation_agree_with_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert project["license"] == citation["license"] == "Apache-2.0"
    assert project["version"] == citation["version"]
    (file,) = project["license-files"]
    assert (ROOT / file).read_text().lstrip().startswith("Apache License")
    assert f"## [{project['version']}]" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("name", HOW_TO)
def test_a_how_to_is_short_begins_with_a_command_and_ends_with_what_can_go_wrong(name: str) -> None:
    lines = (ROOT / name).read_text().splitlines()
    assert len(lines) <= 120
    assert any(line.startswith("```") for line in lines[:10])
    assert [line for line in lines if line.startswith("## ")][-1] == "## What can go wrong"
    problems = lines[lines.index("## What can go wrong") + 1 :]
    assert all(line.startswith(("- **", "  ")) for line in problems if line)
    said = [sentence for sentence in sentences("\n".join(lines)) if words_of(sentence) > 3]
    assert len(said) == len(set(said))


def test_the_page_on_watching_quotes_a_live_page() -> None:
    quoted = re.findall(r'^- \*\*"(.+) \.\.\."', (ROOT / "docs" / "watching.md").read_text(), re.M)
    script = (ROOT / "orchestrator" / "watch" / "live.js").read_text()
    assert quoted and [text for text in quoted if text not in script] == []


def test_the_reference_names_the_level_at_which_a_later_model_is_the_champion() -> None:
    said = (ROOT / "docs" / "reference" / "confirmation.md").read_text()
    assert f"(Welch's test at {100 * LEVEL:g} %)" in said and registry.LEVEL is LEVEL


def test_the_list_of_documents_says_of_which_kind_a_page_is() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    kinds = {
        kind: set(re.findall(r"^- \[[^\]]+\]\(([\w./-]+)\): ", text, re.M)) for kind, text in by_heading(index).items()
    }
    assert {page.removeprefix("docs/") for page in HOW_TO} <= kinds["How to"]
    assert {page for page in kinds["Evidence"] if page.startswith(("evidence/", "studies/"))} == kinds["Evidence"]
    assert {page.removeprefix("docs/") for page in MADE} <= kinds["Reference"]


def by_heading(text: str) -> dict[str, str]:
    """Return the text under each heading of the second level."""
    parts = re.split(r"^## (.*)$", text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("name", TEXTS)
def test_sentences_have_25_words_at_most_and_no_lost_word(name: str) -> None:
    text = (ROOT / name).read_text()
    long = [sentence for sentence in sentences(text) if words_of(sentence) > 25]
    assert not long, "\n".join(long)
    assert {sentence: words for sentence in [*sentences(text), *cells(text)] if (words := lost_words(sentence))} == {}


def test_templates_have_no_lost_words() -> None:
    lines = [line for path in (ROOT / "orchestrator").rglob("*.j2") for line in path.read_text().splitlines()]
    assert lines and {line: words for line in lines if (words := lost_words(line))} == {}


def test_no_error_has_more_than_thirty_words() -> None:
    """A message is what the constant parts of its text say; a value that is inserted is a word."""
    raised = [node.exc for name in MODULES for node in ast.walk(tree_of(name)) if isinstance(node, ast.Raise)]
    texts = [_constant_text(part) for call in raised if isinstance(call, ast.Call) for part in call.args]
    assert [text for text in texts if words_of(text) > 30] == []


def _constant_text(node: ast.expr) -> str:
    """Return the text of a string, with ``X`` for a value that is inserted."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    texts = [part.value if isinstance(part, ast.Constant) else "X" for part in parts]
    return "".join(text for text in texts if isinstance(text, str))


@pytest.mark.parametrize(
    "path", [*shipped_experiments().values(), *shipped_suites().values()], ids=lambda path: path.stem
)
def test_the_manual_of_a_shipped_file_is_written_like_the_documents(path: Path) -> None:
    comments = [line for line in path.read_text().splitlines() if line.startswith("#")]
    # Commands are indented.
    manual = "\n".join("" if line.startswith("#   ") else line.removeprefix("#").strip() for line in comments)
    faulty = [sentence for sentence in sentences(manual) if words_of(sentence) > 25 or lost_words(sentence)]
    assert sentences(manual) and not faulty


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("One two. Three", ["One two.", "Three"]),
        (
            "It is 3.5 here, e.g. there. `search` comes. `a b c` too",
            ["It is 3.5 here, e.g. there.", "Code comes.", "Code too"],
        ),
        ("Lee et al. 2018 say so, eq. 4 too", ["Lee et al. 2018 say so, eq. 4 too"]),
        ("With k. Then A. Brown came", ["With k.", "Then A. Brown came"]),
        ("See. [cocos.md](cocos.md#a-b) has it.", ["See.", "Cocos.md has it."]),
        ("- one item\n- **two** items\n  of two lines\n1. third", ["one item", "two items of two lines", "third"]),
        ("Before:\n\n```sh\na. B. C.\n```\n\nAfter.", ["Before:", "After."]),
        ("# Heading. No\n\n| a. B | c |\n\n![picture](x.png)\n\n[key]: https://a.b", []),
        ("Is it? Yes! (It is.) So", ["Is it?", "Yes!", "(It is.)", "So"]),
    ],
)
def test_sentences_are_cut_as_a_reader_does(markdown: str, expected: list[str]) -> None:
    assert sentences(markdown) == expected


def test_words_are_counted_without_signs() -> None:
    assert words_of("NT-Xent beats it by 115.4 rsum, 95 % CI [110.9, 119.8] – Code") == 11


@pytest.mark.parametrize(
    ("sentence", "lost"),
    [
        ("A difference is not told from none.", ["told"]),
        ("The seeds do not tell.", ["tell"]),
        ("Batches are cut from so many batches.", ["so many"]),
        ("Who comes from Optuna finds:", ["Who"]),
        ("What is not well is mailed.", ["What"]),
        ("What can go wrong?", []),
        ("People who judged pairs agree, each with a score.", []),
        ("The best one is that each is alike.", ["best one", "each is"]),
        ("A standalone script understands the standard deviation of those.", []),
    ],
)
def test_lost_words_are_found(sentence: str, lost: list[str]) -> None:
    assert lost_words(sentence) == lost


def test_the_experiment_of_the_page_on_searching_is_complete(tmp_path: Path) -> None:
    (text,) = re.findall(r"```yaml\n(name: .*?)```", (ROOT / "docs" / "searching.md").read_text(), re.S)
    (tmp_path / "my-losses.yaml").write_text(text)
    experiment = load_experiment(str(tmp_path / "my-losses.yaml"))
    assert len(text.splitlines()) <= 20 and len(experiment.cells()) == 3
    assert experiment.confirm is not None


def test_the_page_of_answers_is_what_the_product_says() -> None:
    assert (ROOT / "docs" / "answers.md").read_text() == page(), "python -m tests.answers_page > docs/answers.md"


def texts_of(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and text of each string that may be shown: with a space, and no docstring."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in docstrings else None
        if isinstance(text, str) and " " in text.strip():
            yield node.lineno, text


def test_texts_for_people_in_the_code_have_no_lost_words() -> None:
    lost = [
        f"{name}:{line}: {', '.join(found)}: {text}"
        for name in MODULES
        for line, text in texts_of(tree_of(name))
        if (found := lost_words(text))
    ]
    assert not lost, "\n".join(lost)


ANSWERING = {"questions", "comparison", "verdict", "confirmation", "answers", "analyses", "bands", "race", "trends"}
ANSWERING |= {"judged", "taken_back"}
"""Modules of ``results`` whose sentences are on the page of answers."""

NOT_ON_THE_PAGE = {
    "a heading of a column": r"mean ± sd|against the winner|to the best|lead over .*|behind .*|share of .*",
    "another heading of a column": r"expected at .*",
    "a question that the page calls by its short name": r"Which coefficients of|Which model and loss\?",
    "of `evaluate`": r"neither candidate .*|the experiment has a candidate .*|answers other .*|on which the .*",
    "of models that were trained elsewhere": r"and both have the same value|so the difference is exact on .*",
    "of published rows": r"a test needs the deviation over .*",
    "of older versions": r".*\bolder version\b.*",
    "an error in a metric": r"must be finite, got|but its images have the mean",
    "a race of a single candidate": r"there is no other .*",
    "judged lists without gaps": r"without unjudged .*",
    "several learning rates": r"The losses were trained at .*|which were not .*",
}
"""Why a text of three words or more is not on the page -> the texts."""


def test_the_page_of_answers_has_every_sentence() -> None:
    shown, missing = " ".join(page().split()).lower(), []
    for name in ANSWERING:
        tree = ast.parse((ROOT / "orchestrator" / "results" / f"{name}.py").read_text())
        for _, text in texts_of(tree):
            part = " ".join(text.split()).strip(" .,;:()")
            excused = any(re.fullmatch(known, part) for known in NOT_ON_THE_PAGE.values())
            if len(part.split()) > 2 and part.lower() not in shown and not excused:
                missing.append(f"{name}: {part}")
    assert missing == []


def test_the_first_page_names_every_model() -> None:
    (named,) = re.findall(r"^models: \[vsepp\] +# (.+)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert sorted(named.split(", ")) == sorted(MODEL_TABLE)
