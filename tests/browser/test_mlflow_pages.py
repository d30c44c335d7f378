"""MLflow's pages on a search of ours, in a real browser: useful as they open, and whatever is in the data is text."""

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from mlflow import MlflowClient
from playwright.sync_api import Browser, Page

from orchestrator.journal.directory import JOURNAL_FILE
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import Trial, TrialState
from orchestrator.tracking.address import default_uri
from orchestrator.tracking.sync import deliver
from orchestrator.tracking.view import comparison_page, newest_page
from tests.browser.opened_page import PHONE, SCHEMES, SIZES, WIDE, Opened
from tests.browser.opened_page import opened as opened_page
from tests.integration.test_ui import end, fetch
from tests.support.bucket import free_port
from tests.support.child_process import running
from tests.support.experiments import add_repeat, make_experiment, open_test, start
from tests.support.records import append

pytestmark = pytest.mark.proof

EVIL = "<script>document.title='it ran'</script>"
HOSTILE = f"{EVIL} *stars* [link](javascript:alert(1)) \x07\x1b[31m & <img src=x onerror=\"document.title='it ran'\">"
SHOWN = HOSTILE.replace("\x07", "\\x07").replace("\x1b", "\\x1b")
OF_MLFLOW = ("AG Grid: ", "GL Driver Message", "ResizeObserver loop")
"""What MLflow's pages complain of on any store."""

NOT_SERVED = ("/assistant/", "/users/current", "/gateway", "/traces", "/ui-telemetry", "/workspaces", "/scorers")
"""Parts of addresses that the pages ask for and that are not served; the console names each."""


