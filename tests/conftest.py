import gc
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

from tests.guard import Guard

SEED = 20260
SETTINGS = "_hypothesis_internal_use_settings"
"""Where Hypothesis keeps the settings of a test; nothing public changes the settings of a test that has some."""
IS_PROOF = os.environ.get("HYPOTHESIS_PROFILE") == "proof"

LONGEST = {"test_end_to_end.py", "test_every_record.py", "test_fused.py", "test_on_gpu.py", "test_trial.py"}
"""Files of ``make test`` that take more than ten seconds of a processor each."""

SECONDS = 600
"""A test of ``make test`` that takes longer hangs; a proof has the hour of ``pyproject.toml``."""

# A red run of `make test` is a fault of what was changed, so that it draws the same examples each time; `make proof`
# draws others. How long an example takes says how busy the machine is, and no property is about that.
UNTIMED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("gate", derandomize=True, database=None, **UNTIMED)
settings.register_profile("proof", print_blob=True, **UNTIMED)
settings.load_profile("proof" if IS_PROOF else "gate")

# On a busy machine, Ray may take longer to answer than the 5 s that its drivers wait for it.
os.environ.setdefault("RAY_gcs_rpc_server_connect_timeout_s", "60")
# Ray gives its workers the least share of a busy machine; what tests wait for gets as much as the tests.
os.environ.setdefault("RAY_worker_niceness", "0")

HEADLESS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]


def pytest_configure(config: pytest.Config) -> None:
    """Watch what each test starts and leaves behind."""
    config.pluginmanager.register(Guard())
    # Until the tests are there, objects are only made: looking through millions of them again and again finds nothing.
    gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Name a test that fails at once: a run that is ended from outside never comes to its summary."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        print(f"\n{report.nodeid} failed ({report.when})", file=sys.__stdout__, flush=True)


def pytest_collection_finish() -> None:
    """Let the collector of garbage pass over modules and tests, which stay to the end."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first, end a test that hangs, and try properties with the examples of the profile."""
    # What comes last is short, so that all workers have something to do to the end.
    items.sort(key=lambda item: item.path.name not in LONGEST)
    for item in items:
        if not item.get_closest_marker("proof"):
            item.add_marker(pytest.mark.timeout(SECONDS))
    for function in {getattr(item, "obj", None) for item in items}:
        if is_hypothesis_test(function):
            drawn = getattr(function, SETTINGS)
            setattr(function, SETTINGS, settings(drawn, max_examples=examples(drawn.max_examples), deadline=None))


def examples(named: int) -> int:
    """Return how many examples of a property are drawn, of the number that it names: more of them as proofs.

    ``make test`` draws the same in every run: more of them would find once what few of them find, and nothing later.
    """
    return 10 * named if IS_PROOF else min(named, max(10, named // 3))


@pytest.fixture(scope="module", autouse=True)
def seeded_module() -> None:
    """Draw what the fixtures of a module draw from the same seed, whatever was tested before."""
    seed_generators()


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Draw what a test draws from the same seed, whatever was tested before, and whether it is run alone."""
    seed_generators()


def seed_generators() -> None:
    """Seed the global generators of Python, NumPy and torch; a library that nothing has imported stays unimported."""
    random.seed(SEED)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(SEED)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(SEED)


@pytest.fixture
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands read datasets, keep prepared ones and write under the folder of the test alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("ORCHESTRATOR_DATA_ROOT", str(tmp_path / "data"))
    monkeypatch.setenv("ORCHESTRATOR_OUTPUT", str(tmp_path / "runs"))


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder with a short path, because Ray makes sockets under it."""
    path = Path(tempfile.mkdtemp(prefix="icr-", dir="/tmp"))
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="session")
def store_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty tracking database, made once for all workers of the tests: to make one takes 7 to 11 s."""
    from orchestrator.tracking.address import default_uri
    from orchestrator.tracking.store import Store
    from trainables.files import alone

    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    template = folder / "store template.db"
    with alone(folder / "store template.lock"):
        if not template.exists():
            output = tmp_path_factory.mktemp("store")
            Store(default_uri(output), output, output / "empty", "empty")
            shutil.copy(output / "mlflow.db", folder / "unfinished.db")
            (folder / "unfinished.db").rename(template)
    return template


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium without a window, driven by Playwright; where there is none, what needs it is skipped.

    It ends with its module, because Playwright keeps an event loop running, in which no other test could run its own.
    """
    from playwright.sync_api import sync_playwright

    executable = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if executable is None:
        pytest.skip("no Chromium on the PATH; on Debian: apt-get install chromium")
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=executable, args=HEADLESS, timeout=300_000)
        yield made
        made.close()
