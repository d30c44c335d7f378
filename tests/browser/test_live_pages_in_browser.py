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
from orchestrator.journal.trial import Trial, TrialState
from tests.browser.opened_page import PATIENCE, opened
from tests.support.experiments import add_repeats, add_trial, begun, confirm_two_losses, make_experiment, start
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


COEFFICIENT = {"nt_xent": "temperature", "triplet_sh": "margin"}


def value(trial: Trial) -> float:
    return trial.best_value or 0.0


def search_on(ledger: Ledger, numbers: range, newest: TrialState) -> None:
    """End the running trials, and write further trials of both losses, the newest of each in a state."""
    for trial in ledger.history.running():
        metrics = {"val/rsum": 20.0, "train/loss": 1.0, "time/epoch_seconds": 90.0}
        ledger.report(trial, trial.last_epoch + 1, metrics, TrialState.FINISHED)
    for number in numbers:
        for loss, name in COEFFICIENT.items():
            behind = 3.0 * (loss == "triplet_sh")
            values = [20.0 + number - behind, 30.0 + number - behind, 34.0 + number - behind]
            state = newest if number == max(numbers) else TrialState.FINISHED
            add_trial(ledger, values, loss=loss, params={name: 0.05 * number}, state=state, epoch_seconds=90.0)


def draw_anew(page: Page, *figures: str) -> None:
    """Open the page again, and wait for its charts: a chart that nobody looks at is drawn once, and stays as it was."""
    page.reload()
    for key in figures:
        page.wait_for_selector(f"#{key} [data-drawn]", state="attached")


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


def test_a_page_stays_when_another_loss_takes_the_lead(browser: Browser, tmp_path: Path) -> None:
    with closing(begin(tmp_path)) as ledger, served(tmp_path) as server:
        add_trial(ledger, [10.0], loss="triplet_sh")
        with watched(browser, f"{server.address}/e/tiny/") as page:
            page.wait_for_selector("#count:has-text('2 trials')")
            page.evaluate("window.isKept = true")
            add_trial(ledger, [90.0], loss="triplet_sh")
            page.wait_for_selector("#count:has-text('3 trials')")
            assert page.evaluate("window.isKept") is True, "a reload would close opened rows and move the page"


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


def test_the_page_of_a_search_is_drawn_at_its_start_in_its_middle_and_in_its_test(
    browser: Browser, tmp_path: Path, screenshots: Path
) -> None:
    plan = make_experiment(search={"sampler": "random", "trials": 6}, confirm={"top": 1, "seeds": 3})
    first_view = ["#state .standing", "#state progress", "#state .left"]
    with (
        begun(tmp_path / "tiny", plan) as ledger,
        hold(tmp_path / "tiny"),
        served(tmp_path) as server,
        opened(browser, f"{server.address}/e/tiny/") as shown,
    ):
        page = shown.page
        newest = [add_trial(ledger, [], loss=loss, state=TrialState.RUNNING) for loss in COEFFICIENT][-1]
        page.wait_for_selector(f"#running tr[data-trial='{newest.id}']")
        assert page.locator("#state .left").inner_text() == "ETA after the first epoch"
        assert page.locator(".answer h3").first.inner_text() == "Which setting?"
        assert page.locator("#search h2").is_hidden(), "a figure without data has no place"
        links = page.locator(".links a").filter(visible=True).all_inner_texts()
        assert links == ["All experiments", "pets", "Leaderboard", "Cost", "Reproduce"]
        assert page.locator("#running td[data-label='best so far']").all_inner_texts() == ["–", "–"]
        shown.draw("live-1-start", screenshots, first_view=first_view)
        # The last drawing is on a phone, where a label without a value is left out.
        assert page.locator("#running td[data-label='best so far']").filter(visible=True).count() == 0

        search_on(ledger, range(1, 4), TrialState.RUNNING)
        page.wait_for_selector("#state .stage-count:text('6 of 12 ended')")
        draw_anew(page, "trials", "curves", "parallel", "slices", "weights")
        assert page.evaluate("window.scrollY") == 0, "of few trials, all charts are drawn unasked"
        # A search with one objective has no front, whose place takes no room.
        assert page.evaluate("document.getElementById('front').getBoundingClientRect().height") == 0
        first_view += [".answer-table tbody tr >> nth=0", ".answer-table tbody tr >> nth=1"]
        shown.draw("live-2-middle", screenshots, first_view=first_view)
        links = page.locator(".links a").filter(visible=True).all_inner_texts()
        assert links[3:6] == ["Search", "Coefficients", "Losses"]
        assert page.locator("#state .left").inner_text().startswith("ETA 00:")

        search_on(ledger, range(4, 6), TrialState.FINISHED)
        best = [max(ledger.history.study(f"pets-vsepp-{loss}"), key=value) for loss in COEFFICIENT]
        repeats = add_repeats(ledger, [(trial, [40.0 + seed for seed in range(3)]) for trial in best])
        append(ledger, "test_opened", dataset="pets", trials=[repeat.id for repeat in repeats])
        append(ledger, "test_evaluated", trial=repeats[0].id, metrics={"rsum": 36.0})
        page.wait_for_selector("#state .stage-count:text('1 of 6 models evaluated')")
        draw_anew(page, "budget", "trials", "curves", "parallel", "slices", "weights")
        shown.draw("live-3-test", screenshots, first_view=first_view)


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


def test_the_start_page_shows_what_was_found(browser: Browser, tmp_path: Path, screenshots: Path) -> None:
    for name in ("first", "second"):
        with begun(tmp_path / name, make_experiment(name=name)) as ledger:
            add_trial(ledger, [30.0])
    with served(tmp_path) as server, opened(browser, f"{server.address}/") as shown:
        page = shown.page
        assert page.locator(".card", has_text="val rsum of its search, 30.0").count() == 2
        with closing(Ledger(tmp_path / "second" / "journal.jsonl")) as ledger:
            add_trial(ledger, [35.0])
            page.wait_for_selector(".card:has-text('second') >> text=35.0")
            for number, trial in enumerate(confirm_two_losses(ledger)):
                append(ledger, "test_evaluated", trial=trial.id, metrics={"rsum": 300.0 - number})
        page.wait_for_selector(".card:has-text('second') >> text=NT-Xent at τ = 0.1 beats Triplet SH")
        shown.draw("start-page", screenshots, first_view=[".card .standing", ".card .headline"])


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
