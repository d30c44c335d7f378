"""What counts as a packed champion in an experiment's folder."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path

from orchestrator.winners.champions import CARD, CHAMPIONS, MODEL, Champion, packed_champions


def test_a_copy_of_a_packed_champion_is_not_registered_beside_it(tmp_path: Path) -> None:
    values = {"dataset": "pets", "experiment": "e", "trial": "t", "metric": "val/rsum", "data_digest": "d"}
    champion = Champion(**values, confirmed=True, value=1.0)
    folder = tmp_path / CHAMPIONS / "pets"
    folder.mkdir(parents=True)
    (folder / CARD).write_text(json.dumps(asdict(champion)))
    shutil.copytree(folder, folder.with_name("pets.bak"))
    assert packed_champions(tmp_path) == {folder / MODEL: champion}
