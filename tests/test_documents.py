"""What the documents name is there: files of the repository, and what is said to stand in them."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.deploy.commands import check, in_markdown

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    str(path.relative_to(ROOT)) for pattern in ("*.md", "studies/*.md") for path in (ROOT / "docs").glob(pattern)
)
DOCUMENTS = ["README.md", "CHANGELOG.md", "deploy/README.md", "orchestrator/reference/README.md", *PAGES]
FOLDERS = ("trainables/", "search_spaces/", "orchestrator/", "tests/", "deploy/", "docs/")


def places(text: str) -> set[str]:
    """Return what a document says of where things are in the repository."""
    return {code for code in re.findall(r"`([\w./-]+)`", text) if code.startswith(FOLDERS) and "NAME" not in code}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_files_are_there(name: str) -> None:
    missing = {place for place in places((ROOT / name).read_text()) if not (ROOT / place).exists()}
    assert not missing


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_lead_somewhere(name: str) -> None:
    text = (ROOT / name).read_text()
    headings = {re.sub(r"[^\w -]", "", line).lower().replace(" ", "-") for line in re.findall(r"^#+ (.*)$", text, re.M)}
    for link in re.findall(r"\]\((?!https?:)([^)]+)\)", text):
        file, _, anchor = link.partition("#")
        assert (ROOT / name).parent.joinpath(file).exists()
        assert not anchor or file or anchor in headings


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
    assert "](docs/README.md)" in (ROOT / "README.md").read_text()


def test_the_readme_has_a_hundred_lines_at_most() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 100


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


def test_every_block_of_the_readme_that_calls_the_program_activates_its_environment_first() -> None:
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    calling = [block for block in blocks if re.search(r"^orchestrator ", block, re.M)]
    assert calling and all(block.startswith(". .venv/bin/activate") for block in calling)
