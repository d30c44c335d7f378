"""Images with labels of a vocabulary: read, batched, ranked with each label once, trained on, packed and asked."""

import csv
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.support.commands import run_command as main
from trainables.checkpoint import save_epoch
from trainables.config import TrainingConfig, TrialConfig
from trainables.data.batches import Batch, ResidentSplit, epoch_batches
from trainables.data.dataset import check_modality, load_dataset
from trainables.data.tokenizers import SPECIAL
from trainables.dataset_description import describe_dataset
from trainables.errors import ConfigError, DataError
from trainables.evaluation import encode_captions, encode_images, evaluate, evaluating, rank_split, similarities
from trainables.fused import train_stacked
from trainables.losses import build_loss
from trainables.metric_values import image_values
from trainables.metrics import retrieval_metrics
from trainables.models import build_model
from trainables.ranks import Ranks, chance_rsum
from trainables.serving.packed import write_retriever
from trainables.serving.retriever import Retriever
from trainables.trial import Trial, run_trial

KINDS = [f"kind {n}" for n in range(9)]
SIZES = {"train": 40, "val": 16, "test": 12}


def drawn_labels(generator: np.random.Generator) -> list[str]:
    return sorted(generator.choice(KINDS, generator.integers(1, 4), replace=False).tolist())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A dataset whose features are the sum of a vector for each label, and noise."""
    folder, generator = tmp_path / "data" / "tags", np.random.default_rng(0)
    folder.mkdir(parents=True)
    images = [(split, drawn_labels(generator)) for split, size in SIZES.items() for _ in range(size)]
    meaning = generator.normal(size=(len(KINDS), 12))
    rows = [meaning[[KINDS.index(label) for label in labels]].sum(0) for _, labels in images]
    np.save(folder / "features_global.npy", (rows + 0.1 * generator.normal(size=(len(rows), 12))).astype(np.float32))
    with (folder / "labels.csv").open("w", newline="") as file:
        listed = [(f"{n}.jpg", "|".join(labels), split) for n, (split, labels) in enumerate(images)]
        csv.writer(file).writerows([("filename", "labels", "split"), *listed])
    return tmp_path / "data"


def config(**changes: object) -> TrialConfig:
    training = TrainingConfig(embedding_size=8, batch_size=16, epochs=12, learning_rate=0.05)
    return TrialConfig(**{"dataset": "tags", "model": "wsabie", "loss": "warp", "training": training, **changes})


def labels_of_images(root: Path, split: str) -> list[set[str]]:
    with (root / "tags" / "labels.csv").open() as file:
        return [set(row["labels"].split("|")) for row in csv.DictReader(file) if row["split"] == split]


def test_each_label_is_one_column_of_weight_one(root: Path) -> None:
    data = load_dataset("tags", root)
    assert set(data.vocabulary.words) == {*SPECIAL, *set().union(*labels_of_images(root, "train"))}
    model = build_model(config(), data)
    assert model.idf.tolist() == [0.0] * len(SPECIAL) + [1.0] * (len(data.vocabulary) - len(SPECIAL))
    train = data.splits["train"]
    shown = list(zip(train.captions, train.caption_labels.tolist(), strict=True))
    assert len(set(shown)) == len({number for _, number in shown}) == len({label for label, _ in shown})
    assert data.splits["val"].head(3).caption_labels.max() + 1 == len(set().union(*labels_of_images(root, "val")[:3]))


def drawn_batches(
    root: Path, batches: str, size: int = 8, seed: int = 0
) -> Iterator[tuple[Batch, list[set[str]], list[str]]]:
    """Yield the batches of an epoch, each with the labels of its images, and its columns by name."""
    data = load_dataset("tags", root)
    train, owned = data.splits["train"], labels_of_images(root, "train")
    training = TrainingConfig(batch_size=size, batches=batches, captions_per_image=2)
    row_of = {tuple(train.features[row].tolist()): row for row in train.image_rows.tolist()}
    split = ResidentSplit(train, torch.device("cpu"))
    for batch in epoch_batches(split, training, torch.Generator().manual_seed(seed)):
        labels = [data.vocabulary.words[token] for token in batch.tokens[:, 1].tolist()]
        yield batch, [owned[row_of[tuple(features)]] for features in batch.images.tolist()], labels


@pytest.mark.parametrize("batches", ["pairs", "images"])
def test_the_columns_are_all_labels_and_none_of_an_image_is_its_negative(root: Path, batches: str) -> None:
    """Also where the pair of an image and its label is not in the batch, and where no image brought a label."""
    owned = labels_of_images(root, "train")
    drawn, beside, of_no_image = 0, 0, 0
    for batch, of_images, labels in drawn_batches(root, batches, size=4):
        assert len(labels) == len(set(labels)) and set(labels) == set().union(*owned)
        mine = torch.tensor([[label in own for label in labels] for own in of_images])
        assert (batch.positives | batch.ignore).equal(mine) and not (batch.positives & batch.ignore).any()
        assert batch.positives.any(1).all()
        drawn, beside = drawn + int(batch.positives.sum()), beside + int(batch.ignore.sum())
        of_no_image += int((~mine.any(0)).sum())
    assert beside > 0 and of_no_image > 0
    # Each pair comes once; of images, two labels at most.
    counts = [len(labels) if batches == "pairs" else min(len(labels), 2) for labels in owned]
    assert drawn == sum(counts)


@pytest.mark.parametrize("most", [2, 5, len(KINDS)])
def test_of_a_larger_vocabulary_a_batch_has_its_labels_and_a_sample(
    root: Path, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainables.data.batches.MOST_LABELS", most)
    taken = []
    for batch, of_images, labels in drawn_batches(root, "pairs", size=4):
        drawn = batch.positives.any(0)
        assert len(set(labels)) == len(labels) == max(most, int(drawn.sum()))
        assert (batch.positives.sum(1) == 1).all()
        mine = torch.tensor([[label in own for label in labels] for own in of_images])
        assert (batch.positives | batch.ignore).equal(mine)
        taken.append(labels)
    assert taken == [labels for *_, labels in drawn_batches(root, "pairs", size=4)], "one seed, one sample"
    assert set().union(*taken) == set().union(*labels_of_images(root, "train"))


def looped(similarity: list[list[float]], pairs: list[tuple[int, int]], fits: list[list[bool]]) -> Iterator[tuple]:
    """Yield the score of each drawn pair of a query and a candidate, and those of its negatives, in their order."""
    for query, candidate in pairs:
        row = zip(similarity[query], fits[query], strict=True)
        yield similarity[query][candidate], [score for score, is_own in row if not is_own]


def looped_warp(terms: list[tuple], uniform: torch.Tensor, margin: float) -> float:
    """WARP of one direction, from the numbers it draws: negative after negative is counted, none is indexed."""
    total = 0.0
    for (own, negatives), for_draws, for_choice in zip(terms, *uniform.tolist(), strict=True):
        violators = [score for score in negatives if score > own - margin]
        if not violators:
            continue
        # The first draw n at which misses in all draws so far have a probability below the number.
        draws, missed = 1, 1 - len(violators) / len(negatives)
        while draws <= len(negatives) and missed**draws > 1 - for_draws:
            draws += 1
        if draws <= len(negatives):
            rank = len(negatives) // draws
            chosen = violators[math.floor(for_choice * len(violators))]
            total += sum(1 / j for j in range(1, rank + 1)) * max(0.0, margin - own + chosen)
    return total / len(terms)


@pytest.mark.parametrize("batches", ["pairs", "images"])
def test_losses_are_those_of_a_loop_over_images_and_all_labels(root: Path, batches: str) -> None:
    """The negatives of an image are all labels that it lacks; a label that no pair of the batch has is no query."""
    model, margin = build_model(config(), load_dataset("tags", root)), 0.5
    for batch, of_images, labels in drawn_batches(root, batches, size=6):
        scores = similarities(model, batch).detach().double()
        fits = [[label in own for label in labels] for own in of_images]
        pairs = [tuple(pair) for pair in batch.positives.nonzero().tolist()]
        i2t = list(looped(scores.tolist(), pairs, fits))
        turned = sorted((label, image) for image, label in pairs)
        t2i = list(looped(scores.T.tolist(), turned, [list(column) for column in zip(*fits, strict=True)]))
        hinges = [max(0.0, margin - own + score) for own, negatives in (*i2t, *t2i) for score in negatives]
        masks = batch.positives, batch.ignore
        assert float(build_loss("triplet", margin=margin)(scores, *masks)) == pytest.approx(sum(hinges))
        torch.manual_seed(3)
        found = float(build_loss("warp", margin=margin)(scores, *masks))
        torch.manual_seed(3)
        drawn = [torch.rand(2, len(pairs), dtype=torch.float64) for _ in range(2)]
        expected = sum(looped_warp(terms, *rest) for terms, *rest in ((i2t, drawn[0], margin), (t2i, drawn[1], margin)))
        assert found == pytest.approx(expected) and found > 0


@pytest.mark.parametrize("loss", ["warp", "nt_xent"])
def test_parts_of_a_batch_and_a_stack_train_as_the_whole(root: Path, loss: str) -> None:
    data, settings = load_dataset("tags", root), config(loss=loss)
    training = replace(settings.training, epochs=2, batches="images", captions_per_image=2)
    whole = list(run_trial(replace(settings, training=training), data, device="cpu"))
    parts = list(run_trial(replace(settings, training=replace(training, micro_batch=4)), data, device="cpu"))
    for report, of_parts in zip(whole, parts, strict=True):
        assert of_parts.metrics["train/loss"] == pytest.approx(report.metrics["train/loss"], rel=1e-4)
    trials = [Trial(replace(settings, training=training), data, torch.device("cpu")) for _ in range(2)]
    for trial in trials:
        trial.begin_epoch()
    assert train_stacked(trials) == pytest.approx([whole[0].metrics["train/loss"]] * 2, rel=1e-4)


def test_ranks_are_those_of_the_matrix_of_images_and_labels(root: Path) -> None:
    data = load_dataset("tags", root)
    val, owned = data.splits["val"], labels_of_images(root, "val")
    model, resident = build_model(config(), data), ResidentSplit(data.splits["val"], torch.device("cpu"))
    names = [val.captions[place] for place in resident.candidates().tolist()]
    assert sorted(names) == sorted(set().union(*owned))
    with evaluating(model):
        scores = model.scores(encode_images(model, resident), encode_captions(model, resident))
        ranked = rank_split(val, scores)
    similarity = scores.between(torch.arange(len(owned)), torch.arange(len(names)))
    # An oracle by counting: of an image its other labels are no negatives, of a label its other images.
    for place, (image, label) in enumerate(zip(val.image_of_caption.tolist(), val.captions, strict=True)):
        own = similarity[image, names.index(label)]
        harder = [s for s, name in zip(similarity[image], names, strict=True) if name not in owned[image] and s >= own]
        assert ranked.ranks.i2t[place] == 1 + len(harder)
        column = similarity[:, names.index(label)]
        others = [s for s, labels in zip(column, owned, strict=True) if label not in labels and s >= own]
        assert ranked.ranks.t2i[place] == 1 + len(others)
    positives = torch.tensor([[name in labels for name in names] for labels in owned])
    whole = {name: value for name, value in retrieval_metrics(similarity, positives).items() if name.startswith("i2t")}
    assert {name: ranked.metrics[name] for name in whole} == pytest.approx(whole)
    assert evaluate(model, resident) == ranked.metrics
    best = similarity.topk(5).indices
    precision = float(positives.gather(1, best).double().mean()) * 100
    assert ranked.metrics["i2t_p5"] == pytest.approx(precision)
    assert image_values(ranked.ranks, "i2t_p5").mean() == pytest.approx(precision)
    assert Ranks.from_text(ranked.ranks.to_text()).chance == ranked.ranks.chance


def test_chance_is_what_random_scores_reach(root: Path) -> None:
    val = load_dataset("tags", root).splits["val"]
    resident, generator = ResidentSplit(val, torch.device("cpu")), torch.Generator().manual_seed(0)
    columns = len(resident.candidates())

    class Random:
        tolerance, device = 0.0, torch.device("cpu")

        def __init__(self) -> None:
            self.numbers = torch.rand(len(val.image_rows), columns, generator=generator)

        def between(self, images: torch.Tensor, captions: torch.Tensor) -> torch.Tensor:
            return self.numbers[images][:, captions]

    found = [rank_split(val, Random()).metrics["rsum"] for _ in range(300)]
    wanted = chance_rsum(val.image_of_caption, None, val.caption_labels)
    assert np.mean(found) == pytest.approx(wanted, abs=4 * np.std(found) / 300**0.5)


@pytest.mark.parametrize("loss", ["warp", "triplet_sh", "nt_xent", "smooth_ap", "sigmoid"])
def test_a_training_finds_the_labels(root: Path, loss: str) -> None:
    data, settings = load_dataset("tags", root), config(loss=loss, metric="val/i2t_p5")
    reports = list(run_trial(settings, data, device="cpu"))
    owned = labels_of_images(root, "val")
    best = 100 * float(np.mean([min(len(labels), 5) / 5 for labels in owned]))
    assert best >= reports[-1].metrics["val/i2t_p5"] > 0.85 * best


def test_a_packed_model_is_asked_for_labels_and_by_a_label(root: Path, tmp_path: Path) -> None:
    data = load_dataset("tags", root)
    *_, report = run_trial(config(), data, device="cpu")
    write_retriever(tmp_path / "packed", save_epoch(tmp_path / "trial", report), data, "test")
    retriever, owned = Retriever(tmp_path / "packed"), labels_of_images(root, "test")
    answers = retriever.captions_for("56.jpg", len(KINDS))
    assert len({answer.caption for answer in answers}) == len(answers) == len(set().union(*owned))
    assert answers[0].caption in owned[0] and answers[0].image == ""
    label = answers[0].caption.upper()
    first = retriever.images_for(label, 1)[0].filename
    assert label.lower() in owned[int(first.removesuffix(".jpg")) - 56]


BAD = {
    "empty": ("kind 1||kind 2", "line 2: an empty label in 'kind 1||kind 2'"),
    "blank": ("", "line 2: an empty label in ''"),
    "twice": ("kind 1|Kind 1", "line 2: the label 'kind 1' is there twice"),
    "columns": ("kind 1,kind 2", "line 2: must have 3 columns, got 4"),
    "text": ("\ud83d", "line 2: not UTF-8 text"),
}


@pytest.mark.parametrize(("labels", "problem"), BAD.values(), ids=BAD)
def test_bad_labels_are_named_with_their_line(root: Path, labels: str, problem: str) -> None:
    file = root / "tags" / "labels.csv"
    header, first, *rest = file.read_text().splitlines()
    name, _, split = first.split(",")
    text = "\n".join([header, f"{name},{labels},{split}", *rest])
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    assert problem in " ".join(describe_dataset("tags", root).problems)
    with pytest.raises(DataError, match="labels.csv"):
        load_dataset("tags", root)


def test_a_bank_folds_and_judgements_of_labels_are_refused(root: Path, capsys: pytest.CaptureFixture) -> None:
    data = load_dataset("tags", root)
    with pytest.raises(ConfigError, match="warp.bank: a batch of tags has the labels of train as candidates already"):
        check_modality(config(loss_parameters={"bank": 64}), data)
    place = ["--data-root", str(root)]
    train = ["train", "--set", "dataset=tags", "--set", "model=wsabie", "--set", "loss=warp", "--name", "one"]
    small = ["--set", "training.batch_size=16", "--set", "training.epochs=1", "--set", "training.embedding_size=4"]
    output = ["--output", str(root / "runs")]
    assert main([*train, *small, *place, *output]) == 0
    checkpoint = str(root / "runs" / "train" / "one")
    capsys.readouterr()
    assert main(["evaluate", checkpoint, "--split", "test", "--folds", "2", *place]) == 2
    assert "--folds: an image of tags may have its class in another fold" in capsys.readouterr().err
    assert main(["evaluate", checkpoint, "--split", "test", "--json", *place]) == 0
    answer = json.loads(capsys.readouterr().out)
    test = data.splits["test"]
    assert answer["chance_rsum"] == pytest.approx(chance_rsum(test.image_of_caption, None, test.caption_labels))
    assert main(["cocos", checkpoint, *place]) == 0


def test_labels_are_described_in_their_own_words(root: Path) -> None:
    file = root / "tags" / "labels.csv"
    lines = file.read_text().splitlines()
    lines[-1] = lines[-1].replace(lines[-1].split(",")[1], "unseen")
    file.write_text("\n".join(lines))
    description = describe_dataset("tags", root)
    assert not description.problems and description.tokenizer_reason == "inferred: a caption is a label"
    assert any("of the labels of test are of no train image" in warning for warning in description.warnings)
    assert not description.ceilings
