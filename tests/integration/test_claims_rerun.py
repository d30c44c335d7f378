"""``certify`` and ``regress claims`` with real trainings: accepted, trained again to the same numbers, and worse."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.commands import run_command
from tests.support.precomputed_folder import write_precomputed

FILE = """
name: tiny
source: A test
experiment:
  models: [wsabie]
  losses: [triplet_sh, nt_xent]
  training: {epochs: 6, batch_size: 30, learning_rate: 1.0e-2, embedding_size: 16, word_size: 8}
  search: {trials: 1, metric: val/rsum}
  scheduler: {name: none}
  resources: {cpus: 1, gpus: 0}
claims:
  - id: nt-xent-learns
    number: 1
    statement: NT-Xent retrieves better than chance.
    where: nowhere
    holds_if: [{kind: above, loss: nt_xent, metrics: [rsum], than: 300.0}]
"""


@pytest.fixture
def call(
    own_folders: None, output: Path, tmp_path: Path, trials_run: None, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., int]:
    write_precomputed(tmp_path / "data" / "pets")
    (tmp_path / "tiny.yaml").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    places = ["--datasets", "pets", "--seeds", "3", "--data-root", str(tmp_path / "data"), "--output", str(output)]

    def run(*words: str) -> int:
        return run_command([*words, *places])

    return run


def test_an_accepted_certificate_is_trained_again_and_compared(
    call: Callable[..., int], output: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    news: list[str] = []
    monkeypatch.setattr("orchestrator.commands.regress.notify", lambda text, result: news.append(text))
    again = ("regress", "claims", "tiny.yaml")
    assert call("certify", "tiny.yaml") == 0
    assert "Of 1 claim 1 holds" in capfd.readouterr().out
    shutil.copy(output / "certify-tiny" / "certificate.json", "tiny.accepted.json")
    assert call(*again) == 0
    assert "identical to the accepted certificate" in capfd.readouterr().out
    assert call(*again, "--set", "training.learning_rate=1e-9") == 5
    assert "Claim 1 is contradicted: NT-Xent" in capfd.readouterr().out
    assert call(*again, "--if-due", "24h") == 5
    assert "Claim 1 is contradicted: NT-Xent" in capfd.readouterr().out
    assert len(list((output / "claims-tiny").iterdir())) == 2, "the fresh rerun was trained once"
    assert len(news) == 1 and news[0].startswith("tiny: a claim that held is contradicted"), "one message a rerun"
