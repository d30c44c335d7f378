"""``python -m tests.release --address URL`` builds what a release uploads: a wheel, and an sdist with the tests.

The README of the repository links to files beside it. On a package index these links lead nowhere, so the build makes
them links to the release's tag at the repository's address. The same address goes into ``[project.urls]``. The address
is the argument, or else that of the git remote ``origin``: no file of the repository repeats it.

Only committed files are built, from a copy. Built files appear in the folder when the version was checked.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PICTURES = (".png", ".svg", ".gif", ".jpg")
LINK = re.compile(r"(\]\()(?!https?:|#|mailto:)([^)\s]+)(\))")


class ReleaseError(Exception):
    """What keeps a release from being built, in one line."""


def absolute_links(text: str, address: str, tag: str) -> str:
    """Return Markdown whose links to files of the repository lead to the files of a tag.

    Example:
        >>> absolute_links("[a](docs/a.md#b) ![p](docs/p.png) [c](#here)", "https://forge.example/us/it", "v1.0.0")
        '[a](https://forge.example/us/it/blob/v1.0.0/docs/a.md#b) ![p](https://forge.example/us/it/raw/v1.0.0/docs/p.png) [c](#here)'
    """  # noqa: E501

    def lead(match: re.Match[str]) -> str:
        kind = "raw" if match[2].endswith(PICTURES) else "blob"
        return f"{match[1]}{address}/{kind}/{tag}/{match[2]}{match[3]}"

    return LINK.sub(lead, text)


def with_urls(project: str, address: str) -> str:
    """Return the text of ``pyproject.toml`` with the addresses of the project."""
    pages = {"Repository": "", "Documentation": "/tree/main/docs", "Changelog": "/blob/main/CHANGELOG.md"}
    lines = [f'{name} = "{address}{path}"' for name, path in {**pages, "Issues": "/issues"}.items()]
    head = "[project.urls]"
    if head in project:
        raise ReleaseError("pyproject.toml: has [project.urls] already, of which the build is the owner; take it out")
    return project.replace("[project.scripts]", "\n".join([head, *lines, "", "[project.scripts]"]), 1)


def check_version(root: Path) -> str:
    """Return the version, which the package, the citation and the newest dated section of the changelog share."""
    version: str = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    cited = re.search(r"^version: (\S+)$", (root / "CITATION.cff").read_text(encoding="utf-8"), re.M)
    if cited is None or cited[1] != version:
        raise ReleaseError(f"CITATION.cff: version must be {version}, as in pyproject.toml")
    sections = re.findall(
        r"^## \[(.+?)\](?: - \d{4}-\d\d-\d\d)?$", (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.M
    )
    if sections[:1] == ["Unreleased"]:
        raise ReleaseError(f"CHANGELOG.md: its newest section is [Unreleased]; call it [{version}] - DATE")
    if sections[:1] != [version]:
        raise ReleaseError(f"CHANGELOG.md: its newest section must be [{version}], got {sections[:1]}")
    return version


def copy_committed(root: Path, folder: Path) -> Path:
    """Write the files of the newest commit into a folder, and return it."""
    archive = folder / "committed.tar"
    subprocess.run(["git", "-C", root, "archive", "--output", archive, "HEAD"], check=True)
    with tarfile.open(archive) as files:
        files.extractall(folder / "tree", filter="data")
    return folder / "tree"


def build(tree: Path, address: str, tag: str, out: Path) -> list[Path]:
    """Build wheel and sdist of a copy of the repository, and return their paths; the copy is changed."""
    readme, project = tree / "README.md", tree / "pyproject.toml"
    readme.write_text(absolute_links(readme.read_text(encoding="utf-8"), address, tag), encoding="utf-8")
    project.write_text(with_urls(project.read_text(encoding="utf-8"), address), encoding="utf-8")
    uv = Path(sys.executable).parent / "uv"
    made = tree.parent / "dist"
    subprocess.run(
        [uv, "build", "--quiet", "--offline", "--no-build-isolation", "--python", sys.executable, "--out-dir", made],
        cwd=tree,
        check=True,
    )
    out.mkdir(parents=True, exist_ok=True)
    built = [path for path in sorted(made.iterdir()) if path.name.endswith((".whl", ".tar.gz"))]
    return [Path(shutil.move(path, out / path.name)) for path in built]


def main(arguments: Sequence[str] | None = None) -> int:
    """Build a release; exit code 2 where a version, a section or the address is missing."""
    parser = argparse.ArgumentParser(prog="python -m tests.release", description=__doc__.partition("\n")[0])
    parser.add_argument("--address", help="web address of the repository; by default that of the git remote origin")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder of the built files")
    given = parser.parse_args(arguments)
    try:
        version = check_version(ROOT)
        address = (given.address or _origin()).removesuffix("/").removesuffix(".git")
        if not address.startswith("https://"):
            raise ReleaseError(f"--address must begin with https://, got {address!r}")
        with tempfile.TemporaryDirectory() as folder:
            built = build(copy_committed(ROOT, Path(folder)), address, f"v{version}", given.out)
    except ReleaseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for path in built:
        print(path)
    return 0


def _origin() -> str:
    found = subprocess.run(["git", "-C", ROOT, "remote", "get-url", "origin"], capture_output=True, text=True)
    if found.returncode != 0:
        raise ReleaseError("--address: give the web address of the repository; git has no remote origin")
    return found.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
