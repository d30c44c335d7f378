"""Nothing that stands in data, journals or errors reaches a terminal as a command to it, or turns a line around."""

import ast
import errno
import io
import os
import re
import sys
import unicodedata
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.live import Live

import orchestrator
from orchestrator.commands.data import show_description
from orchestrator.commands.doctor import show_findings
from orchestrator.commands.retrieve import show_answers
from orchestrator.doctor.machine import Check
from orchestrator.journal.directory import JOURNAL_FILE
from orchestrator.journal.history import History
from orchestrator.journal.journal import read_journal
from orchestrator.journal.records import LimitNoted
from orchestrator.journal.trial import TrialState
from orchestrator.regression.answers import answers_about_suite as answers_of_suite
from orchestrator.regression.comparison import Finding as Slip
from orchestrator.regression.verdict import CellResult, SuiteResult
from orchestrator.searches.display import LiveDisplay, PlainDisplay, Progress
from orchestrator.text.terminal import lasting_output, make_console, say
from orchestrator.views.terminal import show
from tests.support.commands import CommandLine
from tests.support.experiments import add_trial, begun, make_experiment, start
from tests.support.outputs import OUTPUTS
from tests.support.records import append
from tests.support.regression_results import make_suite
from trainables.dataset_description import Description
from trainables.serving.retriever import Match

CANARY = "\x1b]0;owned\x07\x1b[2J\x9b31m\x85\u202eloot\u2066\u200b\ufeff\U000e0041[red]"
"""Sets the title of a window, clears it, turns text around, hides some, and is markup of rich."""


