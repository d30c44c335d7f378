"""Fused trials without a cluster: who trains with whom, who is waited for, and how many engines share a place."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from orchestrator.tuner.engines import engines_that_fit
from orchestrator.tuner.lockstep import EpochBarrier
from tests.support.fake_workload import FakeTogether, FakeWorkload
from trainables.checkpoint import EpochReport
from trainables.config import TrainingConfig, TrialConfig
from trainables.errors import DataError, DivergedError


def config(temperature: float = 0.1) -> TrialConfig:
    loss = {"temperature": temperature}
    return TrialConfig(dataset="pets", loss_parameters=loss, training=TrainingConfig(epochs=5))


class Table:
    """EpochBarrier, with a thread for each trial that asks."""

    def __init__(self, workload: FakeWorkload, patience: float, pool: ThreadPoolExecutor, members: str) -> None:
        self.together = FakeTogether(workload)
        self.rounds, self.pool = EpochBarrier(lambda: self.together, patience), pool
        self.dead: set[str] = set()
        for name in members:
            self.start(name, config(), None)

    def reserve(self, name: str) -> None:
        self.rounds.reserve(name, lambda: name not in self.dead)

    def start(self, name: str, config: TrialConfig, resume: Path | None) -> EpochReport | None:
        self.reserve(name)
        return self.rounds.start(name, config, resume)

    def ask(self, name: str) -> "Future[EpochReport]":
        return self.pool.submit(self.rounds.next, name)

    def ask_first(self, name: str) -> "Future[EpochReport]":
        """Let a trial ask, and return when it has; another one must still be missing, or the round may be over."""
        asked = self.ask(name)
        while name not in self.rounds._asked:
            assert not asked.done()
            time.sleep(0.001)
        return asked

    def epochs(self, *names: str) -> list[int]:
        return [asked.result(60).epoch for asked in [self.ask(name) for name in names]]


@pytest.fixture
def table() -> Iterator[Callable[..., Table]]:
    with ThreadPoolExecutor(8) as pool:
        yield lambda workload=FakeWorkload(), patience=60.0, members="": Table(workload, patience, pool, members)


def test_one_that_leaves_makes_room_for_the_next_and_stops_nobody(table: Callable[..., Table]) -> None:
    made = table(members="ab")
    made.epochs("a", "b")
    waiting = made.ask("a")
    made.rounds.leave("b")
    assert waiting.result(60).epoch == 2
    made.reserve("c")
    waiting = made.ask("a")
    made.start("c", config(), None)
    assert made.epochs("c") == [1]
    assert waiting.result(60).epoch == 3
    assert [sorted(each) for each in made.together.rounds] == [["a", "b"], ["a"], ["a", "c"]]


def test_one_that_says_nothing_is_waited_for_once_and_may_come_back(table: Callable[..., Table]) -> None:
    made = table(patience=0.2, members="ab")
    assert made.epochs("a") == [1]
    made.rounds._patience = 60.0
    assert made.epochs("a") == [2]
    back = made.ask_first("b")
    assert made.epochs("a") == [3]
    assert back.result(60).epoch == 1
    assert [sorted(each) for each in made.together.rounds] == [["a"], ["a"], ["a", "b"]]


def test_one_whose_process_died_is_let_go(table: Callable[..., Table]) -> None:
    made = table(members="ab")
    made.epochs("a", "b")
    made.dead.add("b")
    assert made.rounds.members() == 1
    assert made.epochs("a") == [2]
    # What trains them lets it go before the round after.
    assert made.epochs("a") == [3]
    assert made.together.names == {"a"}


def test_one_that_died_while_it_asked_is_not_trained(table: Callable[..., Table]) -> None:
    made = table(members="ab")
    asked = made.ask_first("b")
    made.dead.add("b")
    assert made.epochs("a") == [1]
    with pytest.raises(CancelledError):
        asked.result(60)
    assert made.together.rounds == [("a",)]


class Hanging(FakeTogether):
    """Hangs in every epoch, and for one trial as soon as it comes, until it is told to continue."""

    def __init__(self, workload: FakeWorkload) -> None:
        super().__init__(workload)
        self.hangs, self.go = threading.Event(), threading.Event()

    def _hang(self) -> None:
        self.hangs.set()
        assert self.go.wait(60)

    def add(self, name: str, config: TrialConfig, resume: Path | None) -> EpochReport | None:
        if name == "hangs":
            self._hang()
        return super().add(name, config, resume)

    def run_epoch(self, names: Sequence[str]) -> Mapping[str, EpochReport | DivergedError]:
        self._hang()
        return super().run_epoch(names)


@pytest.fixture
def hanging(table: Callable[..., Table]) -> Iterator[tuple[Table, Hanging]]:
    made = table()
    made.together = together = Hanging(FakeWorkload())
    yield made, together
    together.go.set()


def test_a_round_that_hangs_is_stuck_once_none_of_it_is_alive(hanging: tuple[Table, Hanging]) -> None:
    made, together = hanging
    for name in "ab":
        made.start(name, config(), None)
    assert made.rounds.members() is not None
    asked = [made.ask(name) for name in "ab"]
    assert together.hangs.wait(60)
    # Who came later waits for it in vain.
    made.reserve("c")
    assert made.rounds.members() is not None
    made.dead.add("a")
    assert made.rounds.members() is not None
    made.dead.add("b")
    assert made.rounds.members() is None
    # A worker that was slow, and did not hang, continues.
    together.go.set()
    assert [each.result(60).epoch for each in asked] == [1, 1]
    assert made.rounds.members() is not None


@pytest.mark.parametrize("gone", ["dead", "left"])
def test_one_whose_start_hangs_is_stuck_once_it_is_gone(hanging: tuple[Table, Hanging], gone: str) -> None:
    made, together = hanging
    made.start("a", config(), None)
    made.reserve("hangs")
    started = made.pool.submit(made.rounds.start, "hangs", config(), None)
    assert together.hangs.wait(60)
    assert made.rounds.members() is not None
    if gone == "dead":
        made.dead.add("hangs")
    else:
        made.rounds.leave("hangs")
    assert made.rounds.members() is None
    together.go.set()
    assert started.result(60) is None
    assert made.rounds.members() is not None


def test_one_that_diverges_tells_it_to_its_own_alone(table: Callable[..., Table]) -> None:
    made = table(FakeWorkload(diverges_above=0.3))
    made.start("wild", config(0.4), None)
    made.start("tame", config(0.1), None)
    assert made.epochs("wild", "tame") == [1, 1]
    wild, tame = made.ask("wild"), made.ask("tame")
    error = wild.result(60)
    assert isinstance(error, DivergedError) and "train/loss is nan in epoch 2" in str(error)
    assert tame.result(60).epoch == 2


def test_what_goes_wrong_with_a_round_reaches_all_of_it_and_the_next_begins(table: Callable[..., Table]) -> None:
    made = table(FakeWorkload(fails_below=0.2))
    made.start("a", config(0.1), None)
    made.start("b", config(0.3), None)
    made.epochs("a", "b")
    for asked in [made.ask_first("a"), made.ask("b")]:
        with pytest.raises(RuntimeError, match="no luck with 0.1"):
            asked.result(60)
    made.rounds.leave("a")
    assert made.epochs("b") == [2]


def test_what_cannot_run_is_refused_alone(table: Callable[..., Table], monkeypatch: pytest.MonkeyPatch) -> None:
    made = table()

    def refuse(*ignored: object) -> None:
        raise DataError("pets: missing")

    made.start("a", config(), None)
    monkeypatch.setattr(made.together, "add", refuse)
    assert isinstance(made.start("b", config(), None), DataError)
    made.rounds.leave("b")
    assert made.epochs("a") == [1]


def test_a_checkpoint_is_that_of_the_newest_epoch_and_resumes(table: Callable[..., Table], tmp_path: Path) -> None:
    made = table()
    made.start("a", config(), None)
    made.epochs("a")
    made.epochs("a")
    made.rounds.save("a", tmp_path)
    report = made.start("b", config(), tmp_path)
    assert report is not None and report.epoch == 2
    made.rounds.leave("a")
    assert made.epochs("b") == [3]


ROOM = [
    pytest.param({"cpu": 1, "gpu": 0.25}, 64, 1, 4, id="four to a GPU"),
    pytest.param({"cpu": 1, "gpu": 16 * 0.0156}, 64, 1, 4, id="put together from rounded parts"),
    pytest.param({"cpu": 1, "gpu": 0.3}, 64, 1, 3, id="no engine beyond the last whole one"),
    pytest.param({"cpu": 1, "gpu": 10 * 0.1}, 64, 1, 1, id="a whole GPU"),
    pytest.param({"cpu": 1, "gpu": 2.0}, 64, 2, 1, id="two GPUs to an engine"),
    pytest.param({"cpu": 1, "gpu": 2.0}, 64, 1, 1, id="two GPUs to an engine, whose trials see one each"),
    pytest.param({"cpu": 2, "gpu": 0.0}, 7, 0, 3, id="by CPUs where there is no GPU"),
    pytest.param({"cpu": 3 * 0.3333, "gpu": 0.0}, 2, 0, 2, id="CPUs put together"),
    pytest.param({"cpu": 4, "gpu": 0.0}, 2, 0, 1, id="one at least"),
    pytest.param({"cpu": 0.0, "gpu": 0.0}, 2, 0, 1, id="parts that were rounded to nothing"),
]


@pytest.mark.parametrize(("share", "cpus", "gpus", "engines"), ROOM)
def test_so_many_engines_share_a_place(share: dict[str, float], cpus: float, gpus: int, engines: int) -> None:
    assert engines_that_fit(share, cpus, gpus) == engines
