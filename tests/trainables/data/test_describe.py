import json
from collections.abc import Callable

import numpy as np

from tests.trainables.data.folders import KarpathyFolder
from trainables.data.dataset import load_dataset
from trainables.dataset_description import describe


def test_counts(karpathy_folder: KarpathyFolder) -> None:
    told = describe("tiny", karpathy_folder.root)
    assert told.problems == []
    train = told.splits["train"]
    assert (train.images, train.captions, train.captions_per_image, train.image_files) == (3, 6, (2, 2), 0)
    # "a dog number one runs ." and "the dog 's one"; of these ten tokens "dog" alone is in the vocabulary.
    assert train.caption_lengths == {"min": 4, "median": 5, "mean": 5, "max": 6}
    assert train.unknown_tokens == 0.8
    assert told.vocabulary == 5
    assert told.features["regions"]["val"] == {"file": "features_regions.npy", "shape": [6, 2, 3], "dtype": "float32"}
    assert told.digest["global"] == load_dataset("tiny", karpathy_folder.root).digest
    assert told.digest["regions"] == load_dataset("tiny", karpathy_folder.root, features="regions").digest
    assert json.loads(json.dumps(told.to_dict()))["splits"]["test"]["images"] == 2


def test_without_features(karpathy_folder: KarpathyFolder) -> None:
    for path in karpathy_folder.folder.glob("*.npy"):
        path.unlink()
    told = describe("tiny", karpathy_folder.root)
    assert (told.problems, told.features, list(told.digest)) == ([], {}, ["none"])


def test_problems_of_all_features(karpathy_folder: KarpathyFolder) -> None:
    np.save(karpathy_folder.folder / "features_global.npy", np.ones((3, 2), np.float32))
    np.save(karpathy_folder.folder / "features_other.npy", np.full((6, 2), np.nan, np.float32))
    told = describe("tiny", karpathy_folder.root)
    assert len(told.problems) == 2
    assert "features_other.npy: 6 rows hold NaN or infinity" in told.problems[0]
    assert "features_global.npy: 3 feature rows for 6 images" in told.problems[1]
    assert told.splits["train"].images == 3


def test_missing_and_broken_pictures(karpathy_folder: KarpathyFolder, write_pictures: Callable[..., None]) -> None:
    images = karpathy_folder.folder / "images"
    write_pictures(images, ["picture0.jpg", "picture1.jpg", "picture3.jpg"])
    (images / "picture1.jpg").write_bytes((images / "picture1.jpg").read_bytes()[:300])
    told = describe("tiny", karpathy_folder.root)
    # A split without any picture is one whose features stand for them.
    assert [problem.split(": ", 1)[1] for problem in told.problems] == [
        "images[2]: image 'picture2.jpg' is missing; 2 others of train are there"
    ]
    assert told.splits["val"].image_files == 1
    broken = describe("tiny", karpathy_folder.root, decode_images=True).problems
    assert len(broken) == 2
    assert broken[1].startswith(f"{images / 'picture1.jpg'}: cannot be decoded: ")
