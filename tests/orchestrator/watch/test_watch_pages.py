"""The live pages over HTTP, with journals that the tests write: nothing of Ray is there."""

import base64
import errno
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.parse import urlsplit

import pytest

from orchestrator.journal.directory import Place, keep_error, write_places
from orchestrator.journal.journal import JournalReader
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.lock import hold
from orchestrator.journal.trial import Trial, TrialState
from orchestrator.machines.visitors import own_name
from orchestrator.report.page import Page
from orchestrator.report.render import render_page
from orchestrator.watch.experiments import Watched
from orchestrator.watch.server import Listening
from tests.support.experiments import add_trial, begun, confirm_two_losses, make_experiment
from tests.support.histories import search
from tests.support.live_pages import Served, served
from tests.support.records import append

pytestmark = pytest.mark.proof


def begin(output: Path, name: str = "tiny") -> AbstractContextManager[Ledger]:
    return begun(output / name, make_experiment(name=name))


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server of an experiment to which nothing happens."""
    folder = tmp_path_factory.mktemp("quiet")
    (folder / "secret.txt").write_text("secret")
    with begin(folder) as ledger, served(folder) as server:
        add_trial(ledger, [30.0])
        yield server


def until(events: Any, wanted: Callable[[Any], bool]) -> Any:
    """Return the first news that are wanted; the stream's own time limit ends a wait for nothing."""
    return next(value for name, value in events if name == "news" and wanted(value))


def test_the_start_page_lists_what_is_there_and_what_comes(tmp_path: Path) -> None:
    with begin(tmp_path, "first") as ledger, served(tmp_path) as server:
        add_trial(ledger, [30.0, 40.0])
        page = server.ask("/").text
        assert '<a href="/e/first/">first</a>' in page
        assert page.count("rsum: sum of six recalls, 0–600") == 1
        assert "NT-Xent (τ = 0.1) has the best val rsum of its search, 40.0 in one training." in page
        assert "/e/second/" not in page
        with server.events("/events") as events, begin(tmp_path, "second"):
            until(events, lambda value: "second" in value["version"])
            assert "/e/second/" in server.ask("/changes").json()["html"]


def test_the_card_of_a_confirmed_experiment_shows_its_verdict_and_its_value_on_test(tmp_path: Path) -> None:
    with begin(tmp_path) as ledger, served(tmp_path) as server:
        repeats = confirm_two_losses(ledger)
        assert "NT-Xent (τ = 0.1) has the best val rsum of its search, 50.0" in server.ask("/").text
        for number, trial in enumerate(repeats):
            append(ledger, "test_evaluated", trial=trial.id, metrics={"rsum": 300.0 - number})
        page = server.ask("/").text
        said = "NT-Xent at τ = 0.1 beats Triplet SH at margin = 0.2 by 3.0 rsum"
        assert re.search(rf'{said}[^<]*<span class="badge better">better</span>', page)
        assert '<p class="quiet">test rsum 299.0 ± 1.0' in page
        assert "best val" not in page


def add_regress_trial(ledger: Ledger) -> Trial:
    experiment = make_experiment()
    config = experiment.trial_config(experiment.cells()[0], {"temperature": 0.1}).to_dict()
    about = {"trial": "cell-seed1", "study": "cell", "number": 1, "candidate": None, "params": {}}
    append(ledger, "trial_created", stage="regress", config=config, **about)
    return ledger.history.trials["cell-seed1"]


def test_the_newest_reruns_of_a_suite_are_shown_as_such(tmp_path: Path) -> None:
    for day in range(1, 9):
        with begun(tmp_path / "nightly" / f"2026110{day}T000000Z", make_experiment(name="nightly")) as ledger:
            append(ledger, "suite_started", suite={})
            created = add_regress_trial(ledger)
            ledger.report(created, 1, {"val/rsum": 3.0, "train/loss": 1.0}, TrialState.FINISHED)
            append(ledger, "experiment_ended", outcome="finished", ended_by="trials")
    with served(tmp_path) as pages:
        start = pages.ask("/").text
        shown = re.findall(r'href="/e/(nightly%3A\d{8}T000000Z)/"', start)
        assert sorted(shown) == [f"nightly%3A2026110{day}T000000Z" for day in range(4, 9)]
        page = pages.ask("/e/nightly:20261108T000000Z/")
        assert page.status == 200 and "No trial has been trained" not in start + page.text
        assert "orchestrator regress nightly" in page.text and "1 of 1 ended" in page.text
        assert pages.ask("/e/nightly:20261108T000000Z/changes").status == 200
        assert pages.ask("/e/nightly:20261108T000000Z/figures/curves").status == 200


