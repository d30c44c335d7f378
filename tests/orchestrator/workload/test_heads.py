"""A model on features of captions goes through what a search does with its trials: check, train, test, pack."""

import json
from pathlib import Path

import numpy as np
import pytest

from orchestrator.experiment.experiment import Experiment, data_key
from orchestrator.experiment.yaml_files import validate
from orchestrator.extraction.feature_files import extract_text
from orchestrator.workload.training import TrainablesWorkload
from trainables.checkpoint import save_epoch
from trainables.errors import ConfigError
from trainables.serving.retriever import Retriever

WORDS = ("dog", "cat", "horse", "bird", "cow", "fish")
SPLITS = ("train", "train", "train", "val", "test", "test")


@pytest.fixture
def root(here: Path) -> Path:
    folder = here / "data" / "pets"
    folder.mkdir(parents=True)
    images = [
        {
            "filename": f"{word}.jpg",
            "imgid": number,
            "split": split,
            "sentences": [{"raw": f"a {word} runs fast"}, {"raw": f"the {word} sleeps here"}],
        }
        for number, (word, split) in enumerate(zip(WORDS, SPLITS, strict=True))
    ]
    (folder / "dataset_pets.json").write_text(json.dumps({"dataset": "pets", "images": images}))
    np.save(folder / "features_global.npy", np.eye(6, 4, dtype=np.float16) + np.float16(0.1))
    extract_text("pets", folder.parent, dimensions=3, seed=0, out=None)
    return folder.parent


def experiment(**values: object) -> Experiment:
    training = {"epochs": 1, "batch_size": 2, "embedding_size": 4}
    plain = {"name": "heads", "datasets": ["pets"], "models": ["head"], "losses": ["nt_xent"], "training": training}
    return validate(Experiment, {**plain, **values})


def test_a_trial_is_checked_trained_tested_and_packed_with_its_extractor(root: Path, tmp_path: Path) -> None:
    asked, workload = experiment(), TrainablesWorkload(str(root), device="cpu")
    config = asked.trial_config(asked.cells()[0], {})
    digests = workload.check(asked)
    assert digests.keys() == {data_key(config)} == {"pets:global+text"}
    workload = workload.expecting(digests)
    (report,) = workload.train(config, None)
    checkpoint = save_epoch(tmp_path / "trial", report)
    assert 0 <= workload.test(config, checkpoint).metrics["rsum"] <= 600
    workload.pack(config, checkpoint, tmp_path / "packed")
    retriever = Retriever(tmp_path / "packed")
    answers = retriever.images_for("a cat sleeps fast", 2)
    assert {answer.filename for answer in answers} == {"cow.jpg", "fish.jpg"}
    assert retriever.doubts_about("a cat meows", answers)[0] == "the model does not know meows"


def test_an_identity_of_another_width_is_refused_before_a_search(root: Path) -> None:
    workload = TrainablesWorkload(str(root), device="cpu")
    workload.check(experiment(model_parameters={"image_head": "identity"}))
    with pytest.raises(ConfigError, match="caption_head: identity keeps the 3 dimensions of the caption features"):
        workload.check(experiment(model_parameters={"caption_head": "identity"}))


def test_a_search_names_losses_of_cosines_and_rates_that_step_nothing(root: Path) -> None:
    """Of every loss that a study may choose."""
    workload, rate = TrainablesWorkload(str(root), device="cpu"), {"loss_learning_rate": "default"}
    losses = ["triplet_sh", "polynomial_self"]
    notes = workload.notes(experiment(models=["wsabie"], losses=losses, search={"loss": "choose", "training": rate}))
    assert [note.partition(" bounds")[0] for note in notes] == [
        "training.loss_learning_rate has no effect: triplet_sh learns no hyper-parameter",
        "wsabie: its similarities go beyond [-1, 1], and polynomial_self",
        "training.loss_learning_rate has no effect: polynomial_self learns no hyper-parameter",
    ]
    space = {"nt_xent": {"temperature": {"values": [0.1, "learned"]}}}
    assert workload.notes(experiment(search={"space": space, "training": rate})) == []
