"""``orchestrator evaluate`` of files: embeddings, similarities, two models, lengths, folds and choices."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from tests.support.commands import CommandLine
from tests.trainables.judgements.folders import write_flickr
from trainables.metrics import embedding_metrics, retrieval_metrics

IMAGES, EACH = 60, 3


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def line(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """A dataset of sixty test images with three captions each, of one to nine words, and two models of it."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "data" / "made"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    images = [
        {
            "filename": f"{place}.jpg",
            "imgid": place,
            "split": "test" if place < IMAGES else ("val" if place % 2 else "train"),
            "sentences": [
                {"raw": " ".join(["word"] * int(rng.integers(1, 10)) + [f"n{place} {n}"])} for n in range(EACH)
            ],
        }
        for place in range(IMAGES + 8)
    ]
    (folder / "dataset_made.json").write_text(json.dumps({"images": images}))
    vectors = rng.normal(size=(IMAGES, 16))
    for name, noise in {"a": 1.5, "b": 3.0}.items():
        Path(name).mkdir()
        captions = vectors.repeat(EACH, 0) + noise * rng.normal(size=(IMAGES * EACH, 16))
        np.save(f"{name}/images.npy", vectors)
        np.save(f"{name}/captions.npy", captions)
        np.save(f"{name}/similarity.npy", vectors @ captions.T)
    return CommandLine(capsys)


def pair(name: str) -> list[str]:
    return [f"{name}/images.npy", f"{name}/captions.npy"]


def numbers(answers: list[dict]) -> dict[str, float]:  # type: ignore[type-arg]
    return dict(answers[0]["numbers"])


def owners() -> torch.Tensor:
    return torch.arange(IMAGES).repeat_interleave(EACH)


