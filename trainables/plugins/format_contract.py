"""The part of the contract of a plug-in's form of data that can be checked without a dataset."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from trainables.errors import PluginError
from trainables.plugins.blame import Blaming
from trainables.plugins.findings import Finding
from trainables.plugins.in_use import run_offer


def check_format(name: str) -> Iterator[Finding]:
    """Yield a finding for each check of a form of data; ``orchestrator data describe`` checks the data themselves."""
    found = run_offer("formats", name)
    assert found is not None
    offer, place = found
    missing = [part for part in ("FORMAT", "find", "read") if not hasattr(offer.thing, part)]
    if missing:
        yield Finding("parts", "fail", f"{place}: has no {', '.join(missing)}; see trainables/data/formats/flickr.py")
        return
    yield Finding("parts", "ok", "has FORMAT, find and read")
    with tempfile.TemporaryDirectory() as folder:
        try:
            with Blaming():
                files = offer.thing.find(Path(folder))
        except PluginError as error:
            yield Finding("other folders", "fail", f"find fails for a folder that holds nothing: {error}")
            return
    if isinstance(files, list) and not files:
        yield Finding("other folders", "ok", "finds nothing in a folder that holds nothing")
    else:
        yield Finding("other folders", "fail", f"find must return [] for a folder of another form, got {files!r:.60}")
