"""The live pages in a real browser: a journal grows, and the page with it."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from orchestrator.journal.directory import keep_error
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.lock import hold
from orchestrator.journal.trial import TrialState
from tests.support.experiments import add_trial, make_experiment, start
from tests.support.live_pages import served
from tests.support.records import append

pytestmark = pytest.mark.proof

EVIL = "<script>document.title='it ran'</script>"


@contextmanager
def opened(browser: Browser, address: str, width: int = 1280) -> Iterator[Page]:
    """Open an address; what the page complains of fails the test."""
    context = browser.new_context(viewport={"width": width, "height": 900})
    # A page rests between two answers as long as they take: on a machine that others keep busy, that is long.
    context.set_default_timeout(180_000)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(address)
    yield page
    context.close()
    assert complaints == []


def begin(output: Path, trials: int = 1) -> Ledger:
    (output / "tiny").mkdir()
    ledger = Ledger(output / "tiny" / "journal.jsonl")
    start(ledger, make_experiment(search={"sampler": "random", "trials": 40}))
    for number in range(trials):
        add_trial(ledger, [20.0 + number, 30.0 + number])
    return ledger


def test_a_new_trial_is_seen_while_somebody_types(browser: Browser, tmp_path: Path, screenshots: Path) -> None:
    with closing(begin(tmp_path, 12)) as ledger, hold(tmp_path / "tiny"), served(tmp_path) as server:
        with opened(browser, f"{server.address}/e/tiny/") as page:
            page.wait_for_selector("#count:has-text('12 trials')")
            page.locator("#find").fill("0012")
            written = time.monotonic()
            trial = add_trial(ledger, [70.0], state=TrialState.RUNNING)
            page.wait_for_selector(f'[data-trial="{trial.id}"].opener')
            seen = time.monotonic() - written
            assert page.locator("#find").input_value() == "0012", "what a person has typed stays"
            page.locator("#find").fill("")
            page.wait_for_selector(f"#live tr[data-trial='{trial.id}']")
            page.locator("#trials").scroll_into_view_if_needed()
            page.wait_for_selector("#trials [data-drawn] .point")
            page.screenshot(path=screenshots / "live-running.png", full_page=True)
        print(f"seen after {seen:.1f} s")


def test_a_chart_grows_with_the_journal_and_keeps_its_place(browser: Browser, tmp_path: Path) -> None:
    with (
        closing(begin(tmp_path, 25)) as ledger,
        served(tmp_path) as server,
        opened(browser, f"{server.address}/e/tiny/") as page,
    ):
        page.locator("#trials").scroll_into_view_if_needed()
        page.locator("#trials .scatterlayer .point").nth(24).wait_for()
        before = page.evaluate("document.getElementById('trials').getBoundingClientRect().top")
        add_trial(ledger, [50.0])
        page.locator("#trials .scatterlayer .point").nth(25).wait_for()
        after = page.evaluate("document.getElementById('trials').getBoundingClientRect().top")
        assert after == pytest.approx(before, abs=2)


def test_of_few_trials_all_charts_are_drawn_though_nobody_looks(
    browser: Browser, tmp_path: Path, screenshots: Path
) -> None:
    with closing(begin(tmp_path, 12)), served(tmp_path) as server, opened(browser, f"{server.address}/e/tiny/") as page:
        page.wait_for_selector("[data-figure] [data-drawn]")
        page.locator("[data-figure][data-pending]").first.wait_for(state="detached")
        page.wait_for_selector("#spent")
        assert page.evaluate("window.scrollY") == 0
        page.screenshot(path=screenshots / "live-few.png", full_page=True)


def test_the_first_trial_the_failure_and_the_end_of_a_search_appear(
    browser: Browser, tmp_path: Path, screenshots: Path
) -> None:
    with served(tmp_path, expected="tiny") as server, opened(browser, f"{server.address}/") as page:
        page.locator("a", has_text="tiny").click()
        page.wait_for_selector("#live :text('not begun yet')")
        with closing(begin(tmp_path)) as ledger:
            page.wait_for_selector(".opener")
            failed = add_trial(ledger, [10.0], state=TrialState.FAILED, error=EVIL)
            keep_error(tmp_path / "tiny", failed.id, 1, f"Traceback {EVIL}")
            page.wait_for_selector(".failures a")
            assert EVIL in page.locator(".failures").inner_text()
            append(ledger, "experiment_ended", outcome="interrupted", ended_by="signal")
            page.wait_for_selector("#live :text('interrupted')")
        page.wait_for_timeout(500)
        page.screenshot(path=screenshots / "live-interrupted.png", full_page=True)
        assert page.title() == "tiny – live"
        page.locator(".failures a").click()
        assert EVIL in page.locator("pre").inner_text()


@pytest.mark.parametrize("width", [1280, 1920, 375])
def test_the_start_page_shows_experiments_side_by_side(
    browser: Browser, tmp_path: Path, screenshots: Path, width: int
) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        with closing(Ledger(tmp_path / name / "journal.jsonl")) as ledger:
            start(ledger, make_experiment(name=name))
            for value in (30.0, 35.0, 33.0):
                add_trial(ledger, [value])
    with served(tmp_path) as server, opened(browser, f"{server.address}/", width) as page:
        page.wait_for_selector("#side .scatterlayer .js-line")
        assert page.locator("#side .scatterlayer .js-line").count() == 2
        assert page.evaluate("document.documentElement.scrollWidth") == width
        page.screenshot(path=screenshots / f"live-start-{width}.png", full_page=True)


def test_a_server_that_ends_is_noticed_and_one_that_comes_back_is_found(browser: Browser, tmp_path: Path) -> None:
    with closing(begin(tmp_path)):
        with served(tmp_path) as server:
            context = browser.new_context()
            page = context.new_page()
            page.goto(f"{server.address}/e/tiny/")
            page.wait_for_selector(".opener")
            assert page.locator("#connection").is_hidden()
        page.wait_for_selector("#connection:has-text('has not answered since')")
        with served(tmp_path, port=server.port):
            page.wait_for_selector("#connection", state="hidden", timeout=20_000)
        context.close()
