"""The Content-Security-Policy of a page: only the page's own scripts and styles, each with its hash, may be used.

Text that is wrongly inserted into a page as markup can then neither run as a script nor load a file.

References:
    [CSP3] Content Security Policy Level 3, section 8.4, https://www.w3.org/TR/CSP3/#match-element-to-source-list
"""

import ast
import base64
import hashlib
import re
from collections.abc import Iterable

EMPTY_STYLE = ""
"""Content of Plotly's style element when the browser checks the element; Plotly adds the rules later."""

_MADE_STYLE = re.compile(r"createElement\(\"style\"\);\w+\.id=\"\w+\",\w+\.textContent=('(?:[^'\\\\]|\\\\.)*')")
"""Matches the code with which Plotly inserts the stylesheet of its maps into a page, even without a map."""

_ATTRIBUTE = re.compile(r'\sstyle="([^"]*)"')


def digest(content: str) -> str:
    """Return the source expression that allows an inline script or style with this content [CSP3]."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def made_styles(script: str) -> list[str]:
    """Return the contents of the style elements that a script of plotly makes."""
    # Plotly's minified JavaScript strings are also valid Python strings.
    return [EMPTY_STYLE, *(str(ast.literal_eval(text)) for text in _MADE_STYLE.findall(script))]


def style_sources(html: str, styles: Iterable[str]) -> str:
    """Return the part of a policy about styles: style elements and style attributes of a page.

    Args:
        html: The page without its scripts; its style attributes are sizes and positions that the template writes.
        styles: Contents of the page's style elements, including style elements that the page's scripts make.
    """
    hashes = dict.fromkeys(map(digest, (*styles, *_ATTRIBUTE.findall(html))))
    return " ".join(["'unsafe-hashes'", *hashes])


def set_aside_styles(html: str) -> str:
    """Return a part of a page with its style attributes as data, which a script of the page then applies.

    The policy of an open page only allows the style attributes of the page that was sent, but scripts may set styles.
    """
    return _ATTRIBUTE.sub(r' data-style="\1"', html)


def file_policy(html: str, scripts: Iterable[str], styles: Iterable[str]) -> str:
    """Return the policy of a page that is one file, for its ``<meta>`` element."""
    return (
        f"default-src 'none'; script-src {' '.join(map(digest, scripts))}; "
        f"style-src {style_sources(html, styles)}; img-src data: blob:"
    )


def served_policy(html: str, scripts: Iterable[str], styles: Iterable[str]) -> str:
    """Return the policy of a served page, for an HTTP header: the page may send requests to its own server only."""
    return (
        f"default-src 'none'; script-src 'self' {' '.join(map(digest, scripts))}; "
        f"style-src {style_sources(html, styles)}; img-src data: blob:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
