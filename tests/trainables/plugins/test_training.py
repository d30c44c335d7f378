"""A plug-in in a training: what it breaks is its own trial, and its model is packed with its code."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.experiment.plugins import load_plugins
from orchestrator.storage.stores import FolderStore
from orchestrator.tuner.actor import Step, TrialActor
from orchestrator.workload.training import TrainablesWorkload
from tests.support.plugins import lay_out_package, write_plugin
from tests.trainables.tiny import suited, tiny_config, tiny_dataset
from trainables.checkpoint import EpochReport, save_epoch
from trainables.config import TrialConfig
from trainables.data.dataset import Dataset, load_dataset
from trainables.errors import CheckpointError, ConfigError, PluginError
from trainables.fused import FusedTrials
from trainables.plugins.in_use import forget, references
from trainables.serving.packed import write_retriever
from trainables.serving.retriever import Retriever
from trainables.trial import run_trial

DATA = tiny_dataset()

FRAGILE = """
@loss(space={"scale": (-1.0, 4.0)})
def fragile(similarity, positives, ignore, scale=1.0):
    \"\"\"Mean gap that refuses a scale below 0, and is no number at 0.\"\"\"
    if scale < 0:
        raise LookupError("no such scale")
    gap = similarity[~positives].mean() - similarity[positives].mean()
    return gap * scale if scale > 0 else gap * float("nan")
"""


def config(scale: float, **training: int) -> TrialConfig:
    made = tiny_config(loss="fragile", **training)
    return replace(made, loss_parameters={"scale": scale}, plugins=references("fragile", "vsepp"))


def test_of_fused_trials_the_one_that_fails_ends_and_the_others_learn_what_they_learn_alone(tmp_path: Path) -> None:
    load_plugins([str(write_plugin(tmp_path, FRAGILE))])
    scales = {"raises": -1.0, "no number": 0.0, "good": 2.0, "better": 1.0}
    trials = {name: config(scale, epochs=2) for name, scale in scales.items()}
    group = FusedTrials("cpu")
    for name, one in trials.items():
        group.add(name, one, DATA)
    outcomes = group.run_epoch(trials)
    assert isinstance(outcomes["raises"], PluginError)
    assert str(outcomes["raises"]) == "my_losses.py:8: LookupError: no such scale"
    assert str(outcomes["no number"]).endswith("epoch 1, step 1; the loss is that of my_losses.py:5")
    later = group.run_epoch(["good", "better"])
    for name in ("good", "better"):
        alone = list(run_trial(trials[name], DATA, device="cpu"))
        for fused, report in zip((outcomes[name], later[name]), alone, strict=True):
            assert isinstance(fused, EpochReport)
            assert fused.metrics["train/loss"] == pytest.approx(report.metrics["train/loss"], rel=1e-4)
            assert fused.metrics["cocos/gradient_negatives"] == report.metrics["cocos/gradient_negatives"]


KINDS = """
@loss()
def of_a_kind(similarity, positives, ignore, kind="learned"):
    \"\"\"Mean gap, with a word that is one of ours too.\"\"\"
    return similarity[~positives].mean() - similarity[positives].mean()
"""


def test_a_word_of_a_plugin_loss_may_be_learned(tmp_path: Path) -> None:
    load_plugins([str(write_plugin(tmp_path, KINDS))])
    made = replace(tiny_config(loss="of_a_kind", epochs=1), plugins=references("of_a_kind", "vsepp"))
    (report,) = run_trial(made, DATA, device="cpu")
    assert not [name for name in report.metrics if name.startswith("loss/")]


WEIGHTED = """
@loss()
def weighted(similarity, positives, ignore, weights=(1.0, 2.0)):
    \"\"\"Mean gap with a weight for each of its parts.\"\"\"
    return weights[0] * similarity[~positives].mean() - weights[1] * similarity[positives].mean()
