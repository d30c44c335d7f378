"""The rooms through which the stories of ``docs/architecture.md`` walk, counted from calls while each runs.

A story is run in this process: its searches train without Ray (``tests.support.in_process``). A call of a function of
another room is a step; what a thread calls is called by who started the thread. Calls within a room, and of ``TABLES``,
are none: every module reads those. A climb is a pair of rooms of which the first calls the second, which lies above: a
listener, or a method of an object that was handed down.
A story ends where another begins: what a trial does is in the first alone, and the test split in the last. What hangs
on one registration, and can be deleted (``tests/test_satellites.py``), is in no story.
"""

import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from tests.test_architecture import EVERYONE_MAY, LEVEL, LEVELS, MAY_IMPORT, MODULES, ROOT

TABLES = {*EVERYONE_MAY - {"journal"}, *set().union(*LEVELS[:5]), "search_spaces", "__init__"}
"""What a module reads as it reads the standard library: words, errors, files, metrics, hyper-parameters, settings."""

SATELLITES = {"watch", "exports", "serving", "judgements", "judgement_files", "judged_ranks"}
"""What hangs on one registration, and the metrics of judged pairs alone."""

NAMES = {str(file): name for name, file in MODULES.items()}
NAMES[str(ROOT / "tests" / "support" / "in_process.py")] = TUNE = "tests.support.in_process"