def is_harmless(text: str) -> bool:
    """Say whether a terminal only shows a text: no control or format character but line feeds and tabs."""
    return all(unicodedata.category(letter) not in ("Cc", "Cf") for letter in text if letter not in "\n\t")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An experiment with the canary in every field that somebody else can write."""
    dataset = f"pets{CANARY}"
    experiment = make_experiment(description=CANARY, datasets=[dataset], confirm={"top": 1, "seeds": 2})
    environment, options = {"git_revision": CANARY, "versions": {"torch": f"2{CANARY}"}}, {"data-root": CANARY}
    with begun(tmp_path / "tiny", experiment, environment=environment, options=options) as ledger:
        trial = add_trial(ledger, [30.0], dataset=dataset)
        start(ledger, experiment, environment={"git_revision": "b", "versions": {"torch": "3"}}, options=options)
        add_trial(ledger, [20.0], dataset=dataset, loss="triplet_sh")
        add_trial(ledger, [], dataset=dataset, state=TrialState.FAILED, error=f"no luck {CANARY}")
        running = add_trial(ledger, [10.0], dataset=dataset, state=TrialState.RUNNING)
        append(ledger, "checkpoint_damaged", trial=running.id, damage=CANARY)
        append(ledger, "trial_retried", trial=running.id, error=CANARY)
        assert CANARY in trial.id
    return tmp_path / "tiny"


SHOWN_TO_PEOPLE = [
    name
    for name in OUTPUTS
    # JSON escapes on its own; the pages of the report and of MLflow are no terminal.
    if not name.endswith(("json", "report", "MLflow", "champion"))
]


@pytest.mark.parametrize("output", SHOWN_TO_PEOPLE)
def test_outputs_of_an_experiment_are_harmless(folder: Path, read: Callable[[str, Path], str], output: str) -> None:
    text = read(output, folder)
    assert "loot" in text
    assert is_harmless(text)


def test_every_line_of_plain_output_is_harmless(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = [*read_journal(folder / JOURNAL_FILE), LimitNoted(message=CANARY)]
    history = History.of(records[:-1])
    shown = PlainDisplay(Progress(history, 4, 6))
    for record in records:
        shown.listen(record)
    text = capsys.readouterr().out
    assert text.count("loot") >= 5
    assert is_harmless(text)


def test_the_live_table_is_harmless(folder: Path) -> None:
    screen = StringIO()
    history = History.of(read_journal(folder / JOURNAL_FILE))
    console = make_console(plain_width=300, file=screen)
    shown = LiveDisplay(Progress(history, 4, 6), Live(console=console, auto_refresh=False), f"tiny {CANARY}")
    shown.listen(LimitNoted(message=CANARY))
    with shown._live:
        shown.refresh()
    # In the title, in the shared parts of the trials' names, and in the limit.
    assert screen.getvalue().count("loot") >= 3
    assert is_harmless(screen.getvalue())


def doctor() -> None:
    show_findings([Check("data", "fail", CANARY, CANARY)])


def regress() -> None:
    cell = CellResult("pets-vsepp-nt_xent", Slip.FAILED, None, (), None, None, 0.0, 0, 0, (CANARY,), (CANARY,))
    result = SuiteResult(CANARY, Slip.FAILED, (cell,), 0.05, (0.01, 0.01, None), (CANARY,))
    show(answers_of_suite(result, make_suite(), {}, None))


def retrieve() -> None:
    show_answers(CANARY, [Match(CANARY, CANARY, CANARY, 0.5)], "caption", [CANARY])


def describe() -> None:
    show_description(Description(CANARY, CANARY, CANARY, problems=[CANARY], notes=[CANARY]), "train")


@pytest.mark.parametrize("view", [doctor, regress, retrieve, describe])
def test_other_commands_are_harmless(view: Callable[[], None], capsys: pytest.CaptureFixture[str]) -> None:
    view()
    text = capsys.readouterr().out
    assert text.count("loot") >= 2
    assert is_harmless(text)


def test_a_refusal_is_harmless(tmp_path: Path, cli: CommandLine) -> None:
    text = cli.refuses("status", CANARY, "--output", tmp_path)
    assert "loot" in text
    assert is_harmless(text)


@given(st.text())
def test_any_text_is_harmless_and_a_safe_one_stays_as_it_is(text: str) -> None:
    screen = StringIO()
    make_console(plain_width=10_000, file=screen).print(text, soft_wrap=True, highlight=False)
    assert is_harmless(screen.getvalue())
    if is_harmless(text) and text.isprintable():
        assert screen.getvalue().rstrip() == text.rstrip()


def test_a_terminal_still_gets_what_draws_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    screen = StringIO()
    console = make_console(plain_width=40, file=screen)
    console.show_cursor(False)
    console.print("x", style="red")
    assert screen.getvalue() == "\x1b[?25l\x1b[31mx\x1b[0m\n"


ROOM = Path(orchestrator.__file__).parent
WAY = ROOM / "text" / "terminal.py"
"""The module that alone writes to a terminal."""


WRITERS = re.compile(r"\b(Console|Live|Progress|print|echo|secho|write)\(")
"""What a module has to hold to be looked at: most modules write nothing."""


def test_there_is_no_other_way_to_the_terminal() -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in {*ROOM.rglob("*.py")} - {WAY}}
    for path, source in sources.items():
        nodes = ast.walk(ast.parse(source)) if WRITERS.search(source) else ()
        for call in (node for node in nodes if isinstance(node, ast.Call)):
            name = ast.unparse(call.func)
            where = f"{path.relative_to(ROOM)}:{call.lineno}"
            assert name not in ("Console", "typer.echo", "typer.secho", "sys.stdout.write", "sys.stderr.write"), where
            if name == "print":
                assert ast.unparse(call.args[0]).startswith("json.dumps("), f"{where}: only JSON needs no `say`"
            if (name == "Live" and "rich.live" in source) or (name == "Progress" and "rich.progress" in source):
                assert any(keyword.arg == "console" for keyword in call.keywords), f"{where}: needs `make_console`"


def test_output_that_cannot_be_written_ends_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    heard: list[OSError] = []
    with os.fdopen(writer, "w") as pipe, Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", pipe)
        monkeypatch.setattr(sys, "stderr", full)
        with lasting_output(heard.append):
            for _ in range(2):
                say("τ = 0.1")
                say("τ = 0.1", error=True)
            make_console().print("τ = 0.1")
            assert not sys.stdout.isatty()
        assert (sys.stdout, sys.stderr, pipe.errors) == (pipe, full, "strict")
        assert [problem.errno for problem in heard] == [errno.ENOSPC], "a closed pipe is no problem"
        monkeypatch.setattr(sys, "stdout", None)
        with lasting_output():
            say("without a standard output")


def test_letters_that_a_terminal_lacks_are_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="latin-1"))
    with lasting_output():
        say("τ ± 1")
        make_console().print("τ ± 1")
    assert raw.getvalue() == b"\\u03c4 \xb1 1\n" * 2