def test_only_the_experiments_that_were_named_are_shown(tmp_path: Path) -> None:
    for name in ("mine", "other"):
        with begin(tmp_path, name):
            pass
    with served(tmp_path, tmp_path / "mine") as server:
        assert "/e/other/" not in server.ask("/").text
        assert server.ask("/e/other/").status == 404
        assert server.ask("/e/mine/").status == 200


def test_a_page_shows_what_runs_what_failed_and_how_far_it_is(tmp_path: Path) -> None:
    with begin(tmp_path) as ledger, hold(tmp_path / "tiny"), served(tmp_path) as server:
        failed = add_trial(ledger, [20.0], state=TrialState.FAILED, error="CUDA <b>out</b> of memory")
        keep_error(tmp_path / "tiny", failed.id, 1, "Traceback: in <module>\x1b[31m")
        runs = add_trial(ledger, [30.0, 35.0], state=TrialState.RUNNING)
        write_places(tmp_path / "tiny", {runs.id: Place("elsewhere", 17)})
        page = server.ask("/e/tiny/").text
        assert re.search(rf'<tr data-trial="{runs.id}">', page)
        assert "2 of 6" in page and "elsewhere, 17" in page
        assert "CUDA &lt;b&gt;out&lt;/b&gt; of memory" in page
        assert f'href="errors/{failed.id}"' in page
        assert "1 of 8 ended: 1 running, 1 failed" in page
        log = server.ask(f"/e/tiny/errors/{failed.id}")
        assert (log.status, log.headers["content-type"]) == (200, "text/plain; charset=utf-8")
        assert "Traceback: in <module>\\x1b[31m" in log.text


@pytest.mark.parametrize(
    "path",
    [
        "/e/none/",
        "/e/..%2Ftiny/",
        "/e/tiny/errors/tiny-vsepp-nt_xent-9999",
        "/e/tiny/errors/..%2f..%2fsecret",
        "/e/tiny/figures/none",
        "/static/other.js",
        "/e/tiny/journal.jsonl",
    ],
)
def test_what_is_not_there_is_not_found(quiet: Served, path: str) -> None:
    assert quiet.ask(path).status == 404


def test_changes_hold_the_rows_that_changed_and_no_others(tmp_path: Path) -> None:
    with begin(tmp_path) as ledger, served(tmp_path) as server:
        first = add_trial(ledger, [30.0])
        all_rows = server.ask("/e/tiny/changes?since=0").json()
        assert [row["id"] for row in all_rows["rows"]] == [first.id]
        second = add_trial(ledger, [20.0])
        changes = server.ask(f"/e/tiny/changes?since={all_rows['since']}").json()
        assert [row["id"] for row in changes["rows"]] == [second.id]
        assert changes["since"] > all_rows["since"]
        assert changes["html"].startswith("<nav") and changes["html"].endswith("</main>")
        assert server.ask("/e/tiny/changes?since=nonsense").json()["rows"] != []


def test_a_figure_is_made_when_it_is_asked_for(tmp_path: Path) -> None:
    with begin(tmp_path) as ledger, served(tmp_path) as server:
        add_trial(ledger, [30.0, 40.0])
        assert 'id="trials" data-figure="trials" data-pending' in server.ask("/e/tiny/").text
        figure = server.ask("/e/tiny/figures/trials").json()
        assert '<figure class="figure" id="trials"' in figure["html"]
        assert figure["options"][0]["panels"][0]["data"][0]["y"] == [40.0]
        assert server.ask("/e/tiny/figures/front").json() == {"html": "", "options": []}


