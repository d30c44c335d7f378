"""What a person sees: every end of a trial, the best so far, the time left, and the winners."""

from dataclasses import replace
from io import StringIO
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from rich.live import Live

from orchestrator.commands import status
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import TrialState
from orchestrator.searches import display
from orchestrator.searches.display import (
    EpochClock,
    LiveDisplay,
    PlainDisplay,
    Progress,
    describe_end,
    print_summary,
    trials_table,
)
from orchestrator.searches.status import Followed, read_status
from orchestrator.tuner.session import Session
from tests.support.consoles import drawn
from tests.support.experiments import add_repeats, add_trial, begun, make_experiment, open_test
from tests.support.records import append


def test_lines_about_progress_become_rarer(
    ledger: Ledger, clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    started = clock[0]
    shown = PlainDisplay(Progress(ledger.history, 5, 6))
    told: list[float] = []
    while clock[0] < started + 3 * 3600:
        clock[0] += 1
        shown.refresh()
        if capsys.readouterr().out:
            told.append(clock[0] - started)
    pauses = [later - earlier for earlier, later in pairwise(told)]
    assert told[0] == pauses[0] == 30
    assert pauses == sorted(pauses)
    assert pauses[-1] == 300
    assert len(told) < 100


def test_every_end_has_its_line(ledger: Ledger, clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    shown = PlainDisplay(Progress(ledger.history, 5, 6))
    ledger.listeners.append(shown.listen)
    add_trial(ledger, [10.0, 30.0, 20.0])
    add_trial(ledger, [15.0], state=TrialState.STOPPED_EARLY)
    add_trial(ledger, [], state=TrialState.DIVERGED, error="train/loss is nan")
    running = add_trial(ledger, [], state=TrialState.RUNNING)
    clock[0] += 31
    ledger.report(running, 1, {"val/rsum": 16.0}, TrialState.RUNNING)
    shown.refresh()
    shown.refresh()
    append(ledger, "trial_retried", trial=running.id, error="RuntimeError: no luck")
    clock[0] += 31
    shown.refresh()
    name = "pets-vsepp-nt_xent"
    assert capsys.readouterr().out.splitlines() == [
        f"{name}-0000: finished after epoch 3, τ = 0.1: val/rsum 30.0 in epoch 2",
        f"{name}-0001: stopped early after epoch 1, τ = 0.1: val/rsum 15.0 in epoch 1",
        f"{name}-0002: diverged after epoch 0, τ = 0.1: train/loss is nan",
        "search: 3 of 5 trials · 1 running, 1 finished, 1 stopped early, 1 diverged, 1 not begun · "
        "best NT-Xent 30.0 (τ = 0.1) · ETA 00:00:10",
        f"{name}-0003: resumes after a failure: RuntimeError: no luck",
        "search: 3 of 5 trials · 1 finished, 1 stopped early, 1 diverged, 1 half trained, 1 not begun · "
        "best NT-Xent 30.0 (τ = 0.1) · ETA 00:00:10",
    ]


def test_defaults_are_not_told(ledger: Ledger) -> None:
    trial = add_trial(ledger, [10.0])
    trial = replace(trial, params={}, config=replace(trial.config, loss_parameters={}))
    assert describe_end(trial) == "finished after epoch 1: val/rsum 10.0 in epoch 1"


@pytest.mark.parametrize("prefix", ["", "polynomial_relative."])
def test_of_a_polynomial_both_what_was_searched_and_its_coefficients_are_told(ledger: Ledger, prefix: str) -> None:
    trial = add_trial(ledger, [10.0])
    params = {f"{prefix}scale": 128.0, f"{prefix}margin": 0.2, f"{prefix}shape2": 0.5, "training.learning_rate": 2e-4}
    config = replace(trial.config, loss="polynomial_relative", loss_parameters={"coefficients": [25.6, 128.0]})
    told = "scale = 128, margin = 0.2, shape2 = 0.5, coefficients = [25.6, 128], learning rate = 0.0002"
    assert told in describe_end(replace(trial, params=params, config=config))


@pytest.mark.parametrize(("values", "words"), [([2.0], "half trained"), ([], "not begun")])
def test_only_a_trial_with_an_actor_runs(ledger: Ledger, values: list[float], words: str) -> None:
    trial = add_trial(ledger, values, state=TrialState.RUNNING)
    append(ledger, "trial_retried", trial=trial.id, cause=None, error="")
    text = "\n".join(drawn(trials_table(ledger.history, "tiny")))
    assert words in text and "running" not in text
    append(ledger, "trial_started", trial=trial.id, gpus=0.0)
    text = "\n".join(drawn(trials_table(ledger.history, "tiny")))
    assert "running" in text and words not in text


def test_the_end_of_a_search_says_the_answer(ledger: Ledger, capsys: pytest.CaptureFixture[str]) -> None:
    add_trial(ledger, [10.0, 30.0])
    add_trial(ledger, [20.0], loss="triplet_sh")
    add_trial(ledger, [1.0], state=TrialState.FAILED)
    print_summary(ledger.history, ["all answers: orchestrator summarise tiny", "next: orchestrator confirm tiny"], 100)
    assert capsys.readouterr().out.splitlines() == [
        "pets · VSE++ · which setting?" + " " * 21 + "val rsum: sum of six recalls, 0–600",
        " loss        best setting  trials  trainings  best val rsum  to the best  verdict",
        " NT-Xent     τ = 0.1            2          1           30.0            –  unconfirmed",
        " Triplet SH  margin = 0.2       1          1           20.0        −10.0  unconfirmed",
        "NT-Xent (τ = 0.1) has the best val rsum of its search, 30.0 in one training.",
        "use (unconfirmed): NT-Xent, τ = 0.1, learning rate = 0.0002",
        "The best value of a search is usually too high: confirm it with fresh seeds.",
        "1 caveat; all answers: orchestrator summarise tiny",
        "next: orchestrator confirm tiny",
    ]


@pytest.mark.parametrize("width", [80, 100, 150])
def test_the_setting_to_use_is_whole_on_every_terminal(
    ledger: Ledger, capsys: pytest.CaptureFixture[str], width: int
) -> None:
    """With the numbers that a training takes: also coefficients that follow from a space, and a rate not searched."""
    trial = add_trial(ledger, [10.0], loss="triplet_sh", params={"margin": 0.2})
    names = [f"shape{number}" for number in range(2, 7)]
    coefficients = [0.1 + number / 7 for number in range(6)]
    config = replace(trial.config, loss="polynomial_relative", loss_parameters={"coefficients": coefficients})
    params = {"degree": 5, "scale": 128.0, **dict.fromkeys(names, 0.123456)}
    ledger.history.trials[trial.id] = replace(trial, params=params, config=config)
    print_summary(ledger.history, width=width)
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= width for line in lines)
    said = " ".join(lines)
    first, _, use = said.partition(" use (unconfirmed): ")
    assert first.endswith(" in one training.")
    assert use.startswith(
        "Polynomial (relative), coefficients = [0.1, 0.2429, 0.3857, 0.5286, 0.6714, 0.8143], learning rate = 0.0002"
    )


def test_of_several_datasets_their_winners_are_shown(ledger: Ledger, capsys: pytest.CaptureFixture[str]) -> None:
    for dataset in ("pets", "birds"):
        add_trial(ledger, [30.0], dataset=dataset)
    print_summary(ledger.history, width=100)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("tiny · VSE++ · which setting wins on each dataset?")
    assert [line.split()[0] for line in lines[2:4]] == ["pets", "birds"]
    used = [line for line in lines if line.startswith("use ")]
    assert used == [
        f"use on {name} (unconfirmed): NT-Xent, τ = 0.1, learning rate = 0.0002" for name in ("pets", "birds")
    ]


def test_of_several_datasets_the_end_names_the_chance_of_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(display, "chance_of", lambda summary, dataset: {"pets": 3.2, "birds": 12.5}[dataset])
    with begun(tmp_path, make_experiment(datasets=["pets", "birds"], confirm={"top": 1, "seeds": 2})) as ledger:
        for dataset in ("pets", "birds"):
            best = [add_trial(ledger, [30.0], dataset=dataset, loss=loss) for loss in ("nt_xent", "triplet_sh")]
            open_test(ledger, add_repeats(ledger, [(trial, [10.0, 11.0]) for trial in best]))
        print_summary(ledger.history, width=160)
    assert capsys.readouterr().out.splitlines()[0].endswith("test rsum: sum of six recalls, 0–600, chance 3.2 or 12.5")


def live_display(ledger: Ledger) -> LiveDisplay:
    console = Console(file=StringIO(), width=200, force_terminal=True)
    return LiveDisplay(Progress(ledger.history, 5, 6), Live(auto_refresh=False, console=console), "tiny")


def test_the_live_table_has_every_limit_under_it_once(ledger: Ledger) -> None:
    shown = live_display(ledger)
    ledger.listeners.append(shown.listen)
    for message in ("trials are not fused", "too few CPUs", "trials are not fused"):
        append(ledger, "limit_noted", message=message)
    shown._live.start()
    shown.refresh()
    shown._live.stop()
    lines = drawn(shown._live.renderable)
    assert lines[-2:] == ["trials are not fused", "too few CPUs"]


def test_the_last_picture_of_a_stage_has_its_last_trial(
    ledger: Ledger, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Console(file=StringIO(), width=200, force_terminal=True)
    monkeypatch.setattr(display, "make_console", lambda: screen)
    monkeypatch.setattr("sys.stdout", SimpleNamespace(isatty=lambda: True))
    unused: Any = None
    session, progress = Session(unused, ledger, unused, unused, unused), Progress(ledger.history, 2, 6)
    with display.displayed(session, "tiny", progress, quiet=False) as shown:
        add_trial(ledger, [1.0])
        shown.on_step()
        add_trial(ledger, [2.0])
        shown.on_step()
        assert "2 of 2 trials" not in screen.file.getvalue(), "no time has passed since the last picture"
    assert "2 of 2 trials" in screen.file.getvalue()


def test_want_of_memory_is_said_with_its_limit(ledger: Ledger, capsys: pytest.CaptureFixture[str]) -> None:
    trial = add_trial(ledger, [1.0], state=TrialState.RUNNING)
    ledger.listeners.append(PlainDisplay(Progress(ledger.history, 5, 6)).listen)
    append(ledger, "concurrency_lowered", trials=2)
    append(ledger, "trial_retried", trial=trial.id, cause="memory", error=f"CUDA out of memory. {'GPU 0 has ' * 50}")
    limit, failure = capsys.readouterr().out.splitlines()
    assert limit == "memory ran out: at most 2 trials at a time until resources are changed"
    assert failure.startswith(f"{trial.id}: resumes after a failure: CUDA out of memory. GPU 0 has GPU")
    assert failure.endswith(" …") and len(failure) < 300
    assert drawn(live_display(ledger)._drawn())[-1] == limit, "it holds for a later start"
    now = read_status(Followed(ledger.path.parent))
    assert limit in drawn(status._drawn(now, None)) and now.to_dict()["at_a_time_since_memory_ran_out"] == 2


def test_the_line_has_a_sign_of_life_a_clock_and_what_was_heard_last(ledger: Ledger, clock: list[float]) -> None:
    line = live_display(ledger)
    line.announce("starting Ray on this machine")
    first = line.__rich__().plain
    clock[0] += 3725.0
    second = line.__rich__().plain
    assert first[1:] == " 00:00:00 · starting Ray on this machine"
    assert second[1:] == " 01:02:05 · starting Ray on this machine"
    ledger.listeners.append(line.listen)
    add_trial(ledger, [1.0])
    clock[0] += 4.25
    assert line.__rich__().plain[1:] == " 01:02:09 · newest epoch 4 s ago"
    frames = set()
    for _ in range(40):
        clock[0] += display.FRAME_SECONDS
        frames.add(line.__rich__().plain[0])
    assert frames == set(display.FRAMES)


def test_an_epoch_is_told_by_the_pace_of_those_before(ledger: Ledger, clock: list[float]) -> None:
    epochs = EpochClock(ledger.history)
    ledger.listeners.append(epochs.listen)
    first = add_trial(ledger, [], state=TrialState.RUNNING)
    clock[0] += 12.0
    # Nobody knows yet how long an epoch takes.
    assert epochs.progress(first) == "+12 s"
    ledger.report(first, 1, {"val/rsum": 1.0, "time/epoch_seconds": 20.0}, TrialState.RUNNING)
    assert epochs.progress(first) == "+0%"
    clock[0] += 8.0
    assert epochs.progress(first) == "+40%"
    second = add_trial(ledger, [], state=TrialState.RUNNING)
    clock[0] += 5.0
    # By the epochs of another trial of its study.
    assert epochs.progress(second) == "+25%"
    clock[0] += 14.0
    assert epochs.progress(second) == "+95%"
    # One that takes much longer than usual may hang: its seconds say more than a share.
    clock[0] += 20.0
    assert epochs.progress(second) == "+39 s"


def test_a_trial_that_began_before_this_process_says_nothing(ledger: Ledger) -> None:
    trial = add_trial(ledger, [1.0], state=TrialState.RUNNING)
    assert EpochClock(ledger.history).progress(trial) == ""
