"""A release holds what it promises: links that lead somewhere, one version, and a wheel and an sdist that work."""

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.release import ReleaseError, absolute_links, build, check_version, copy_committed, main, with_urls
from tests.support.installed import ROOT, make_environment

ADDRESS = "https://forge.example/us/icr-orchestrator"


def test_links_of_the_readme_lead_to_files_of_the_tag() -> None:
    text = absolute_links((ROOT / "README.md").read_text(encoding="utf-8"), ADDRESS, "v1.2.3")
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert links and [link for link in links if not link.startswith(("https://", "#"))] == []
    ours = [re.fullmatch(rf"{ADDRESS}/(raw|blob)/v1\.2\.3/([^#]+)(#.*)?", link) for link in links if ADDRESS in link]
    assert ours and all(found and (ROOT / found[2]).is_file() for found in ours)
    assert {found[1] for found in ours if found and found[2].endswith((".png", ".svg"))} == {"raw"}


def test_addresses_of_the_project_are_added_by_the_build_alone() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    urls = tomllib.loads(with_urls(text, ADDRESS))["project"]["urls"]
    assert urls["Repository"] == ADDRESS and urls["Issues"] == f"{ADDRESS}/issues"
    with pytest.raises(ReleaseError, match=r"has \[project.urls\] already"):
        with_urls(with_urls(text, ADDRESS), ADDRESS)


CHANGED = {
    "citation": ("CITATION.cff", "version: 9.9.9", "CITATION.cff: version must be 0.3.0"),
    "changelog": ("CHANGELOG.md", "## [0.1.0] - 2026-01-01", r"CHANGELOG.md: its newest section must be \[0.3.0\]"),
    "unreleased": ("CHANGELOG.md", "## [Unreleased]\n\n## [0.3.0] - 2026-01-01", "CHANGELOG.md: .* is .Unreleased."),
}


@pytest.mark.parametrize(("file", "text", "message"), CHANGED.values(), ids=CHANGED)
def test_versions_that_differ_are_refused(tmp_path: Path, file: str, text: str, message: str) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "0.3.0"\n')
    (tmp_path / "CITATION.cff").write_text("title: x\nversion: 0.3.0\n")
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## [0.3.0] - 2026-01-01\n")
    assert check_version(tmp_path) == "0.3.0"
    (tmp_path / file).write_text(text + "\n")
    with pytest.raises(ReleaseError, match=message):
        check_version(tmp_path)


def test_the_citation_has_the_version_of_the_package() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_what_keeps_a_release_from_being_built_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--address", "ftp://forge.example/us"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")


@pytest.mark.proof
def test_the_wheel_works_in_an_empty_environment_and_tests_run_from_the_sdist(tmp_path: Path) -> None:
    """The wheel is installed beside the core's packages alone; the sdist holds the tests and what they read."""
    wheel, sdist = sorted(
        build(copy_committed(ROOT, tmp_path), ADDRESS, "v0.0.0", tmp_path / "built"),
        key=lambda path: path.suffix != ".whl",
    )
    with zipfile.ZipFile(wheel) as files:
        (metadata,) = (name for name in files.namelist() if name.endswith("METADATA"))
        text = files.read(metadata).decode()
    assert f"Project-URL: Repository, {ADDRESS}" in text and f"]({ADDRESS}/blob/v0.0.0/docs/" in text
    python = make_environment(tmp_path / "environment")
    uv = Path(sys.executable).parent / "uv"
    install = [uv, "pip", "install", "--quiet", "--offline", "--no-deps", "--reinstall", "--python", python, wheel]
    subprocess.run(install, check=True)
    program = python.parent / "orchestrator"
    for command in (["--help"], ["data", "generate", "scenes", "--images", "60", "--out", "data/scenes"]):
        subprocess.run([program, *command], cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "data" / "scenes" / "dataset_scenes.json").is_file()

    with tarfile.open(sdist) as files:
        files.extractall(tmp_path / "unpacked", filter="data")
    (tree,) = (tmp_path / "unpacked").iterdir()
    tests = ["tests/trainables/losses/test_losses.py", "tests/test_architecture.py", "tests/test_documents.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests], cwd=tree, check=False
    )
    assert done.returncode == 0
    # All other tests can be imported there as well.
    collected = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--collect-only", "-m", "", "tests"],
        cwd=tree,
        capture_output=True,
        text=True,
    )
    assert collected.returncode == 0, collected.stdout[-2000:]
    shutil.rmtree(tree)
