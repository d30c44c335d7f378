"""The page of a regression rerun in a real browser: whole on a desktop, and no wider than a phone."""

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from playwright.sync_api import Browser

from orchestrator.regression.accepted import Accepted, CellRecord
from orchestrator.regression.answers import answers_about_suite
from orchestrator.regression.rerun import first_references
from orchestrator.regression.suite import load_suite
from orchestrator.regression.verdict import judge_suite
from orchestrator.views.html import sections_page
from tests.browser.opened_page import PHONE, SIZES, opened
from tests.support.regression_results import CONDITIONS

pytestmark = pytest.mark.proof

COUNTS = [
    "train/loss",
    *(f"cocos/{way}_queries_without_gradient_{index}" for way in ("i2t", "t2i") for index in range(6)),
]


def drawn(generator: np.random.Generator, shift: float = 0.0) -> CellRecord:
    """Return runs with every kind of number that a page shows."""
    values = {}
    for seed in range(1, 6):
        counts = {f"{when}/{name}": 1234.5 + generator.normal() for when in ("first", "last") for name in COUNTS}
        scores = {"val/rsum": 400 + shift + generator.normal(), "test/rsum": 399 + shift + generator.normal()}
        values[seed] = {**scores, **counts}
    return CellRecord(CONDITIONS, values, {})


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the page of the study's suite after thirty nights, with one cell that regressed."""
    shipped, _ = load_suite("f30k-published")
    named = [cell.model_copy(update={"name": f"{cell.title}-with_resnet152_and_augmented"}) for cell in shipped.cells]
    suite = shipped.model_copy(update={"cells": tuple(named)})
    names = [cell.title for cell in suite.cells]
    generator = np.random.default_rng(0)
    reference = Accepted("f30k-published", "ada", "2026-01-02T03:04:05Z", "right", {n: drawn(generator) for n in names})
    runs = {name: drawn(generator, -60.0 if name == names[0] else 0.0) for name in names}
    nights = {f"202601{day:02d}T030000Z": {name: drawn(generator) for name in names} for day in range(1, 30)}
    reference = replace(reference, first=first_references(reference, runs))
    versions = ", ".join(f"package-{index} 1.2.{index}" for index in range(30))
    again = f"orchestrator regress f30k-published --output /{'long-folder/' * 12}"
    facts = [("versions", versions, ""), ("again", again, "")]
    path = tmp_path_factory.mktemp("page") / "report.html"
    answers = answers_about_suite(judge_suite(suite, runs, reference, nights), suite, runs, reference)
    page = sections_page(suite.name, "Regression rerun", [("", "", "", answers)], facts=facts)
    path.write_text(page, encoding="utf-8")
    return path


def test_nothing_is_cut_on_a_desktop_and_a_phone_scrolls_tables_alone(
    browser: Browser, page: Path, screenshots: Path
) -> None:
    with opened(browser, page.as_uri()) as shown:
        shown.page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        for label, size in SIZES.items():
            shown.draw("regression", screenshots, {label: size})
            hidden = "[...document.querySelectorAll('.scroll')].map(one => one.scrollWidth - one.clientWidth)"
            cut = shown.page.evaluate(hidden)
            assert len(cut) == 9, "a table of cells, and one of numbers for each of eight cells"
            assert size == PHONE or set(cut) == {0}
        assert shown.requests == [page.as_uri()]