@dataclass
class Walk:
    """The steps of a story: caller and callee, each ``module:function``, in the order in which they were first made.

    ``begins`` are the functions with which it begins, all if there are none; ``ends`` are those that others tell.
    """

    begins: frozenset[str] = frozenset()
    ends: frozenset[str] = frozenset()
    steps: dict[tuple[str, str], None] = field(default_factory=dict)
    _starters: dict[threading.Thread, list[CodeType]] = field(default_factory=dict)

    @property
    def rooms(self) -> list[str]:
        """The rooms, in the order in which they are entered."""
        return list(dict.fromkeys(room_of(end) for step in self.steps for end in step))

    @property
    def climbs(self) -> dict[tuple[str, str], list[str]]:
        """Pairs of rooms of which the first calls the second, which lies above -> the steps."""
        climbs: dict[tuple[str, str], list[str]] = {}
        for caller, callee in self.steps:
            if is_above(room_of(callee), room_of(caller)):
                climbs.setdefault((room_of(caller), room_of(callee)), []).append(f"{caller} -> {callee}")
        return climbs

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Note the steps of a ``with`` block, in all its threads."""
        start = threading.Thread.start

        def note_starter(thread: threading.Thread) -> None:
            self._starters[thread] = [*self._callers(sys._getframe())]
            start(thread)

        threading.Thread.start = note_starter  # type: ignore[method-assign]
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
            threading.Thread.start = start  # type: ignore[method-assign]

    def _note(self, frame: FrameType, event: str, argument: Any) -> None:
        if event != "call" or frame.f_code.co_name.startswith("<"):
            return
        callee = label(frame.f_code)
        if callee is None or callee.startswith(TUNE) or room_of(callee) in TABLES | SATELLITES:
            return
        above = [place for code in self._callers(frame) if (place := label(code)) is not None]
        if self.ends & {*above} or not (not self.begins or self.begins & {*above}):
            return
        if SATELLITES & set(map(room_of, above)):
            return
        caller = next((place for place in above if not place.startswith(TUNE) and room_of(place) not in TABLES), None)
        if caller is not None and room_of(caller) != room_of(callee):
            self.steps.setdefault((caller, callee))

    def _callers(self, frame: FrameType) -> Iterator[CodeType]:
        before = frame.f_back
        while before is not None:
            yield before.f_code
            before = before.f_back
        yield from self._starters.get(threading.current_thread(), ())


@cache
def label(code: CodeType) -> str | None:
    """Return ``module:function``; ``None`` of code that is not ours."""
    name = NAMES.get(code.co_filename)
    return None if name is None else f"{name}:{code.co_qualname}"


def room_of(place: str) -> str:
    """Return the room of a module, a folder or a module of a package; the package itself where it has no rooms."""
    package, _, rest = place.partition(":")[0].partition(".")
    return rest.partition(".")[0] or "__init__" if package in ("orchestrator", "trainables") else package


def is_above(high: str, low: str) -> bool:
    """Say whether a room lies above another: the lower may not import it, not even through others."""
    if low in MAY_IMPORT and high in MAY_IMPORT:
        return high not in reached(low)
    if low in LEVEL and high in LEVEL:
        return LEVEL[high] > LEVEL[low]
    return low in LEVEL and high in MAY_IMPORT


@cache
def reached(name: str) -> frozenset[str]:
    """Return the rooms that a room may import, at once or through others."""
    return frozenset(EVERYONE_MAY.union(MAY_IMPORT[name], *map(reached, MAY_IMPORT[name])))


def _experiment(**changes: Any) -> Any:
    from tests.support.experiments import make_experiment

    training = {"epochs": 2, "batch_size": 8, "embedding_size": 4, "word_size": 4}
    about = {"datasets": ["small"], "models": ["vsepp"], "training": training, "search": {"trials": 2, "seed": 1}}
    return make_experiment(**{**about, **changes})


def _search(folder: Path, *, confirm_alone: bool = False, tracked: bool = False, **changes: Any) -> None:
    from orchestrator.searches.search import run_search
    from orchestrator.workload.training import TrainablesWorkload
    from tests.support.in_process import without_ray

    workload = TrainablesWorkload(str(folder / "data"), device="cpu")
    with without_ray(tracked=tracked):
        run_search(_experiment(**changes), workload, folder / "runs", quiet=True, confirm_alone=confirm_alone)


def _train(folder: Path) -> Callable[[], object]:
    from orchestrator.workload.single import train

    settings = ("dataset=small", "model=vsepp", "loss=nt_xent", "training.epochs=2", "training.batch_size=8")
    return lambda: train(None, overrides=settings, data_root=str(folder / "data"), output=folder / "runs")


def _searched(folder: Path) -> Callable[[], object]:
    return lambda: _search(folder)


def _resumed(folder: Path) -> Callable[[], object]:
    _search(folder)
    journal = folder / "runs" / "tiny" / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    kept = next(number for number, line in enumerate(lines) if b'"epoch"' in line)
    journal.write_bytes(b"".join(lines[: kept + 1]) + lines[kept + 1][:20])
    return lambda: _search(folder)


def _delivered(folder: Path) -> Callable[[], object]:
    from orchestrator.tracking.address import default_uri
    from orchestrator.tracking.sync import deliver

    _search(folder)
    return lambda: deliver(folder / "runs" / "tiny", folder / "runs", default_uri(folder / "runs"))


def _confirmed(folder: Path) -> Callable[[], object]:
    _search(folder, tracked=True)
    return lambda: _search(folder, tracked=True, confirm_alone=True, confirm={"top": 1, "seeds": 2})


SEARCH = "orchestrator.searches.search"
A_TRIAL, TRIALS = "trainables.trial:run_trial", f"{TUNE}:without_ray.<locals>.run_trials"
EVALUATION = "trainables.evaluation:rank_checkpoint"
LAST = frozenset(
    {f"{SEARCH}:confirm_stage", f"{SEARCH}:conclude_search", "orchestrator.tracking.registry:register_all"}
)

STORIES: Mapping[str, tuple[Callable[[Path], Callable[[], object]], Walk]] = {
    "one trial": (_train, Walk()),
    "one trial in a search": (_searched, Walk(ends=LAST | {A_TRIAL})),
    "crash and resume": (_resumed, Walk(ends=LAST | {TRIALS})),
    "tracking": (_delivered, Walk()),
    "from confirmation to registry": (_confirmed, Walk(begins=LAST, ends=frozenset({TRIALS, EVALUATION}))),
}
"""Story of ``docs/architecture.md`` -> function that prepares a folder, and returns what runs the story; its ends."""


@cache
def walk(story: str) -> Walk:
    """Run a story, and return its walk."""
    from tests.support.precomputed_folder import write_precomputed

    prepare, followed = STORIES[story]
    with tempfile.TemporaryDirectory() as folder:
        write_precomputed(Path(folder) / "data" / "small")
        run = prepare(Path(folder))
        with followed.followed():
            run()
    return followed


def main() -> None:
    """Print rooms, climbs and steps of each story."""
    for story in STORIES:
        taken = walk(story)
        print(f"{story}: {len(taken.rooms)} rooms, {len(taken.climbs)} climbs, {len(taken.steps)} steps")
        print(f"  {', '.join(taken.rooms)}")
        for (low, high), steps in taken.climbs.items():
            print(f"  {low} -> {high}: {'; '.join(steps[:3])}")
        if "-v" in sys.argv:
            print(*(f"    {caller} -> {callee}" for caller, callee in taken.steps), sep="\n")


if __name__ == "__main__":
    main()
