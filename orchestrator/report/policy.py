"""Tells the browser what a page may load and run: only its own scripts and styles, each named by its hash.

A text that got into a page as markup could then neither run as a script nor load a file.

References:
    [CSP3] Content Security Policy Level 3, section 8.4, https://www.w3.org/TR/CSP3/#match-element-to-source-list
"""

import ast
import base64
import hashlib
import re
from collections.abc import Iterable

EMPTY_STYLE = ""
"""The style element that plotly makes, which is empty when the browser checks it, because its rules come later."""

_MADE_STYLE = re.compile(r"createElement\(\"style\"\);\w+\.id=\"\w+\",\w+\.textContent=('(?:[^'\\\\]|\\\\.)*')")
"""How plotly puts the style sheet of its maps into a page, drawn or not."""

_ATTRIBUTE = re.compile(r'\sstyle="([^"]*)"')


def digest(content: str) -> str:
    """Return the source expression that allows an inline script or style with this content [CSP3]."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def made_styles(script: str) -> list[str]:
    """Return the contents of the style elements that a script of plotly makes."""
    # The strings that a compressor of JavaScript writes are strings of Python, too.
    return [EMPTY_STYLE, *(str(ast.literal_eval(text)) for text in _MADE_STYLE.findall(script))]


def style_sources(html: str, styles: Iterable[str]) -> str:
    """Return the part of a policy about styles: the style elements, and the style attributes of a page.

    Args:
        html: The page without its scripts, whose style attributes are the lengths and places that its template writes.
        styles: Contents of its style elements, the style elements that its scripts make included.
    """
    hashes = dict.fromkeys(map(digest, (*styles, *_ATTRIBUTE.findall(html))))
    return " ".join(["'unsafe-hashes'", *hashes])


def set_aside_styles(html: str) -> str:
    """Return a piece of a page whose style attributes are data: its receiver sets them as its own script may.

    The policy of an open page names the style attributes of the page as it was sent, and no later attributes.
    """
    return _ATTRIBUTE.sub(r' data-style="\1"', html)


def file_policy(html: str, scripts: Iterable[str], styles: Iterable[str]) -> str:
    """Return the policy of a page that is one file, for its ``<meta>`` element."""
    return (
        f"default-src 'none'; script-src {' '.join(map(digest, scripts))}; "
        f"style-src {style_sources(html, styles)}; img-src data: blob:"
    )


def served_policy(html: str, scripts: Iterable[str], styles: Iterable[str]) -> str:
    """Return the policy of a page that a server sends, for its header: it may ask its own server, and nobody else."""
    return (
        f"default-src 'none'; script-src 'self' {' '.join(map(digest, scripts))}; "
        f"style-src {style_sources(html, styles)}; img-src data: blob:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
