"""The proofs outside CI: none is forgotten, and CI runs those that a change touches."""

from pathlib import Path
from typing import Any

import pytest

from tests import proofs
from tests.proofs import PROOFS, ROOT, InTurn, touched

WITH_PROOFS = ("mark.soak", "trials_run: None", "any_searches: ")
"""What stands in a file that has proofs: the mark, or a fixture that has it."""


def test_every_file_with_proofs_is_listed_and_is_about_something_there() -> None:
    files = [path for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__)]
    texts = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in files}
    assert PROOFS.keys() == {file for file, text in texts.items() if any(word in text for word in WITH_PROOFS)}
    assert all((ROOT / place).exists() for about in PROOFS.values() for place in about)


@pytest.mark.parametrize(
    ("changed", "chosen"),
    [
        (["README.md", "trainables/metrics.py"], []),
        (["orchestrator/journal/journal.py"], ["tests/faults/test_drivers.py"]),
        (["tests/faults/test_engines.py"], ["tests/faults/test_engines.py"]),
        (["orchestrator/tuner/lockstep.py"], ["tests/faults/test_engines.py", "tests/integration/test_search.py"]),
        (["deploy/slurm/README.md", "tests/deploy/test_real_slurm.py"], []),
    ],
)
def test_a_change_runs_the_proofs_that_are_about_it(changed: list[str], chosen: list[str]) -> None:
    assert touched(changed) == chosen


def test_every_proof_has_its_turn() -> None:
    orders = []
    for turn in range(3):
        items: list[Any] = ["a", "b", "c"]
        InTurn(turn).pytest_collection_modifyitems(items)
        orders.append("".join(items))
    assert orders == ["abc", "bca", "cab"]


def test_no_proof_begins_late(monkeypatch: pytest.MonkeyPatch) -> None:
    in_turn = InTurn(0)
    in_turn.pytest_runtest_setup()
    monkeypatch.setattr(proofs, "SECONDS", -1.0)
    with pytest.raises(pytest.skip.Exception, match="make proof"):
        in_turn.pytest_runtest_setup()
