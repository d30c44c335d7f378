"""Chromium, driven by Playwright; what needs it is skipped, with the reason, where there is none."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A browser without a window, made once."""
    executable = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if executable is None:
        pytest.skip("no Chromium on the PATH; on Debian: apt-get install chromium")
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=executable, args=ARGUMENTS)
        yield made
        made.close()


@pytest.fixture
def screenshots(tmp_path: Path) -> Path:
    """Where screenshots go: ``ORCHESTRATOR_SCREENSHOTS``, which keeps them, or a temporary folder."""
    folder = Path(os.environ.get("ORCHESTRATOR_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
