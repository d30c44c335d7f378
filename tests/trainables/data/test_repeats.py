"""Pictures and captions that are there several times: what is said, the ceiling of R@1, and what training ignores."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from trainables.cocos import count_contributions
from trainables.config import TrainingConfig
from trainables.data.batches import Batch, ResidentSplit, epoch_batches
from trainables.data.dataset import load_dataset, members_of
from trainables.data.repeats import Members, hash_rows
from trainables.dataset_description import describe_dataset
from trainables.losses import build_loss
from trainables.metrics import retrieval_metrics

SPLIT = ["train"] * 8 + ["val"] * 4 + ["test"] * 4


def write_dataset(folder: Path, captions: list[list[str]], same: dict[int, int] = {}, **files: Any) -> Path:  # noqa: B006
    """Write sixteen images with their captions; image ``i`` has the features of image ``same[i]``."""
    folder.mkdir(parents=True)
    images = [
        {"filename": f"p{number}.png", "split": split, "sentences": [{"raw": text} for text in texts]}
        for number, (split, texts) in enumerate(zip(SPLIT, captions, strict=True))
    ]
    (folder / "dataset_own.json").write_text(json.dumps({"images": images}))
    rows = np.random.default_rng(0).normal(size=(16, 5)).astype(np.float32)
    for image, other in same.items():
        rows[image] = rows[other]
    if files.get("features", True):
        np.save(folder / "features_global.npy", rows)
    return folder


def unique(number: int) -> list[str]:
    return [f"picture {number} a", f"picture {number} b"]


def described(folder: Path) -> tuple[list[str], list[str]]:
    description = describe_dataset(folder.name, folder.parent)
    assert description.problems == []
    return description.warnings, description.notes


def test_the_same_picture_in_two_splits_is_a_warning(tmp_path: Path) -> None:
    """It was 'no problems found'."""
    folder = write_dataset(tmp_path / "own", [unique(n) for n in range(16)], {12: 0, 13: 1, 9: 2})
    warnings, _ = described(folder)
    assert [warning.partition(", bit for bit")[0] for warning in warnings if "bit for bit" in warning] == [
        "1 of 4 val images have the features of train images",
        "2 of 4 test images have the features of train images",
    ]


def test_equal_files_are_found_where_there_are_no_features(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path / "own", [unique(n) for n in range(16)], features=False)
    for number in range(16):
        Image.new("RGB", (8, 8), (number if number < 15 else 0, 0, 0)).save(folder / f"p{number}.png")
    warnings, _ = described(folder)
    assert warnings[0].startswith("1 of 4 test images have the files of train images, bit for bit")


def test_shared_captions_have_a_ceiling(tmp_path: Path) -> None:
    captions = [unique(n) for n in range(16)]
    captions[12], captions[13] = ["Many trees.", "a dog"], ["many trees .", "MANY trees."]
    folder = write_dataset(tmp_path / "own", captions)
    warnings, _ = described(folder)
    # Of eight captions three are equal, two of them of one image; that image has no caption of its own.
    (warning,) = [warning for warning in warnings if "R@1" in warning]
    assert warning.startswith(
        "test: 3 of 8 captions are those of several images; R@1 is at most 75.0 from image to text"
    )
    assert warning.endswith("and 87.5 from text to image")
    assert describe_dataset("own", tmp_path).ceilings["val"] == {"i2t_r1": 100.0, "t2i_r1": 100.0}


def test_a_search_repeats_it(tmp_path: Path) -> None:
    from orchestrator.searches.begin import make_experiment
    from orchestrator.workload.training import TrainablesWorkload

    write_dataset(tmp_path / "own", [unique(n) for n in range(16)], {12: 0})
    experiment = make_experiment({"name": "e", "datasets": ["own"], "models": ["vsepp"], "losses": ["nt_xent"]})
    caveats = TrainablesWorkload(str(tmp_path)).data_caveats(experiment)["own"]
    assert caveats[0].startswith("own: 1 of 4 test images have the features of train images, bit for bit")


GROUPS = st.integers(1, 6).flatmap(
    lambda images: st.tuples(
        st.lists(st.integers(0, 2), min_size=images, max_size=images),
        st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=3), min_size=images, max_size=images),
        st.integers(0, 2**32 - 1),
    )
)


@given(GROUPS)
def test_no_scores_reach_more_than_the_ceiling(drawn: tuple[list[int], list[list[int]], int]) -> None:
    image_groups, captions, seed = drawn
    owners = np.repeat(np.arange(len(captions)), [len(texts) for texts in captions])
    caption_groups = np.concatenate([np.array(texts) for texts in captions])
    ceilings = Members(np.array(image_groups), caption_groups, owners).ceilings()
    random = np.random.default_rng(seed)
    positives = torch.from_numpy(np.arange(len(captions))[:, None] == owners)
    for _ in range(5):
        scores = random.normal(size=(3, 5)) + 2 * positives.numpy().mean()
        metrics = retrieval_metrics(torch.from_numpy(scores[np.array(image_groups)][:, caption_groups]), positives)
        assert all(metrics[name] <= ceiling + 1e-9 for name, ceiling in ceilings.items())


def test_the_ceiling_is_reached_by_the_best_scores() -> None:
    """Two captions of image 0 equal one of image 1; images 2 and 3 are equal."""
    members = Members(np.array([0, 1, 2, 2]), np.array([7, 7, 8, 7, 9, 1, 2]), np.array([0, 0, 0, 1, 1, 2, 3]))
    assert members.ceilings() == {"i2t_r1": 75.0, "t2i_r1": pytest.approx(100 * 4 / 7)}
    # In the order of images 0, 1 and both others, and captions 7, 8, 9, 1, 2.
    scores = torch.tensor([[1.0, 2, 0, 0, 0], [0.5, 0, 2, 0, 0], [0, 0, 0, 2, 1]])
    similarity = scores[members.image_groups][:, [0, 0, 1, 0, 2, 3, 4]]
    positives = torch.arange(4)[:, None] == torch.from_numpy(members.image_of_caption)
    metrics = retrieval_metrics(similarity, positives)
    assert {name: metrics[name] for name in members.ceilings()} == pytest.approx(members.ceilings())


def batches_of(folder: Path, **settings: Any) -> list[Batch]:
    split = ResidentSplit(load_dataset(folder.name, folder.parent).splits["train"], torch.device("cpu"))
    training = TrainingConfig(batch_size=16 if settings.get("batches") != "images" else 8, **settings)
    return list(epoch_batches(split, training, torch.Generator().manual_seed(0)))


def with_repeats(folder: Path) -> Path:
    captions = [unique(n) for n in range(16)]
    captions[1] = ["many trees", "one dog"]
    captions[2] = ["Many trees", "two dogs"]
    return write_dataset(folder, captions, {4: 3})


@pytest.mark.parametrize("batches", ["pairs", "images"])
def test_equal_captions_and_images_are_no_negatives_of_each_other(tmp_path: Path, batches: str) -> None:
    folder = with_repeats(tmp_path / "own")
    (batch,) = batches_of(folder, batches=batches)
    members = members_of(load_dataset("own", tmp_path).splits["train"])
    assert batch.ignore is not None
    fits = batch.positives | batch.ignore
    # Images 1 and 2 share a caption; 3 and 4 are equal.
    shared = members.is_shared.nonzero()[0].tolist()
    assert shared == [2, 4]
    per_image = 1 if batches == "images" else 2
    # Of eight images six fit two captions, and in addition 1 and 2 the other's shared one, 3 and 4 both of the other.
    assert int(fits.sum()) == per_image * (8 * 2 + 2 * 1 + 2 * 2)
    (plain,) = batches_of(folder, batches=batches, duplicates="negatives")
    assert plain.ignore is None or not plain.ignore.any()


def test_cocos_leaves_equal_captions_out(tmp_path: Path) -> None:
    (batch,) = batches_of(with_repeats(tmp_path / "own"))
    (plain,) = batches_of(tmp_path / "own", duplicates="negatives")
    similarity = torch.zeros(batch.positives.shape)
    loss = build_loss("triplet", margin=0.2)
    counted = [
        float(count_contributions(loss, similarity, part.positives, part.ignore)["i2t_negatives_per_query"].mean())
        for part in (batch, plain)
    ]
    assert batch.ignore is not None
    assert counted[1] - counted[0] == pytest.approx(float(batch.ignore.sum()) / 16)


def test_good_data_need_no_mask(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path / "own", [unique(n) for n in range(16)])
    (batch,) = batches_of(folder, batches="images")
    assert batch.ignore is None
    assert described(folder)[1] == []


def test_rows_are_equal_where_their_bytes_are(tmp_path: Path) -> None:
    rows = np.random.default_rng(1).normal(size=(50, 3, 7)).astype(np.float16)
    rows[[10, 20]] = rows[5]
    rows[30] = rows[5]
    rows[30, 2, 6] += 1
    np.save(tmp_path / "features_regions.npy", rows)
    hashes = hash_rows(tmp_path / "features_regions.npy")
    assert len(np.unique(hashes)) == 48 and hashes[5] == hashes[10] == hashes[20] != hashes[30]


def test_rows_in_another_order_show_in_the_zero_shot_rsum(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path / "own", [[f"picture {n} a"] for n in range(16)])
    rows = np.load(folder / "features_global.npy")
    np.save(folder / "features_text.npy", rows)
    assert describe_dataset("own", tmp_path).zero_shot == 600
    np.save(folder / "features_text.npy", rows[::-1].copy())
    assert (describe_dataset("own", tmp_path).zero_shot or 0) < 600
    np.save(folder / "features_text.npy", rows[:, :3].copy())
    assert describe_dataset("own", tmp_path).zero_shot is None