"""


def test_fused_trials_whose_configs_come_from_json_have_parameters_of_several_numbers(tmp_path: Path) -> None:
    load_plugins([str(write_plugin(tmp_path, WEIGHTED))])
    group, losses = FusedTrials("cpu"), []
    for name, weight in (("a", 2.0), ("b", 3.0)):
        parameters = {"weights": (1.0, weight)}
        made = replace(
            tiny_config(loss="weighted"), loss_parameters=parameters, plugins=references("weighted", "vsepp")
        )
        read = TrialConfig.from_dict(json.loads(json.dumps(made.to_dict())))
        assert group.add(name, read, DATA) is None
        losses.append(next(run_trial(read, DATA, device="cpu")).metrics["train/loss"])
    outcomes = group.run_epoch("ab")
    assert [outcomes[name].metrics["train/loss"] for name in "ab"] == pytest.approx(losses, rel=1e-4)


SHARED = """
from trainables.models.vsepp import VSEPP

@model()
class Shared(VSEPP):
    def __init__(self, image_size, words, embedding_size, word_size, *, weights=(1.0, 2.0)):
        super().__init__(image_size, words, embedding_size, word_size)
        self.weights = weights
"""


def test_fused_trials_of_a_plugin_model_have_parameters_of_several_numbers_and_of_any_name(tmp_path: Path) -> None:
    load_plugins([str(write_plugin(tmp_path, SHARED))])
    group = FusedTrials("cpu")
    for name, weight in (("a", 2.0), ("b", 3.0)):
        made = replace(tiny_config(epochs=1), model="shared", model_parameters={"weights": [1.0, weight]})
        group.add(name, made, DATA)
    assert all(isinstance(outcome, EpochReport) for outcome in group.run_epoch("ab").values())


PAIRS = """
from trainables.models.scan import SCAN

@model(features="regions")
class Pairs(SCAN):
    pass
"""


def test_of_fused_trials_the_one_whose_model_keeps_no_bank_is_refused_alone(tmp_path: Path) -> None:
    load_plugins([str(write_plugin(tmp_path, PAIRS))])
    plain = replace(tiny_config(loss="warp"), model="pairs")
    data, group = suited(DATA, plain), FusedTrials("cpu")
    group.add("plain", plain, data)
    group.add("with a bank", replace(plain, training=replace(plain.training, bank=4)), data)
    outcomes = group.run_epoch(["plain", "with a bank"])
    assert isinstance(outcomes["plain"], EpochReport)
    assert isinstance(outcomes["with a bank"], ConfigError)
    assert "no bank is kept" in str(outcomes["with a bank"])


def test_an_actor_refuses_the_trial_and_takes_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_plugins([str(write_plugin(tmp_path, FRAGILE))])
    monkeypatch.setattr(TrainablesWorkload, "open_data", lambda self, config: DATA)
    made = TrialActor.__new__(TrialActor)
    workload, checkpoints = TrainablesWorkload("data", device="cpu"), FolderStore(tmp_path / "trials")
    first = {"trial": "a", "config": json.dumps(config(-1.0).to_dict())}
    made.setup(first, train=workload.train, checkpoints=checkpoints)
    assert made.step()["step"] == Step(refused="my_losses.py:8: LookupError: no such scale")
    made.reset_config({"trial": "b", "config": json.dumps(config(2.0).to_dict())})
    assert made.step()["step"].epoch == 1
    made.cleanup()


def trained(folder: Path, data: Dataset) -> Path:
    """Return the checkpoint of an epoch of the sample package's model."""
    made = replace(tiny_config(epochs=1), model="bag_of_words", plugins=references("nt_xent", "bag_of_words"))
    (report,) = run_trial(made, data, device="cpu")
    return save_epoch(folder, report)


