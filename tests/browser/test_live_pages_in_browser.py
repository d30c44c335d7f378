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
from tests.browser.opened_page import PATIENCE, opened
from tests.support.experiments import add_trial, make_experiment, start
from tests.support.live_pages import served
from tests.support.records import append

pytestmark = pytest.mark.proof

EVIL = "<script>document.title='it ran'</script>"


@contextmanager
def watched(browser: Browser, address: str, width: int = 1280, height: int = 900) -> Iterator[Page]:
    """Open an address; what the page complains of fails the test."""
    with opened(browser, address, (width, height)) as shown:
        yield shown.page
    assert shown.complaints == []


def begin(output: Path, trials: int = 1) -> Ledger:
    (output / "tiny").mkdir()
    ledger = Ledger(output / "tiny" / "journal.jsonl")
    start(ledger, make_experiment(search={"sampler": "random", "trials": 40}))
    for number in range(trials):
        add_trial(ledger, [20.0 + number, 30.0 + number])
    return ledger


def test_a_new_trial_is_seen_while_somebody_types(browser: Browser, tmp_path: Path, screenshots: Path) -> None:
    with closing(begin(tmp_path, 12)) as ledger, hold(tmp_path / "tiny"), served(tmp_path) as server:
        with watched(browser, f"{server.address}/e/tiny/") as page:
            page.wait_for_selector("#count:has-text('12 trials')")
            page.locator("#find").fill("0012")
            written = time.monotonic()
            trial = add_trial(ledger, [70.0], state=TrialState.RUNNING)
            page.wait_for_selector(f'[data-trial="{trial.id}"].opener')
            seen = time.monotonic() - written
            assert page.locator("#find").input_value() == "0012", "what a person has typed stays"
            page.locator("#find").fill("")
            page.wait_for_selector(f"#running tr[data-trial='{trial.id}']")
            page.locator("#trials").scroll_into_view_if_needed()
            page.wait_for_selector("#trials [data-drawn] .point")
            page.screenshot(path=screenshots / "live-running.png", full_page=True)
        print(f"seen after {seen:.1f} s")


def test_a_chart_grows_with_the_journal_and_keeps_its_place(browser: Browser, tmp_path: Path) -> None:
    with (
        closing(begin(tmp_path, 25)) as ledger,
        served(tmp_path) as server,
        watched(browser, f"{server.address}/e/tiny/") as page,
    ):
        page.locator("#trials").scroll_into_view_if_needed()
        page.locator("#trials .scatterlayer .point").nth(24).wait_for()
        before = page.evaluate("document.getElementById('trials').getBoundingClientRect().top")
        add_trial(ledger, [50.0])
        page.locator("#trials .scatterlayer .point").nth(25).wait_for()
        after = page.evaluate("document.getElementById('trials').getBoundingClientRect().top")
        assert after == pytest.approx(before, abs=2)


def test_the_leaderboard_is_as_high_before_the_first_rows_have_come(browser: Browser, tmp_path: Path) -> None:
    height = "document.getElementById('leaderboard').getBoundingClientRect().height"
    with closing(begin(tmp_path, 25)), served(tmp_path) as server:
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.route("**/events", lambda route: route.abort())
        page.goto(f"{server.address}/e/tiny/")
        before = page.evaluate(height)
        page.unroute("**/events")
        page.reload()
        page.wait_for_selector(".opener")
        assert page.evaluate(height) == pytest.approx(before, abs=2)
        context.close()


def test_of_few_trials_all_charts_are_drawn_unasked(browser: Browser, tmp_path: Path, screenshots: Path) -> None:
    with (
        closing(begin(tmp_path, 12)),
        served(tmp_path) as server,
        watched(browser, f"{server.address}/e/tiny/") as page,
    ):
        for key in ("trials", "curves", "weights"):
            page.wait_for_selector(f"#{key} [data-drawn]")
        assert page.evaluate("window.scrollY") == 0
        # A search with one objective has no front, whose place takes no room.
        assert page.evaluate("document.getElementById('front').getBoundingClientRect().height") == 0
        page.screenshot(path=screenshots / "live-few.png", full_page=True)


def test_first_trial_failure_and_end_of_a_search_appear(browser: Browser, tmp_path: Path, screenshots: Path) -> None:
    with served(tmp_path, expected="tiny") as server, watched(browser, f"{server.address}/") as page:
        page.locator("a", has_text="tiny").click()
        page.wait_for_selector("#state :text('not begun yet')")
        with closing(begin(tmp_path)) as ledger:
            page.wait_for_selector(".opener")
            failed = add_trial(ledger, [10.0], state=TrialState.FAILED, error=EVIL)
            keep_error(tmp_path / "tiny", failed.id, 1, f"Traceback {EVIL}")
            page.wait_for_selector(".failures a")
            assert EVIL in page.locator(".failures").inner_text()
            append(ledger, "experiment_ended", outcome="interrupted", ended_by="signal")
            page.wait_for_selector("#state :text('interrupted')")
        for key in ("trials", "curves", "weights"):
            page.wait_for_selector(f"#{key} [data-drawn]")
        page.screenshot(path=screenshots / "live-interrupted.png", full_page=True)
        assert page.title() == "tiny – live"
        page.locator(".failures a").click()
        assert EVIL in page.locator("pre").inner_text()


@pytest.mark.parametrize("width", [1280, 1920, 375])
def test_the_start_page_shows_what_was_found(browser: Browser, tmp_path: Path, screenshots: Path, width: int) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        with closing(Ledger(tmp_path / name / "journal.jsonl")) as ledger:
            start(ledger, make_experiment(name=name))
            add_trial(ledger, [30.0])
    with served(tmp_path) as server, watched(browser, f"{server.address}/", width) as page:
        assert page.locator(".card", has_text="val rsum of its search, 30.0").count() == 2
        with closing(Ledger(tmp_path / "second" / "journal.jsonl")) as ledger:
            add_trial(ledger, [35.0])
        page.wait_for_selector(".card:has-text('second') >> text=35.0")
        assert page.evaluate("document.documentElement.scrollWidth") == width
        page.screenshot(path=screenshots / f"live-start-{width}.png", full_page=True)


def test_state_bars_and_best_losses_are_in_the_first_view(browser: Browser, tmp_path: Path, screenshots: Path) -> None:
    with closing(begin(tmp_path, 3)) as ledger, hold(tmp_path / "tiny"), served(tmp_path) as server:
        for loss in ("nt_xent", "triplet_sh"):
            add_trial(ledger, [40.0], loss=loss, state=TrialState.RUNNING, epoch_seconds=2.0)
        with watched(browser, f"{server.address}/e/tiny/", height=800) as page:
            for selector in ("#state .standing", "#state progress", "#state .left", ".answer-table tbody tr >> nth=1"):
                box = page.locator(selector).first.bounding_box()
                assert box is not None and box["y"] + box["height"] <= 800, selector
            page.screenshot(path=screenshots / "live-first-view.png")


def test_a_server_that_ends_is_noticed_and_one_that_comes_back_is_found(browser: Browser, tmp_path: Path) -> None:
    with closing(begin(tmp_path)):
        with served(tmp_path) as server:
            context = browser.new_context()
            context.set_default_timeout(PATIENCE)
            page = context.new_page()
            page.goto(f"{server.address}/e/tiny/")
            page.wait_for_selector(".opener")
            assert page.locator("#connection").is_hidden()
        page.wait_for_selector("#connection:has-text('has not answered since')")
        with served(tmp_path, port=server.port):
            page.wait_for_selector("#connection", state="hidden")
        context.close()
