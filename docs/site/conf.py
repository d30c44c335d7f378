"""How ``make docs`` builds a site from the Markdown files of the repository, where they lie and as they are.

The source folder is the repository itself, so that a link leads to the same place on the site as in the repository.
Whatever does not resolve is a warning, and ``make docs`` takes warnings for errors.
"""

import re
import sys
from pathlib import Path

from docutils import nodes
from myst_parser.parsers.sphinx_ import MystParser
from sphinx.application import Sphinx

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

# Its folder is on the path from here on.
from llms import markdown_file, write_llms  # noqa: E402

project = "icr-orchestrator"
html_title = project
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "README"
include_patterns = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs/*.md",
    "docs/evidence/*.md",
    "docs/reference/*.md",
    "docs/studies/*.md",
    "docs/examples/**.py",
    "docs/site/api.md",
    "deploy/README.md",
    "orchestrator/reference/README.md",
]
exclude_patterns = ["docs/examples/**/__init__.py", "docs/examples/**/test_*.py"]
source_suffix = {".md": "markdown", ".py": "script"}

html_theme = "furo"
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"top_of_page_buttons": []}

myst_heading_anchors = 4

autodoc_typehints = "description"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False


class ScriptParser(MystParser):
    """Reads a script in cells as the Markdown of its text cells, and any other script as one block of code."""

    supported = ("script",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        """Parse a script."""
        name = Path(document["source"]).name
        super().parse(markdown_of(inputstring, name), document)


def markdown_of(script: str, name: str) -> str:
    """Return a script as Markdown; one that is not in cells is a page that is reached by links alone."""
    cells = re.findall(r"^# %%([^\n]*)\n(.*?)(?=^# %%|\Z)", script, re.M | re.S)
    if not cells:
        return f"---\norphan: true\n---\n\n# {name}\n\n```python\n{script}\n```\n"
    texts = [(head, cell.strip("\n")) for head, cell in cells]
    return "\n\n".join(
        re.sub(r"^# ?", "", text, flags=re.M) if "[markdown]" in head else f"```python\n{text}\n```"
        for head, text in texts
    )


def add_navigation(app: Sphinx, page: str, source: list[str]) -> None:
    """Add the navigation to the first page of the site, which in the repository is a page like others."""
    if page == root_doc:
        source[0] += "\n" + (HERE / "navigation.md").read_text(encoding="utf-8")


def write_for_assistants(app: Sphinx, exception: Exception | None) -> None:
    """Write ``llms.txt``, and beside each page its Markdown."""
    if exception is not None or app.builder.format != "html":
        return
    site = Path(app.outdir)
    (site / "llms.txt").write_text(write_llms(), encoding="utf-8")
    for page in app.env.found_docs:
        source = Path(app.env.doc2path(page))
        text = source.read_text(encoding="utf-8")
        place = site / markdown_file(page)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(markdown_of(text, source.name) if source.suffix == ".py" else text, encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Let Sphinx read scripts, know the navigation, and write what assistants read."""
    app.add_source_parser(ScriptParser)
    app.connect("source-read", add_navigation)
    app.connect("build-finished", write_for_assistants)