def test_a_packed_model_of_a_plugin_runs_only_where_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(lay_out_package(tmp_path)))
    load_plugins(["icr-pair-losses"])
    packed = tmp_path / "packed"
    write_retriever(packed, trained(tmp_path / "trained", DATA), DATA, "test")
    file = packed / "plugins" / "icr-pair-losses" / "icr_pair_losses" / "model.py"
    assert file.read_text() == (tmp_path / "icr_pair_losses" / "model.py").read_text()
    answers = Retriever(packed).images_for("word1 word2", 3)
    forget("icr-pair-losses")
    with pytest.raises(CheckpointError, match=r"plug-in icr-pair-losses 1.0.0 .*: read it, then say that you trust it"):
        Retriever(packed)
    with pytest.warns(UserWarning, match="code of the plug-in icr-pair-losses 1.0.0 .*it runs now"):
        again = Retriever(packed, trust_plugins=True)
    assert again.images_for("word1 word2", 3) == answers
    forget("icr-pair-losses")
    file.write_text(file.read_text() + "\n# changed\n")
    with pytest.raises(CheckpointError, match="its text is not what its digest"):
        Retriever(packed, trust_plugins=True)


def test_the_code_of_a_loss_is_packed_and_not_needed_to_ask_the_model(tmp_path: Path) -> None:
    load_plugins([str(write_plugin(tmp_path, FRAGILE))])
    (report,) = run_trial(config(2.0, epochs=1), DATA, device="cpu")
    write_retriever(tmp_path / "packed", save_epoch(tmp_path / "trained", report), DATA, "test")
    forget("my_losses.py")
    assert (tmp_path / "packed" / "plugins" / "my_losses.py" / "my_losses.py").is_file()
    assert len(Retriever(tmp_path / "packed").images_for("word1", 2)) == 2


FORMAT = """
from trainables.data.corpus import Corpus, Image

@data_format()
class Pairs:
    FORMAT = "pairs.txt with lines of split, image and caption"

    @staticmethod
    def find(folder):
        return [folder / "pairs.txt"] if (folder / "pairs.txt").is_file() else []

    @staticmethod
    def read(files):
        images = {}
        for number, line in enumerate(files[0].read_text().splitlines(), start=1):
            split, image, caption = line.split(maxsplit=2)
            images.setdefault((split, image), []).append(caption)
        found = [Image(f"{image}", image, image, split, tuple(texts)) for (split, image), texts in images.items()]
        return Corpus(str(files[0]), found, [], [])
"""


def test_a_form_of_data_is_read_and_a_line_that_it_cannot_read_is_told(tmp_path: Path) -> None:
    from trainables.data.source import dataset_names, find_source

    (tmp_path / "shop").mkdir()
    pairs = tmp_path / "shop" / "pairs.txt"
    pairs.write_text("train a.jpg a dog\ntrain a.jpg the dog\nval b.jpg a cat\n")
    load_plugins([str(write_plugin(tmp_path, FORMAT))])
    assert dataset_names(tmp_path) == ["shop"]
    corpus = find_source("shop", tmp_path).read()
    assert [(one.split, *one.captions) for one in corpus.images] == [("train", "a dog", "the dog"), ("val", "a cat")]
    pairs.write_text("train\n")
    with pytest.raises(PluginError, match="^my_losses.py:18: ValueError: not enough values to unpack"):
        find_source("shop", tmp_path).read()


def test_a_changed_form_of_data_reads_the_same_files_anew(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "pairs.txt").write_text("train a.jpg a dog\nval b.jpg a cat\ntest c.jpg a cow\n")
    digests = []
    for change, caption, tokenizer in (
        ("caption", "a dog", "english"),
        ("caption.upper()", "A DOG", "english"),
        ("caption * 2 + 'éé'", "a doga dogéé", "words"),
    ):
        load_plugins([str(write_plugin(tmp_path, FORMAT.replace("append(caption)", f"append({change})")))])
        data = load_dataset("shop", tmp_path, features=None)
        assert (list(data.splits["train"].captions), data.vocabulary.tokenizer.name) == ([caption], tokenizer)
        digests.append(data.digest)
    assert len(set(digests)) == 3
    load_plugins([str(write_plugin(tmp_path, FORMAT + "# another comment\n"))])
    assert load_dataset("shop", tmp_path, features=None).digest == digests[0]