def test_a_search_that_begins_after_its_page_was_opened_and_is_interrupted_is_followed(tmp_path: Path) -> None:
    with served(tmp_path, expected="tiny") as server:
        assert "not begun yet" in server.ask("/e/tiny/").text
        with server.events("/e/tiny/events") as events:
            with begin(tmp_path) as ledger:
                page = server.ask("/e/tiny/").text
                # A page without trials has no empty places.
                assert re.findall(r'<section id="([^"]*)"', page) == ["cost", "reproduce"]
                assert "<figure" not in page and "<table" not in page
                add_trial(ledger, [30.0])
                append(ledger, "experiment_ended", outcome="interrupted", ended_by="signal")
                until(events, lambda _: "interrupted" in server.ask("/e/tiny/").text)
            with begin(tmp_path) as ledger, hold(tmp_path / "tiny"):
                add_trial(ledger, [50.0])
                until(events, lambda _: "running as process" in server.ask("/e/tiny/").text)
                assert "interrupted" not in server.ask("/e/tiny/").text
        assert "50.0" in server.ask("/e/tiny/").text


def test_the_evaluation_on_test_has_a_bar(tmp_path: Path) -> None:
    with begin(tmp_path) as ledger, hold(tmp_path / "tiny"), served(tmp_path) as server:
        repeats = confirm_two_losses(ledger)
        append(ledger, "test_evaluated", trial=repeats[0].id, metrics={"rsum": 30.0})
        page = server.ask("/e/tiny/").text
        assert re.search(r'<progress max="(\d+)" value="1">1 of \1</progress>', page)
        assert f"1 of {len(repeats)} models evaluated" in page


