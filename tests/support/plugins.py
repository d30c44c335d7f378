"""Plug-ins for tests: files with a loss, and packages that are found as if they were installed."""

import shutil
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from trainables.plugins.in_use import forget

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"

HEAD = "import torch\nfrom trainables.plugins import loss, model, data_format\n"

MEAN = """
@loss(space={"scale": (0.5, 4.0, "log")})
def mean_gap(similarity, positives, ignore, scale=1.0):
    \"\"\"Mean similarity of negatives minus that of positives.\"\"\"
    negatives = ~positives & ~ignore
    return scale * (similarity[negatives].mean() - similarity[positives].mean())
"""


def write_plugin(folder: Path, text: str = MEAN, name: str = "my_losses.py") -> Path:
    """Write a file that begins as plug-ins do."""
    path = folder / name
    path.write_text(HEAD + text)
    return path


def lay_out_package(folder: Path) -> Path:
    """Copy the sample package as an installation would lay it out, with its metadata; return the folder to import."""
    source = EXAMPLES / "icr-pair-losses"
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    shutil.copytree(source / "icr_pair_losses", folder / "icr_pair_losses")
    write_metadata(folder, project["name"], project["version"], project["entry-points"])
    return folder


def write_metadata(folder: Path, name: str, version: str, groups: Mapping[str, Mapping[str, str]]) -> None:
    """Write what an installation says of a distribution."""
    metadata = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [f"[{group}]\n" + "".join(f"{a} = {b}\n" for a, b in points.items()) for group, points in groups.items()]
    (metadata / "entry_points.txt").write_text("\n".join(lines))


@contextmanager
def plugins_gone_afterwards() -> Iterator[None]:
    """Let no plug-in of a ``with`` block be known after it, and its text lie in a folder of the block."""
    with TemporaryDirectory() as cache, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", cache)
        try:
            yield
        finally:
            forget()
