"""``orchestrator judge``: another rule, and models from elsewhere beside the confirmed candidates."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.commands import CommandLine
from tests.support.experiments import add_repeats, add_trial, begun, make_experiment
from tests.support.ranked import metrics_of
from tests.support.records import append
from tests.trainables.judgements.folders import write_flickr
from trainables.data.dataset import Split, load_dataset
from trainables.positive_ranks import rank_positives, rank_similarity
from trainables.ranks import Ranks, write_ranks


@pytest.fixture
def confirmed(here: Path, request: pytest.FixtureRequest) -> dict[str, Split]:
    write_flickr(here / "data")
    splits = dict(load_dataset("small", here / "data", features=None).splits)
    confirm = {"top": 1, "seeds": 3, **getattr(request, "param", {})}
    experiment = make_experiment(datasets=["small"], confirm=confirm)
    with begun(here / "runs" / "tiny", experiment) as ledger:
        losses = {"nt_xent": 300.0, "triplet_sh": 200.0}
        trials = [add_trial(ledger, [value], loss=loss, dataset="small") for loss, value in losses.items()]
        repeats = add_repeats(ledger, [(trial, [trial.best_value] * 3) for trial in trials])
        append(ledger, "test_opened", dataset="small", trials=[one.id for one in repeats])
        for number, repeat in enumerate(repeats):
            ranks = ranks_of(splits["test"], number, "test")
            append(ledger, "test_evaluated", trial=repeat.id, metrics=metrics_of(ranks), ranks=ranks.to_text())
    return splits


def ranks_of(split: Split, seed: int, name: str) -> Ranks:
    drawn = np.random.default_rng(seed).integers(1, 4, (2, len(split.captions)), dtype=np.int32)
    return Ranks(drawn[0], drawn[1], split.image_of_caption.astype(np.int32), split.queries_digest(), name)


def vectors_of(split: Split, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    images = rng.standard_normal((len(split.image_rows), 5))
    images /= np.linalg.norm(images, axis=1, keepdims=True)
    return images, images[split.image_of_caption] + 0.1 * rng.standard_normal((len(split.captions), 5))


def write_outside(folder: Path, splits: dict[str, Split], form: str, seed: int = 0) -> str:
    """Write what one model says in one of the three forms; return the folder's path."""
    folder.mkdir()
    for name in ("val", "test"):
        images, captions = vectors_of(splits[name], seed)
        if form == "embeddings":
            np.save(folder / f"{name}_images.npy", images)
            np.save(folder / f"{name}_captions.npy", captions)
        elif form == "similarities":
            np.save(folder / f"{name}_similarity.npy", images @ captions.T)
        else:
            owners = torch.from_numpy(splits[name].image_of_caption.astype(np.int64))
            found = rank_positives(torch.from_numpy(images), torch.from_numpy(captions), owners)
            i2t, t2i = (one.numpy().astype(np.int32) for one in found)
            digest = splits[name].queries_digest()
            write_ranks(folder / f"ranks_{name}.npz", Ranks(i2t, t2i, owners.numpy().astype(np.int32), digest, name))
    return str(folder)


@pytest.mark.usefixtures("confirmed")
def test_the_rule_is_the_experiments_or_the_one_that_is_asked_for(cli: CommandLine) -> None:
    plain = cli.json("judge", "tiny")
    assert (plain["decided_by"], plain["answers"][0]["key"]) == ("seeds_and_images", "setting")
    assert cli.json("judge", "tiny", "--verdict", "seeds")["decided_by"] == "seeds"
    out = cli.shows("judge", "tiny", "--verdict", "seeds")
    assert "The test that decides varies seeds." in out and "small · Which setting?" in out


@pytest.mark.parametrize(
    ("confirmed", "question"),
    [({}, "Better than the published settings?"), ({"baseline": "triplet_sh"}, "Better than the baseline?")],
    indirect=["confirmed"],
)
@pytest.mark.usefixtures("confirmed")
def test_a_baseline_that_the_experiment_names_is_not_called_the_published_settings(
    cli: CommandLine, question: str
) -> None:
    answers = cli.json("judge", "tiny")["answers"]
    assert [answer["question"] for answer in answers if answer["key"] == "published"] == [question]


@pytest.mark.parametrize("form", ["embeddings", "similarities", "ranks"])
def test_a_model_without_seeds_is_a_candidate_in_every_form(
    confirmed: dict[str, Split], tmp_path: Path, cli: CommandLine, form: str
) -> None:
    folder = write_outside(tmp_path / "cca", confirmed, form)
    before = (tmp_path / "runs" / "tiny" / "journal.jsonl").read_bytes()
    found = cli.json("judge", "tiny", "--candidate", f"cca={folder}")
    standing = next(one for one in found["standings"] if one["label"] == "cca")
    # Every query's own item is by far the nearest.
    assert standing["result"]["mean"] == 600.0
    assert (found["winner"], standing["model"], standing["seeds"]) == ("cca", "outside", [0])
    assert (tmp_path / "runs" / "tiny" / "journal.jsonl").read_bytes() == before