def test_metrics_are_those_of_the_matrix_with_an_interval_over_images(line: CommandLine) -> None:
    found = numbers(line.json("evaluate", *pair("a"), "--dataset", "made")["answers"])
    similarity = np.load("a/similarity.npy")
    expected = retrieval_metrics(torch.from_numpy(similarity), owners() == torch.arange(IMAGES)[:, None])
    names = ["rsum", "i2t_r1", "t2i_r5", "i2t_map5", "t2i_map5"]
    assert {name: found[name] for name in names} == pytest.approx({name: expected[name] for name in names})
    # mAP@R by hand: the positives among the first three of each image.
    precisions = []
    for image, row in enumerate(similarity):
        hits = np.argsort(-row)[:EACH] // EACH == image
        precisions.append(sum(hits[: r + 1].mean() for r in range(EACH) if hits[r]) / EACH)
    assert found["i2t_map_r"] == pytest.approx(np.mean(precisions))
    assert found["t2i_map_r"] == pytest.approx(found["t2i_r1"] / 100)
    assert numbers(line.json("evaluate", "a/similarity.npy", "--dataset", "made")["answers"]) == found
    said = line.json("evaluate", *pair("a"), "--dataset", "made", "--metric", "i2t_r1")["answers"][0]
    hits = np.array([row.argmax() // EACH == image for image, row in enumerate(similarity)]) * 100.0
    low, high = stats.t.interval(0.95, IMAGES - 1, hits.mean(), stats.sem(hits))
    (cell,) = [row["first"] for row in said["table"]["rows"] if row["metric"] == "i2t R@1"]
    assert (cell["low"], cell["high"]) == pytest.approx((low, high))


def test_a_second_model_gets_a_paired_verdict_over_the_same_images(line: CommandLine) -> None:
    against = [word for file in pair("b") for word in ("--against", file)]
    said = line.json("evaluate", *pair("a"), *against, "--dataset", "made", "--metric", "i2t_r1")["answers"][0]
    hits = [
        np.array([row.argmax() // EACH == image for image, row in enumerate(np.load(f"{name}/similarity.npy"))]) * 100.0
        for name in "ab"
    ]
    expected = stats.ttest_rel(*hits)
    assert said["numbers"]["p"] == pytest.approx(expected.pvalue)
    assert said["numbers"]["difference"] == pytest.approx(hits[0].mean() - hits[1].mean())
    assert said["verdict"] == "better" and said["headline"].startswith("a beats b by ")
    turned = line.json("evaluate", *pair("b"), "--against", "a/similarity.npy", "--dataset", "made")["answers"][0]
    assert turned["verdict"] == "worse" and turned["headline"].startswith("b is worse than a: −")
    same = line.json("evaluate", *pair("a"), "--against", "a/similarity.npy", "--dataset", "made")["answers"][0]
    assert same["verdict"] == "tie" and same["numbers"]["difference"] == 0


def test_folds_are_ranked_alone_and_averaged(line: CommandLine) -> None:
    sides = [torch.from_numpy(np.load(file)) for file in pair("a")]
    expected = embedding_metrics(sides[0], sides[1], owners(), folds=5)
    for files in (pair("a"), ["a/similarity.npy"]):
        found = numbers(line.json("evaluate", *files, "--dataset", "made", "--folds", 5)["answers"])
        assert found["rsum"] == pytest.approx(expected["rsum"]) and found["t2i_map5"] == pytest.approx(
            expected["t2i_map5"]
        )
    assert "must divide the 60 images" in line.refuses("evaluate", *pair("a"), "--dataset", "made", "--folds", 7)


def test_recalls_by_length_and_of_captions_that_are_cut(line: CommandLine) -> None:
    line.shows("evaluate", "--dataset", "made", "--captions-to", "texts")
    captions = Path("texts/captions.txt").read_text().splitlines()
    assert len(captions) == IMAGES * EACH and Path("texts/images.txt").read_text().splitlines()[0] == "0.jpg"
    assert Path("texts/captions_5.txt").read_text().splitlines() == [" ".join(text.split()[:5]) for text in captions]
    assert "exists" in line.refuses("evaluate", "--dataset", "made", "--captions-to", "texts")
    cut = ["--cut", "5=b/captions.npy", "--cut", "10=a/captions.npy"]
    answers = line.json("evaluate", *pair("a"), "--dataset", "made", "--by-length", *cut)["answers"]
    by_key = {answer["key"]: answer for answer in answers}
    first = np.load("a/similarity.npy").argmax(0) == np.arange(IMAGES).repeat(EACH)
    lengths = np.array([len(text.split()) for text in captions])
    rows = by_key["lengths"]["table"]["rows"]
    assert sum(row["captions"] for row in rows) == len(captions)
    for row in rows:
        low, _, high = row["words"].partition(" to ")
        inside = (lengths >= int(low)) & (lengths <= int(high or low))
        assert row["captions"] == inside.sum() and row["a_t2i_r1"]["value"] == pytest.approx(100 * first[inside].mean())
        assert row["a_t2i_r1"]["low"] <= row["a_t2i_r1"]["value"] <= row["a_t2i_r1"]["high"]
    rows = by_key["cut"]["table"]["rows"]
    assert [row["words"] for row in rows] == ["5", "10", "all"]
    assert rows[1]["a_rsum"] == rows[2]["a_rsum"] and rows[0]["a_difference"]["high"] < 0


def test_choices_are_counted_over_images(line: CommandLine) -> None:
    rng = np.random.default_rng(1)
    images, right = rng.normal(size=(2, 90, 8))
    wrong = right.copy()
    wrong[:60] -= images[:60]
    wrong[60:80] += images[60:80]
    for name, array in {"i": images, "r": right, "w": wrong}.items():
        np.save(f"{name}.npy", array)
    np.save("scores.npy", np.stack([np.ones(90), np.r_[np.zeros(30), 2 * np.ones(60)]], 1))
    Path("q.json").write_text(json.dumps({str(n): {"filename": f"{n // 3}.jpg"} for n in range(90)}))
    files = ("evaluate", "i.npy", "r.npy", "w.npy", "--choices")
    said = line.json(*files)["answers"][0]
    # Sixty right, twenty wrong, ten ties, which are wrong.
    assert said["numbers"]["accuracy"] == pytest.approx(100 * 60 / 90)
    said = line.json(*files, "--questions", "q.json")["answers"][0]
    by_image = np.r_[np.full(20, 100.0), np.zeros(10)]
    low, high = stats.t.interval(0.95, 29, by_image.mean(), stats.sem(by_image))
    cell = said["table"]["rows"][0]["first"]
    assert (cell["low"], cell["high"]) == pytest.approx((low, high))
    assert "takes three files" in line.refuses(*files, "--against", "scores.npy")
    np.save("other.npy", np.load("scores.npy")[:, ::-1])
    said = line.json("evaluate", "other.npy", "--choices", "--against", "scores.npy")["answers"][0]
    assert said["verdict"] == "better" and "90 questions" in said["notes"][0]
    np.save("few.npy", np.ones((5, 2)))
    assert "has 90 questions" in line.refuses("evaluate", "few.npy", "--choices", "--questions", "q.json")


def test_judgements_beside_the_dataset_are_used(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write_flickr(tmp_path / "data")
    rng = np.random.default_rng(0)
    np.save(tmp_path / "s.npy", rng.normal(size=(4, 8)))
    command = ("evaluate", tmp_path / "s.npy", "--dataset", "small", "--data-root", tmp_path / "data")
    answers = CommandLine(capsys).json(*command)["answers"]
    (judged,) = [one for one in answers if "experts" in one["question"] and one["key"] == "retrieval"]
    assert {"map_r", "r_precision", "rsum"} <= judged["numbers"].keys()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "needs a checkpoint, or files"),
        (("a/images.npy", "a/captions.npy"), "--dataset must name"),
        (("a/captions.npy", "a/images.npy", "--dataset", "made"), "must have the shape 60 x any"),
        (("a/images.npy", "gone.npy", "--dataset", "made"), "gone.npy: holds no array"),
        ((*pair("a"), "--dataset", "made", "--metric", "bleu"), "--metric must be one of"),
        ((*pair("a"), "--dataset", "made", "--cut", "five=x.npy"), "--cut must be WORDS=FILE"),
        ((*pair("a"), "--dataset", "made", "--folds", "5", "--by-length"), "--folds ranks parts"),
        ((*pair("a"), "a/similarity.npy", "--dataset", "made"), "takes two files"),
    ],
)
def test_mistakes_are_refused(line: CommandLine, arguments: tuple[str, ...], said: str) -> None:
    assert said in line.refuses("evaluate", *arguments)


def first(scores: np.ndarray, count: int = 300) -> np.ndarray:
    """Return the places of the highest scores, the highest first: more than any metric of a fold needs."""
    places = np.argpartition(-scores, count)[:count]
    return places[np.argsort(-scores[places])]


HAS_ECCV = importlib.util.find_spec("eccv_caption") is not None


@pytest.mark.proof
@pytest.mark.skipif(not HAS_ECCV, reason="eccv-caption is not installed: pip install --no-deps eccv-caption")
@pytest.mark.filterwarnings("ignore:failed to import `ujson`")
def test_on_coco_all_numbers_are_those_of_eccv_caption(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The real judgements of CxC and ECCV Caption, on embeddings without a model."""
    import eccv_caption  # type: ignore[import-not-found]

    metrics = eccv_caption.Metrics()
    ids = [int(key) for key in metrics.coco_ids]
    image_of = {key: int(images[0]) for key, images in metrics.coco_gts["t2i"].items()}
    order = list(dict.fromkeys(image_of[key] for key in ids))
    captions_of: dict[int, list[int]] = {image: [] for image in order}
    for key in ids:
        captions_of[image_of[key]].append(key)
    columns = [key for image in order for key in captions_of[image]]
    folder = tmp_path / "data" / "coco"
    (folder / "judgements").mkdir(parents=True)
    images = [
        {"filename": f"{image}.jpg", "cocoid": image, "imgid": image, "split": "test"}
        | {"sentences": [{"raw": f"caption {key}", "sentid": key} for key in captions_of[image]]}
        for image in order
    ]
    images += [
        {"filename": f"{name}.jpg", "cocoid": -place, "imgid": -place, "split": name}
        | {"sentences": [{"raw": f"of {name}", "sentid": -place}]}
        for place, name in enumerate(("train", "val"), 1)
    ]
    (folder / "dataset_coco.json").write_text(json.dumps({"images": images}))
    data = Path(eccv_caption.__file__).parent / "data"
    for file in (*data.glob("cxc_*.json"), *data.glob("eccv_*.json")):
        (folder / "judgements" / file.name).write_bytes(file.read_bytes())
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(len(order), 24))
    texts = vectors[[order.index(image_of[key]) for key in columns]] + 1.2 * rng.normal(size=(len(columns), 24))
    np.save(tmp_path / "images.npy", vectors)
    np.save(tmp_path / "captions.npy", texts)
    command = ("evaluate", tmp_path / "images.npy", tmp_path / "captions.npy", "--dataset", "coco")
    answers = CommandLine(capsys).json(*command, "--data-root", tmp_path / "data")["answers"]
    whole, cxc, eccv = (one["numbers"] for one in answers if one["key"] == "retrieval")
    folds = CommandLine(capsys).json(*command, "--data-root", tmp_path / "data", "--folds", 5)["answers"][0]["numbers"]

    scores = vectors @ texts.T
    names, keys = np.array(order), np.array(columns)
    i2t = {image: keys[first(row)].tolist() for image, row in zip(order, scores, strict=True)}
    t2i = {key: names[first(row)].tolist() for key, row in zip(columns, scores.T, strict=True)}
    wanted = ("coco_1k_recalls", "coco_5k_recalls", "cxc_recalls", "eccv_r1", "eccv_map_at_r", "eccv_rprecision")
    theirs = metrics.compute_all_metrics(i2t, t2i, target_metrics=wanted, Ks=(1, 5, 10))
    for way in ("i2t", "t2i"):
        for k in (1, 5, 10):
            assert whole[f"{way}_r{k}"] == pytest.approx(100 * theirs[f"coco_5k_r{k}"][way], abs=1e-9)
            assert folds[f"{way}_r{k}"] == pytest.approx(100 * theirs[f"coco_1k_r{k}"][way], abs=1e-9)
        for name, ours in {"cxc": cxc, "eccv": eccv}.items():
            assert ours[f"{way}_r1"] == pytest.approx(100 * theirs[f"{name}_r1"][way], abs=1e-9)
        assert eccv[f"{way}_map_r"] == pytest.approx(theirs["eccv_map_at_r"][way], abs=1e-9)
    precision = sum(theirs["eccv_rprecision"].values()) / 2
    assert eccv["r_precision"] == pytest.approx(precision, abs=1e-9)
