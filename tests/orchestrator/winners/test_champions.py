"""What counts as a packed champion in an experiment's folder."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest

from orchestrator.journal.ledger import Ledger
from orchestrator.results.winner import find_champions
from orchestrator.winners.winners import CARD, CHAMPIONS, MODEL, Champion, describe_champion, packed_champions
from tests.support.experiments import add_repeat, add_trial, make_experiment, open_test, start


def test_a_copy_of_a_packed_champion_is_not_registered_beside_it(tmp_path: Path) -> None:
    values = {"dataset": "pets", "experiment": "e", "trial": "t", "metric": "val/rsum", "data_digest": "d"}
    champion = Champion(**values, confirmed=True, value=1.0)
    folder = tmp_path / CHAMPIONS / "pets"
    folder.mkdir(parents=True)
    (folder / CARD).write_text(json.dumps(asdict(champion)))
    shutil.copytree(folder, folder.with_name("pets.bak"))
    assert packed_champions(tmp_path) == {folder / MODEL: champion}


def test_the_description_has_the_spread_over_the_seeds_of_a_confirmed_winner_alone(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "journal.jsonl")
    start(ledger, make_experiment())
    best = add_trial(ledger, [100.0, 140.0])
    ((dataset, model),) = find_champions(ledger.history).items()
    unconfirmed = describe_champion(ledger.history, dataset, model)
    assert (unconfirmed.value, unconfirmed.std, unconfirmed.seeds) == (140.0, None, 1)
    open_test(ledger, [add_repeat(ledger, best, index, 7 + index, value) for index, value in enumerate((138.0, 141.0))])
    ((dataset, model),) = find_champions(ledger.history).items()
    confirmed = describe_champion(ledger.history, dataset, model)
    assert (confirmed.value, confirmed.std, confirmed.seeds) == (139.5, pytest.approx(1.5), 2)
    ledger.close()
