"""Winners in MLflow's registry: once each, the better one champion, served by MLflow without our code beside it."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from PIL import Image

from orchestrator.journal.ledger import Ledger
from orchestrator.storage.stores import FolderStore
from orchestrator.tracking.address import default_uri
from orchestrator.tracking.registry import RegistryError, fetch_champion, model_name, register, register_all
from orchestrator.tracking.store import Store
from orchestrator.winners.winners import CARD, CHAMPIONS, MODEL, Champion, pack_champions, packed_champions
from tests.support.commands import run_command
from tests.support.experiments import add_repeat, add_trial, begun, make_experiment, open_test
from tests.trainables.tiny import tiny_config, tiny_dataset
from trainables.checkpoint import save_epoch
from trainables.config import TrialConfig
from trainables.errors import DataError
from trainables.serving.packed import write_retriever
from trainables.trial import run_trial

DATA = tiny_dataset()
SERVE = """
import sys, mlflow, json
model = mlflow.pyfunc.load_model("models:/icr-pets@champion")
import pandas, trainables.serving.retriever
tables = [
    model.predict(pandas.DataFrame({"caption": ["word1 word2"]}), params={"top": 3}),
    model.predict(pandas.DataFrame({"image": ["image80"]})),
]
refused = []
for wrong in (pandas.DataFrame({"text": ["word1"]}), ["word1 word2"]):
    try:
        model.predict(wrong)
    except Exception as error:
        refused.append(str(error))
answers = [table.to_dict("records") for table in tables]
print(json.dumps({"found": answers, "refused": refused, "code": trainables.serving.retriever.__file__}))
"""


class Packing:
    """Packs the tiny dataset's model, whatever the trial."""

    def pack(self, config: TrialConfig, checkpoint: Path, folder: Path) -> None:
        write_retriever(folder, checkpoint, DATA, "test")


class Empty:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def pack(self, config: TrialConfig, checkpoint: Path, folder: Path) -> None:
        raise self.error


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (report,) = run_trial(tiny_config(epochs=1), DATA, device="cpu")
    return save_epoch(tmp_path_factory.mktemp("trained"), report)


@pytest.fixture
def directory(output: Path, checkpoint: Path) -> Path:
    """A confirmed experiment whose winner has a real checkpoint, delivered to the store."""
    folder = output / "tiny"
    with begun(folder, make_experiment(confirm={"top": 1, "seeds": 2})) as ledger:
        trial = add_trial(ledger, [20.0])
        repeats = [add_repeat(ledger, trial, seed, seed, 20.0 + seed) for seed in range(2)]
        open_test(ledger, repeats)
    for repeat in repeats:
        (folder / "trials" / repeat.id).mkdir(parents=True)
        (folder / "trials" / repeat.id / checkpoint.name).symlink_to(checkpoint)
    Store(default_uri(output), output, output / "tiny", "tiny").deliver(ledger.history, ledger.history.trials)
    assert pack_champions(ledger.history, Packing(), FolderStore(folder / "trials"), folder) == []  # type: ignore[arg-type]
    return folder


def retrieve(output: Path, *arguments: str) -> int:
    return run_command(["retrieve", *arguments, "--dataset", "pets", "--output", str(output)])


def only(directory: Path) -> tuple[Path, Champion]:
    ((packed, champion),) = packed_champions(directory).items()
    return packed, champion


