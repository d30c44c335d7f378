"""One message to a chat or a pager when a scheduled run ends badly; it can fail, and then it is said and no more.

The address comes from the environment, so that it stands in no file and no process list.
"""

import json
import os
import urllib.request
from http.client import HTTPException
from typing import Any

from tenacity import Retrying, stop_after_attempt, wait_exponential
from tenacity import retry_if_exception_type as on

VARIABLE = "ICR_WEBHOOK_URL"
"""Name of the environment variable that holds the address."""

ATTEMPTS = 3
SECONDS = 10.0
"""An attempt waits so long for an answer."""


def notify(text: str, result: dict[str, Any], *, pause: float = 1.0) -> str | None:
    """Post a result as JSON: ``text`` for people, ``result`` for programs.

    Args:
        text: One line.
        result: Plain values.
        pause: Seconds before the second attempt, twice that before the third.

    Returns:
        Why it was not delivered, without the address, which is a secret; ``None`` where it was, or where no address
        is set.
    """
    url = os.environ.get(VARIABLE)
    if not url:
        return None
    if not url.startswith(("https://", "http://")):
        return f"{VARIABLE} must begin with https:// or http://"
    body = json.dumps({"text": text, "result": result}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    failures = (OSError, HTTPException, ValueError)
    try:
        for attempt in Retrying(
            stop=stop_after_attempt(ATTEMPTS), wait=wait_exponential(pause), retry=on(failures), reraise=True
        ):
            with attempt, urllib.request.urlopen(request, timeout=SECONDS):
                pass
    except failures as error:
        return f"{VARIABLE}: not delivered in {ATTEMPTS} attempts: {getattr(error, 'reason', type(error).__name__)}"
    return None