@dataclass(frozen=True)
class Served:
    """``orchestrator ui``.

    Attributes:
        opens: The address that it prints, with its token.
        root: The server's.
    """

    opens: str
    root: str
    uri: str
    trials: dict[str, str]

    def with_token(self, path: str) -> str:
        """Return the address of a page, as a browser that comes for the first time needs it."""
        return self.opens.partition("#")[0] + path.removeprefix("/")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, store_template: Path, browser: Browser) -> Iterator[Served]:
    output = tmp_path_factory.mktemp("pages")
    shutil.copy(store_template, output / "mlflow.db")
    trials = write_searches(output)
    port = free_port()
    command = [sys.executable, "-c", "from orchestrator.cli import main; main()", "ui", "--output", str(output)]
    with running([*command, "--port", str(port)], stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        started.stdout.readline()
        opens = started.stdout.readline().split()[1]
        root = f"http://127.0.0.1:{port}"
        fetch(f"{root}/health", started)
        yield Served(opens, root, default_uri(output), trials)
        end(started, signal.SIGTERM)


def write_searches(output: Path) -> dict[str, str]:
    """Write and deliver two experiments, the newer one confirmed and hostile; return its runs by their trials."""
    for name, description in (("older", ""), ("newer", HOSTILE)):
        (output / name).mkdir()
        ledger = Ledger(output / name / JOURNAL_FILE)
        start(ledger, make_experiment(name=name, description=description))
        best = write_trials(ledger)
        repeats = [add_repeat(ledger, best, index, 7 + index, 138.0 + index) for index in range(2)]
        open_test(ledger, repeats)
        append(ledger, "experiment_ended", outcome="finished", ended_by="trials")
        deliver(output / name, output, default_uri(output))
        ledger.close()
    client = MlflowClient(tracking_uri=default_uri(output))
    (experiment,) = client.search_experiments(filter_string="name = 'newer'")
    runs = client.search_runs([experiment.experiment_id], "tags.kind = 'trial'")
    for run in runs:
        # As the packed champion has them.
        text = json.dumps({"captions": [HOSTILE]}, ensure_ascii=False)
        client.log_text(run.info.run_id, text, "champion/data/model/retriever.json")
    return {run.data.tags["trial"]: run.info.run_id for run in runs}


def write_trials(ledger: Ledger) -> Trial:
    best = train(ledger, "nt_xent", 0, {"temperature": 0.05}, [100.0, 140.0, 120.0])
    train(ledger, "nt_xent", 1, {"temperature": 0.2}, [90.0, 95.0, 99.0])
    train(ledger, "triplet_sh", 0, {"margin": 0.2}, [80.0], TrialState.STOPPED_EARLY)
    failed = train(ledger, "triplet_sh", 1, {"margin": 0.4}, [10.0], TrialState.RUNNING)
    ledger.end(failed, TrialState.FAILED, HOSTILE)
    return best


def train(
    ledger: Ledger,
    loss: str,
    number: int,
    params: dict[str, float],
    values: list[float],
    state: TrialState = TrialState.FINISHED,
) -> Trial:
    experiment = make_experiment()
    cell = next(cell for cell in experiment.cells() if cell.loss == loss)
    trial = ledger.create(cell.name, number, params, experiment.trial_config(cell, params))
    for epoch, value in enumerate(values, start=1):
        metrics = {"train/loss": 1 / epoch, "val/rsum": value, "val/rsum_best": max(values[:epoch])}
        metrics |= {"val/i2t_r1": value / 8, "val/t2i_r1": value / 9, "cocos/i2t_queries_without_gradient": 3.5}
        ledger.report(trial, epoch, metrics, state if epoch == len(values) else TrialState.RUNNING)
    return trial


def is_known(text: str, url: str) -> bool:
    return any(known in text for known in OF_MLFLOW) or any(known in url for known in NOT_SERVED)


opened = partial(opened_page, size=WIDE, is_known=is_known)


def draw(shown: Opened, address: str, name: str, folder: Path, wait: Callable[[Page], object]) -> None:
    """Draw a page of MLflow in each size, light and dark, and check each drawing; ``wait`` for what it shows."""
    page = shown.page
    for scheme in SCHEMES:
        # What the browser prefers counts when MLflow is opened for the first time.
        page.evaluate(f"localStorage.setItem('_mlflow_dark_mode_toggle_enabled', '{str(scheme == 'dark').lower()}')")
        page.set_viewport_size({"width": WIDE[0], "height": WIDE[1]})
        # MLflow has taken the view out of the address; an address that differs behind # alone loads nothing.
        page.goto("about:blank")
        page.goto(address)
        wait(page)
        for label, (width, height) in SIZES.items():
            page.set_viewport_size({"width": width, "height": height})
            # MLflow has no layout for a phone: there its comparison keeps a chart wider than the chart's place.
            if (width, height) != PHONE and page.locator(".js-plotly-plot").count():
                wait_for_charts(page)
            drawing = f"mlflow-{name}-{label}-{scheme}"
            page.screenshot(path=folder / f"{drawing}.png")
            assert page.evaluate("document.body.classList.contains('dark-mode')") == (scheme == "dark"), drawing
            assert page.evaluate("document.documentElement.scrollWidth") == width, drawing
            assert page.get_by_text("is not served here").count() == 0, drawing
            assert shown.complaints == [], drawing


def cells(page: Page, column: str) -> list[str]:
    """Return a column of the runs table, from the top, once each of the seven runs has its text."""
    selector = (
        f'.ag-center-cols-container .ag-cell[col-id="{column}"], '
        f'.ag-pinned-left-cols-container .ag-cell[col-id="{column}"]'
    )
    drawn = "cells => cells.length === 7 && cells.every(cell => cell.innerText.trim())"
    page.wait_for_function(f"selector => ({drawn})([...document.querySelectorAll(selector)])", arg=selector)
    rows = page.locator(selector).evaluate_all(
        "cells => cells.map(c => [Number(c.parentElement.getAttribute('row-index')), c.innerText])"
    )
    return [text.strip() for _, text in sorted(rows)]


def wait_for_texts(page: Page, *texts: str) -> None:
    """Wait until a page shows texts: its parts are drawn one after the other."""
    for text in texts:
        page.wait_for_function("text => document.body.innerText.includes(text)", arg=text)


def resize(page: Page, width: int, height: int, parts: str) -> None:
    """Give the window another size, and wait until parts of the page lie within it."""
    page.set_viewport_size({"width": width, "height": height})
    inside = "parts => parts.length && parts.every(part => part.getBoundingClientRect().right <= innerWidth)"
    page.wait_for_function(f"parts => ({inside})([...document.querySelectorAll(parts)])", arg=parts)


def wait_for_charts(page: Page) -> None:
    """Wait until each chart is drawn as wide as its place."""
    is_drawn = "chart => chart.querySelector('.main-svg')?.clientWidth === chart.clientWidth"
    charts = "[...document.querySelectorAll('.js-plotly-plot')]"
    page.wait_for_function(f"{charts}.length && {charts}.every({is_drawn})")


def test_ui_opens_on_the_newest_search_best_trials_first(served: Served, browser: Browser, screenshots: Path) -> None:
    with opened(browser, served.opens) as shown:
        page = shown.page
        page.wait_for_selector("text=7 matching runs")
        cells(page, "metrics.`val/rsum_best`")
        resize(page, 1280, 800, ".ag-root-wrapper")
        names = cells(page, "attributes.`Run Name`")
        assert names[0].split("\n")[-1].startswith("mean of "), "also in a narrow window, the means first"
        assert cells(page, "metrics.`val/rsum_best`")[1] == "140", "then the best training"
        assert cells(page, "tags.`state`")[-2:] == ["stopped_early", "failed"], "also in a narrow window"
        page.set_viewport_size({"width": WIDE[0], "height": WIDE[1]})
        # The table draws the columns that a wider window shows only after the change.
        page.wait_for_selector('.ag-cell[col-id="params.`margin`"]')
        assert page.locator("text=newer").count() >= 1
        assert cells(page, "attributes.`Run Name`")[1].endswith("\n0000 nt_xent τ=0.05")
        assert cells(page, "metrics.`val/rsum_best`") == ["138.5", "140", "139", "138", "99", "80", "10"]
        assert cells(page, "tags.`verdict`")[:4] == ["winner: untested", "-", "-", "-"]
        assert cells(page, "metrics.`at_best/i2t_r1`")[1:3] == ["17.5", "-"], "of epoch 2, not of epoch 3"
        heads = page.locator(".ag-header-cell[col-id]").evaluate_all(
            "heads => heads.map(h => h.getAttribute('col-id'))"
        )
        shown_columns = {
            "params.`temperature`",
            "params.`margin`",
            "tags.`loss`",
            "tags.`verdict`",
            "metrics.`test/rsum`",
        }
        assert shown_columns <= set(heads)
        assert SHOWN in page.locator("main, body").first.inner_text()
        assert "it ran" not in page.title()
        draw(shown, served.opens, "runs", screenshots, lambda page: cells(page, "metrics.`val/rsum_best`"))


def test_no_assistant_is_shown_where_mlflow_would_open_it(served: Served, browser: Browser, screenshots: Path) -> None:
    with opened(browser, served.opens, size=(1280, 1000)) as shown:
        page = shown.page
        page.wait_for_selector("text=7 matching runs")
        # What MLflow opens, it opens as soon as the page is drawn.
        page.wait_for_function("localStorage.getItem('mlflow.assistant.panelOpen_v1') === 'false'")
        page.screenshot(path=screenshots / "mlflow-first-load.png")
        # Its button is there, and hidden, under names of localhost; under others MLflow leaves it out by itself.
        parts = page.locator("[data-assistant-ui]")
        assert [part.is_visible() for part in parts.all()] == [False] * parts.count()
        # Of a browser in which another MLflow on this port has been open.
        page.evaluate("localStorage.setItem('mlflow.assistant.panelOpen_v1', 'true')")
        page.reload()
        page.wait_for_selector("text=7 matching runs")
        assert [part.is_visible() for part in parts.all()] == [False] * parts.count()
        assert page.get_by_text("MLflow Assistant").filter(visible=True).count() == 0
        assert shown.complaints == []


@pytest.mark.parametrize(
    ("view", "sections"), [("leaderboard", [("best of each trial", "3"), ("val", "3")]), ("", [("val", "1")])]
)
def test_the_charts_begin_with_what_won_and_show_the_studies_without_the_view(
    served: Served, browser: Browser, screenshots: Path, view: str, sections: list[tuple[str, str]]
) -> None:
    kept = served.opens if view else served.opens.partition("&viewStateShareKey")[0]
    with opened(browser, f"{kept}&compareRunsMode=CHART") as shown:
        wait_for_texts(shown.page, *(f"{name}\n({count})\nAdd chart" for name, count in sections), "val/rsum_best")
        wait_for_charts(shown.page)
        resize(shown.page, 1280, 800, ".js-plotly-plot")
        wait_for_charts(shown.page)
        if view:
            narrow = "[...document.querySelectorAll('.js-plotly-plot')].map(plot => plot.clientWidth)"
            assert min(shown.page.evaluate(narrow)) >= 300
        text = shown.page.locator("body").inner_text()
        headings = re.findall(r"^(.+)\n\((\d+)\)\nAdd chart$", text, re.MULTILINE)
        assert [heading for heading in headings if heading in sections] == sections
        if view:
            assert headings[: len(sections)] == sections
        assert "val/rsum_best" in text
        assert shown.complaints == []
        if view:
            draw(shown, f"{kept}&compareRunsMode=CHART", "charts", screenshots, wait_for_charts)


def test_two_runs_are_compared_by_what_tells_them_apart(served: Served, browser: Browser, screenshots: Path) -> None:
    names = ["pets-vsepp-nt_xent-0000", "pets-vsepp-triplet_sh-0000"]
    path = comparison_page(served.uri, [("newer", name) for name in names])
    with opened(browser, served.with_token(str(path))) as shown:
        shown_names = ["0000 nt_xent τ=0.05", "0000 triplet_sh margin=0.2"]
        texts = ["Comparing 2 Runs from 1 Experiment", *shown_names, *names, "margin", "val/rsum_best"]
        wait_for_texts(shown.page, *texts)
        switches = shown.page.locator('.CompareRunView [role="switch"]')
        assert [switch.get_attribute("aria-checked") for switch in switches.all()] == ["true"] * 3
        equal = shown.page.locator("th.head-value", has_text="training.epochs")
        assert equal.count() == 0
        wait_for_charts(shown.page)
        switches.first.click()
        equal.wait_for()
        assert [switch.get_attribute("aria-checked") for switch in switches.all()] == ["false", "true", "true"]
        draw(shown, served.with_token(str(path)), "compare", screenshots, wait_for_charts)


@pytest.mark.parametrize("part", ["overview", "captions"])
def test_hostile_strings_of_a_run_are_text(served: Served, browser: Browser, screenshots: Path, part: str) -> None:
    page_of_run = served.opens.partition("/runs?")[0] + f"/runs/{served.trials['pets-vsepp-triplet_sh-0001']}"
    ending = "" if part == "overview" else "/artifacts/champion/data/model/retriever.json"
    with opened(browser, page_of_run + ending) as shown:
        wait_for_texts(shown.page, EVIL, "*stars* [link](javascript:alert(1))")
        shown.page.screenshot(path=screenshots / f"mlflow-run-{part}.png")
        text = shown.page.locator("body").inner_text()
        assert EVIL in text
        assert "*stars* [link](javascript:alert(1))" in text
        assert shown.page.locator('a[href^="javascript:"], img[src="x"]').count() == 0
        assert "it ran" not in shown.page.title()
        assert shown.complaints == []


def test_without_an_experiment_of_ours_no_page_is_named(tmp_path: Path, store_template: Path) -> None:
    shutil.copy(store_template, tmp_path / "mlflow.db")
    assert newest_page(default_uri(tmp_path)) is None
    assert newest_page("http://127.0.0.1:9") is None