def test_a_winner_is_registered_once_and_answers_from_the_command_line(
    output: Path, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = default_uri(output)
    first, again = register_all(uri, directory), register_all(uri, directory)
    assert first == again
    assert [(one.name, one.version, one.is_champion) for one in first[0]] == [("icr-pets", 1, True)]
    assert first[1] == []
    version = MlflowClient(tracking_uri=uri).get_model_version_by_alias("icr-pets", "champion")
    assert version.tags["trial"] == "pets-vsepp-nt_xent-0000-seed1"
    assert (version.tags["confirmed"], version.tags["value"], version.tags["data_digest"]) == ("true", "20.5", "d1")
    about = version.description
    assert "confirmed: val/rsum 20.5, test/rsum " in about
    assert "Only one candidate was confirmed" in about
    assert 'mlflow.pyfunc.load_model("models:/icr-pets@champion")' in about
    artifacts = [path for path in (output / "artifacts").rglob("*") if path.is_file()]
    assert not [path for path in artifacts if path.suffix in (".pkl", ".pickle", ".pt", ".pth")]
    for arguments, field in ((["word1 word2"], "image"), (["--image", "image80"], "caption")):
        assert retrieve(output, *arguments, "--top", "3", "--json") == 0
        said = json.loads(capsys.readouterr().out)
        assert (said["model"], said["version"], len(said["answers"])) == ("icr-pets", 1, 3)
        assert all(len(answer["captions"]) == (5 if field == "image" else 0) for answer in said["answers"])
        assert all(answer[field] for answer in said["answers"])


def test_a_picture_file_of_the_dataset_is_found_by_its_name(
    output: Path, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    register_all(default_uri(output), directory)
    stranger = tmp_path / "holiday.jpg"
    Image.new("RGB", (40, 60)).save(stranger)
    # Where the dataset is missing, the refusal is the same.
    assert retrieve(output, "--image", str(stranger)) != 0 and "not known how" in capsys.readouterr().err
    monkeypatch.setattr("orchestrator.commands.retrieve.open_dataset", lambda config, data_root: DATA)
    for name, split in (("image80.jpg", "test"), ("image3.jpg", "train")):
        picture = tmp_path / name
        Image.new("RGB", (40, 60)).save(picture)
        assert retrieve(output, "--image", str(picture), "--json") == 0
        said = json.loads(capsys.readouterr().out)
        assert f"{name} is an image of tiny {split}, found by its name" in said["warnings"][0]
        assert len(said["answers"]) == 10
    assert retrieve(output, "--image", str(stranger)) != 0 and "not known how" in capsys.readouterr().err


@pytest.mark.proof
def test_mlflow_serves_it_with_the_code_that_is_packed_with_it(output: Path, directory: Path, tmp_path: Path) -> None:
    register_all(default_uri(output), directory)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"MLFLOW_TRACKING_URI": default_uri(output), "MLFLOW_REGISTRY_URI": default_uri(output)}
    command = [sys.executable, "-I", "-c", SERVE]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert [len(answers) for answers in said["found"]] == [3, 10]
    assert [answer["rank"] for answer in said["found"][0]] == [1, 2, 3]
    assert len(said["refused"]) == 2 and all("caption" in text for text in said["refused"])
    assert Path(said["code"]).parts[-4:] == ("code", "trainables", "serving", "retriever.py")


def test_what_fails_is_said_and_delivered_later(output: Path, directory: Path, tmp_path: Path) -> None:
    uri = default_uri(output)
    assert register_all(uri, directory, "down") == ([], ["icr-pets is not registered; `orchestrator sync` does it"])
    packed, champion = only(directory)
    with pytest.raises(RegistryError, match="has no run in MLflow yet"):
        register(uri, packed, replace(champion, trial="unknown"))
    with pytest.raises(RegistryError, match=r"no champion icr-birds; there are: none"):
        fetch_champion(uri, "birds", tmp_path)
    assert run_command(["sync", "tiny", "--output", str(output)]) == 0
    assert fetch_champion(uri, "pets", tmp_path)[1].version == 1


def test_packing_fails_in_words_and_is_not_repeated(directory: Path) -> None:
    ledger = Ledger(directory / "journal.jsonl")
    checkpoints = FolderStore(directory / "trials")
    workload: Any = Empty(DataError("the data are gone"))
    assert pack_champions(ledger.history, workload, checkpoints, directory) == [], "it is packed already"
    card = directory / CHAMPIONS / "pets" / CARD
    card.write_text("{")
    problems = pack_champions(ledger.history, workload, checkpoints, directory)
    assert problems == ["the winner of pets was not packed: the data are gone"]
    workload.error = OSError()
    problems = pack_champions(ledger.history, workload, checkpoints, directory)
    assert problems == ["the winner of pets was not packed: OSError"]
    assert packed_champions(directory) == {}
    assert (card.parent / MODEL).is_dir(), "what was there is kept"
    ledger.close()


@pytest.mark.parametrize(("dataset", "name"), [("pets", "icr-pets"), ("/data/my pets:2", "icr-my-pets-2")])
def test_names_are_what_mlflow_takes(dataset: str, name: str) -> None:
    assert model_name(dataset) == name


EMPTY, ONE = "the query is empty", "one of the two"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [([""], EMPTY), (["  "], EMPTY), (["--image", ""], EMPTY), ([], ONE), (["two dogs", "--image", "1"], ONE)],
)
def test_retrieve_wants_one_question(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["retrieve", *arguments, "--dataset", "pets"]) == 2
    assert message in capsys.readouterr().err