def test_a_journal_that_another_one_replaces_makes_pages_load_anew(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        with begin(tmp_path) as ledger:
            add_trial(ledger, [30.0])
        with server.events("/e/tiny/events") as events:
            assert until(events, lambda value: bool(value["version"]))["instance"] == "test-0"
            (tmp_path / "tiny" / "journal.jsonl").unlink()
            with begin(tmp_path):
                assert until(events, lambda value: value["instance"] != "test-0")["instance"] == "test-1"
        assert "30.0" not in server.ask("/e/tiny/").text


def test_a_damaged_journal_is_said_to_be_damaged(tmp_path: Path) -> None:
    with begin(tmp_path) as ledger, served(tmp_path) as server:
        add_trial(ledger, [30.0])
        assert server.ask("/e/tiny/").status == 200
        with (tmp_path / "tiny" / "journal.jsonl").open("a") as file:
            file.write("nonsense\nnonsense\n")
        for _ in range(2):
            page = server.ask("/e/tiny/").text
            assert "line 5: damaged" in page and "`orchestrator doctor" in page


def test_an_error_of_the_disk_is_shown_until_the_journal_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with begin(tmp_path):
        watched = Watched(tmp_path / "tiny")
        assert watched.seen().problem is None
        with monkeypatch.context() as patch:
            error = OSError(errno.ESTALE, os.strerror(errno.ESTALE))
            patch.setattr(JournalReader, "has_news", Mock(side_effect=error))
            assert str(watched.seen().problem).endswith("Stale file handle")
        assert watched.seen().problem is None


def check_policy(html: str, policy: str) -> None:
    """Check that a policy names every script of a page by its hash, and allows none without one."""
    rules = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert "'unsafe-inline'" not in rules["script-src"], "a style may be inline: it runs nothing, and loads nothing"
    scripts = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    assert len(scripts) >= 2

    def named(content: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"

    assert [script[:80] for script in scripts if named(script) not in rules["script-src"].split()] == []


def test_every_script_of_a_page_is_named_by_its_hash(quiet: Served) -> None:
    for path in ("/", "/e/tiny/"):
        page = quiet.ask(path)
        check_policy(page.text, page.headers["content-security-policy"])
    html = render_page(Page(search(12)))
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    check_policy(html, policy[1])


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({}, 200, id="a browser of this machine"),
        pytest.param({"host": "localhost:{port}"}, 200, id="by name"),
        pytest.param({"host": "localhost:9999"}, 200, id="through a tunnel from another port"),
        pytest.param({"host": "evil.example:{port}"}, 400, id="a foreign name that leads here"),
        pytest.param({"host": "127.0.0.1.evil.example"}, 400, id="a name that begins like ours"),
        pytest.param({"host": "192.168.0.7:{port}"}, 400, id="an address that is not bound"),
        pytest.param({"host": ""}, 400, id="no name"),
        pytest.param({"host": "[::"}, 400, id="a name that cannot be read"),
        pytest.param({"origin": "http://127.0.0.1:{port}"}, 200, id="our own page"),
        pytest.param({"origin": "http://127.0.0.1:1"}, 403, id="another server of this machine"),
        pytest.param({"origin": "https://evil.example"}, 403, id="another site"),
        pytest.param({"origin": "http://["}, 403, id="a site that cannot be read"),
        pytest.param({"origin": "null"}, 403, id="a page without a site"),
        pytest.param({"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors"}, 403, id="an image on another site"),
        pytest.param({"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}, 200, id="a link on another site"),
        pytest.param({"sec_fetch_site": "same-origin", "sec_fetch_mode": "cors"}, 200, id="a script of ours"),
    ],
)
def test_who_may_ask(quiet: Served, headers: dict[str, str], status: int) -> None:
    sent = {name: value.format(port=quiet.port) for name, value in headers.items()}
    assert quiet.ask("/e/tiny/", **sent).status == status


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_can_be_done_but_read(quiet: Served, method: str) -> None:
    assert quiet.ask("/e/tiny/", method).status == 405


@pytest.mark.parametrize("path", ["/", "/e/tiny/", "/e/tiny/changes", "/e/none/", "/static/plotly.js"])
def test_every_answer_has_the_headers_that_keep_it_here(quiet: Served, path: str) -> None:
    headers = quiet.ask(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]


TOKEN = "correct horse battery staple"


def test_a_token_is_asked_for_once_and_kept_in_a_cookie(tmp_path: Path) -> None:
    with begin(tmp_path), served(tmp_path, token=TOKEN) as server:
        quoted = TOKEN.replace(" ", "%20")
        for path in ("/", "/e/tiny/", "/e/tiny/events", "/static/plotly.js", f"/?token={quoted}x", "/?token="):
            assert server.ask(path).status == 401, path
        there = server.ask(f"/e/tiny/?a=b&token={quoted}")
        own = f"{own_name(TOKEN)}:{server.port}"
        assert (there.status, there.headers["location"]) == (303, f"http://{own}/e/tiny/?a=b&token={quoted}")
        assert "set-cookie" not in there.headers, "other users may have servers at that name"
        welcome = server.ask(f"/e/tiny/?a=b&token={quoted}", host=own)
        assert (welcome.status, welcome.headers["location"]) == (303, "/e/tiny/?a=b")
        cookie = welcome.headers["set-cookie"]
        assert "HttpOnly" in cookie and "samesite=strict" in cookie.lower()
        assert server.ask("/e/tiny/", cookie=cookie.split(";")[0]).status == 200
        assert server.ask("/e/tiny/", cookie=cookie.split("=")[0] + "=wrong").status == 401
        for path in ("/", "/e/tiny/", "/e/tiny/changes"):
            assert TOKEN not in server.ask(path, cookie=cookie.split(";")[0]).text


@pytest.mark.parametrize("token", ["d2l0aCBhIHBsdXM+/w==", "with#hash&and%41sign", "ключ-из-многих-букв"])
def test_the_printed_address_and_the_cookie_hold_any_token(tmp_path: Path, token: str) -> None:
    listening = Listening("127.0.0.1", 0, token)
    with listening.socket, served(tmp_path, token=token) as server:
        opened = urlsplit(listening.address())
        assert opened.hostname == own_name(token)
        welcome = server.ask(f"/?{opened.query}", host=f"{own_name(token)}:{server.port}")
        assert welcome.status == 303
        assert server.ask("/", cookie=welcome.headers["set-cookie"].split(";")[0]).status == 200
