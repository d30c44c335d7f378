"""Messages of a rerun: JUnit XML for CI systems, and one message to a chat or a pager when it ends badly.

A message that cannot be delivered is reported, and changes nothing else. The address is a secret and comes from an
environment variable, so that no file and no list of processes shows the address.
"""

import json
import os
import urllib.request
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from xml.etree import ElementTree

from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential

from orchestrator.regression.comparison import Finding
from orchestrator.results.answer import Answer
from orchestrator.text.values import visible

BAD = {Finding.REGRESSION: "failure", Finding.CHANGED: "failure", Finding.FAILED: "error", Finding.UNKNOWN: "skipped"}
"""Finding -> the XML element that marks a test case with this finding; test cases with other findings pass."""


def to_junit(suite: str, answers: Sequence[Answer], seconds: float) -> str:
    """Return the XML of a rerun from its answers, the suite's first, see ``answers_about_suite``."""
    about, *cells = answers
    outcomes = [BAD.get(Finding(cell.verdict)) for cell in cells]
    root = ElementTree.Element("testsuite", name=visible(suite), tests=str(len(cells)), time=f"{seconds:.1f}")
    for name, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        root.set(name, str(outcomes.count(kind)))
    for cell, outcome in zip(cells, outcomes, strict=True):
        case = ElementTree.SubElement(root, "testcase", classname=visible(suite), name=visible(cell.closest))
        # CI systems show one test case at a time, so each failed case names the causes of all.
        causes = about.notes if outcome in ("failure", "error") else ()
        text = visible("\n".join([*cell.sentences, *causes]))
        if outcome is None:
            ElementTree.SubElement(case, "system-out").text = text
        else:
            ElementTree.SubElement(case, outcome, message=visible(cell.headline)).text = text
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


VARIABLE = "ICR_WEBHOOK_URL"
"""Name of the environment variable that holds the address."""

ATTEMPTS, SECONDS = 3, 10.0
"""How often a message is sent, and the seconds for which each attempt waits for an answer."""

FAILURES = (OSError, HTTPException, ValueError)


class _StayHere(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: ``urllib`` would send a GET without the body, and take the answer for a delivery."""

    def redirect_request(self, *arguments: Any) -> None:
        """Return no request, so that a redirect raises the ``HTTPError`` of its status."""


def notify(text: str, result: Mapping[str, Any], *, pause: float = 1.0) -> str | None:
    """Post a result as JSON: ``text``, one line, for people, and the plain values of ``result`` for programs.

    The second attempt comes after ``pause`` seconds, the third after twice as long.

    Returns:
        Why the message was not delivered, without the secret address; ``None`` where the message was delivered, or
        where no address is set.
    """
    url = os.environ.get(VARIABLE)
    if not url:
        return None
    if (problem := _malformed(url)) is not None:
        return f"{VARIABLE} {problem}"
    body = json.dumps({"text": text, "result": dict(result)}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    opener = urllib.request.build_opener(_StayHere)
    try:
        for attempt in Retrying(
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_exponential(pause),
            retry=retry_if_exception(lambda error: isinstance(error, FAILURES) and not _redirects(error)),
            reraise=True,
        ):
            with attempt, opener.open(request, timeout=SECONDS):
                pass
    except FAILURES as error:
        if _redirects(error):
            return (
                f"{VARIABLE}: not delivered: the address redirects, which a POST does not follow; set the new address"
            )
        return f"{VARIABLE}: not delivered in {ATTEMPTS} attempts: {getattr(error, 'reason', type(error).__name__)}"
    return None


def _malformed(url: str) -> str | None:
    """Return the error of a malformed address, without the address; ``None`` for a well-formed address."""
    if not url.startswith(("https://", "http://")):
        return "must begin with https:// or http://"
    if not (url.isascii() and url.isprintable()) or " " in url:
        return "must be ASCII without spaces and control characters; write others as %XX"
    try:
        parts = urlsplit(url)
        if not parts.hostname or parts.port == 0:
            return "must name a host, and a port from 1 to 65535 if any"
    except ValueError:
        return "is no address: its host or port cannot be read"
    return None


def _redirects(error: BaseException) -> bool:
    return isinstance(error, HTTPError) and 300 <= error.code < 400
