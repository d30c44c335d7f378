"""What optuna-dashboard and TensorBoard show of an export, in a real browser, where the two are installed."""

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from orchestrator.exports.tensorboard import write_events
from orchestrator.studies.export import write_storage
from tests.integration.test_ui import fetch
from tests.support.bucket import free_port
from tests.support.child_process import running
from tests.support.exported import write_experiment

pytestmark = pytest.mark.proof
PATIENCE = 120_000
"""Milliseconds, for pages that compute their charts while other programs have the machine."""


def needs(package: str) -> pytest.MarkDecorator:
    missing = importlib.util.find_spec(package) is None
    return pytest.mark.skipif(missing, reason=f"{package.replace('_', '-')} is not installed")


@contextmanager
def served(*command: str) -> Iterator[str]:
    """Run a server on a free port of this machine; give its address once it answers."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    with running([sys.executable, *command, "--port", str(port)], stderr=subprocess.DEVNULL, text=True) as process:
        fetch(address, process)
        yield address


@needs("optuna_dashboard")
def test_optuna_dashboard_shows_states_values_and_curves(browser: Browser, screenshots: Path, tmp_path: Path) -> None:
    found = write_experiment(tmp_path / "tiny")
    storage = tmp_path / "search.db"
    write_storage(found.history, found.experiment, storage)
    program = f"import sys; from optuna_dashboard._cli import main; sys.argv[1:1] = ['sqlite:///{storage}']; main()"
    with served("-c", program) as address:
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        page.set_default_timeout(PATIENCE)
        page.goto(f"{address}/dashboard/studies/1/trials?numbers=1", wait_until="commit")
        listed = page.get_by_role("listitem").or_(page.get_by_role("button"))
        for number, state in enumerate(["Complete", "Pruned", "Fail"]):
            expect(listed.filter(has_text=f"Trial {number}").filter(has_text=state).first).to_be_visible(
                timeout=PATIENCE
            )
        for text in ("1 0.5", "2 0.25", "temperature 0.1", "trial pets-vsepp-nt_xent-0001"):
            expect(page.get_by_text(text, exact=True).first).to_be_visible(timeout=PATIENCE)
        page.screenshot(path=screenshots / "optuna-dashboard-trial.png")
        page.goto(f"{address}/dashboard/studies/1", wait_until="commit")
        expect(page.get_by_text("val/rsum").first).to_be_visible(timeout=PATIENCE)
        page.screenshot(path=screenshots / "optuna-dashboard-study.png")
        page.close()


@needs("tensorboard")
def test_tensorboard_shows_a_row_for_each_setting(browser: Browser, screenshots: Path, tmp_path: Path) -> None:
    found = write_experiment(tmp_path / "tiny")
    folder = tmp_path / "search.tensorboard"
    write_events(found.history, found.experiment, folder)
    with served("-m", "tensorboard.main", "--logdir", str(folder), "--load_fast=false") as address:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(PATIENCE)
        page.goto(f"{address}/#hparams", wait_until="commit")
        # Five settings: the two seeds of the confirmation are one row. Views that are not shown name the loss as well.
        shown = page.get_by_text("nt_xent", exact=True).filter(visible=True)
        expect(shown).to_have_count(4, timeout=PATIENCE)
        expect(page.get_by_text("best/val/rsum").first).to_be_visible(timeout=PATIENCE)
        page.screenshot(path=screenshots / "tensorboard-hparams.png")
        page.close()