def test_a_repeated_label_has_a_seed_a_folder(confirmed: dict[str, Split], tmp_path: Path, cli: CommandLine) -> None:
    folders = [write_outside(tmp_path / f"run{seed}", confirmed, "embeddings", seed) for seed in range(3)]
    arguments = ["judge", "tiny", *(part for folder in folders for part in ("--candidate", f"mine={folder}"))]
    standing = next(one for one in cli.json(*arguments)["standings"] if one["label"] == "mine")
    assert standing["seeds"] == [0, 1, 2]
    assert "outside mine default 3 600.0 ± 0.0" in " ".join(cli.shows(*arguments).split())


@pytest.mark.parametrize("seeds", [2, 5])
def test_models_from_elsewhere_have_their_own_number_of_seeds(
    confirmed: dict[str, Split], tmp_path: Path, cli: CommandLine, seeds: int
) -> None:
    folders = [write_outside(tmp_path / f"run{seed}", confirmed, "embeddings", seed) for seed in range(seeds)]
    arguments = ["judge", "tiny", *(part for folder in folders for part in ("--candidate", f"mine={folder}"))]
    assert not [warning for warning in cli.json(*arguments)["warnings"] if "not run" in warning]


@pytest.mark.parametrize(
    ("candidate", "message"),
    [
        ("cca", "must be LABEL=FOLDER"),
        ("cca=nowhere", "no such folder"),
        ("nt_xent=mine", "take another"),
        ("cca=empty", "holds nothing about val"),
        ("cca=short", "must have the shape 1 x any of the split, got (3, 5)"),
        ("cca=text", "must hold floating-point numbers"),
        ("cca=broken", "holds no array, or is damaged"),
        ("cca=others", "answers other queries than the test split"),
        ("cca=swapped", "holds ranks of test, not of val"),
    ],
)
def test_what_is_no_candidate_is_refused_with_the_place(
    confirmed: dict[str, Split], tmp_path: Path, cli: CommandLine, candidate: str, message: str
) -> None:
    write_outside(tmp_path / "mine", confirmed, "embeddings")
    (tmp_path / "empty").mkdir()
    for name in ("short", "text", "broken"):
        write_outside(tmp_path / name, confirmed, "embeddings")
    np.save(tmp_path / "short" / "val_images.npy", np.ones((3, 5)))
    np.save(tmp_path / "text" / "val_images.npy", np.array([["a", "b"]]))
    (tmp_path / "broken" / "val_images.npy").write_bytes(b"no array")
    for name in ("others", "swapped"):
        write_outside(tmp_path / name, confirmed, "ranks")
    write_ranks(tmp_path / "others" / "ranks_test.npz", ranks_of(confirmed["val"], 0, "test"))
    write_ranks(tmp_path / "swapped" / "ranks_val.npz", ranks_of(confirmed["test"], 0, "test"))
    code, out, err = cli.run("judge", "tiny", "--candidate", candidate)
    assert (code, out) == (2, "")
    assert message in err and "Traceback" not in err


def test_an_option_of_tables_is_refused_of_an_experiment(confirmed: dict[str, Split], cli: CommandLine) -> None:
    for option in (["--metric", "rsum"], ["--baseline", "nt_xent"], ["--looks", "2"], ["--lower-is-better"]):
        assert "takes no option of tables" in cli.refuses("judge", "tiny", *option)


def test_a_search_that_was_not_confirmed_is_refused_with_the_way_out(here: Path, cli: CommandLine) -> None:
    with begun(here / "runs" / "tiny") as ledger:
        add_trial(ledger, [1.0])
    assert "`orchestrator confirm tiny`" in cli.refuses("judge", "tiny")


@settings(max_examples=30)
@given(images=st.integers(1, 15), each=st.integers(1, 4), seed=st.integers(0, 99), whole=st.booleans())
def test_ranks_of_similarities_are_those_of_their_embeddings(images: int, each: int, seed: int, whole: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    left, right = torch.randn(images, 4, generator=generator), torch.randn(images * each, 4, generator=generator)
    if whole:
        # Whole numbers are often tied.
        left, right = left.round(), right.round()
    owner = torch.arange(images).repeat_interleave(each)
    found = rank_similarity(left.double() @ right.double().T, owner)
    for mine, theirs in zip(found, rank_positives(left, right, owner), strict=True):
        assert mine.tolist() == theirs.tolist()
