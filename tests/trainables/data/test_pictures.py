"""Crops on request: which ones, in which order, and what is said of files that are missing or broken."""

import io
import struct
import subprocess
import sys
import threading
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import PIL.EpsImagePlugin
import PIL.Image
import PIL.PngImagePlugin
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.trainables.data.folders import KarpathyFolder
from trainables.config import PIXELS, TrainingConfig
from trainables.data.batches import ResidentSplit, epoch_batches
from trainables.data.dataset import Dataset, load_dataset
from trainables.data.pictures import (
    AREA,
    ASPECT,
    FORMATS,
    LONGEST,
    MOST_PIXELS,
    Crop,
    ImageFiles,
    center_crop,
    decode,
    random_crop,
)
from trainables.data.reading import Reading, View
from trainables.errors import DataError
from trainables.seeding import generator


def picture(width: int, height: int, seed: int = 0) -> PIL.Image.Image:
    """Coarse random colours, so that neighbouring pixels agree as in a photograph."""
    coarse = np.random.default_rng(seed).integers(0, 256, (height // 8 + 1, width // 8 + 1, 3), dtype=np.uint8)
    return PIL.Image.fromarray(coarse).resize((width, height), PIL.Image.Resampling.BICUBIC)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 300), st.integers(1, 300), st.integers(2, 240))
@example(98, 196, 224)
@example(196, 98, 224)
@example(300, 200, 224)
@example(64, 64, 96)
def test_center_crop_is_that_of_torchvision(width: int, height: int, size: int) -> None:
    from torchvision.transforms import CenterCrop, Compose, Resize

    # As thin as any photograph, so that the test resizes nothing to thousands of pixels.
    width, height = max(width, height // 8), max(height, width // 8)
    published = Compose([Resize(round(size * 256 / 224)), CenterCrop(size)])
    image = picture(width, height)
    assert np.array_equal(center_crop(image, size), np.asarray(published(image)))


@pytest.mark.parametrize("width, height", [(300, 200), (40, 400), (400, 40), (8, 8)])
def test_random_crops_have_the_size_and_repeat_with_their_seed(width: int, height: int) -> None:
    image = picture(width, height)
    first, again, other = (random_crop(image, 32, np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert first.shape == (32, 32, 3) and first.dtype == np.uint8
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_random_crops_show_parts_of_the_drawn_area_and_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []
    crop = PIL.Image.Image.crop
    monkeypatch.setattr(
        PIL.Image.Image, "crop", lambda self, box: seen.append((box[2] - box[0], box[3] - box[1])) or crop(self, box)
    )
    random, image = np.random.default_rng(0), picture(400, 400)
    for _ in range(300):
        random_crop(image, 8, random)
    areas = np.array([w * h / 400**2 for w, h in seen])
    shapes = np.array([w / h for w, h in seen])
    assert AREA[0] - 0.01 <= areas.min() < 0.15 and 0.85 < areas.max() <= AREA[1]
    assert ASPECT[0] - 0.02 <= shapes.min() < 0.8 and 1.25 < shapes.max() <= ASPECT[1] + 0.02


def test_half_of_the_random_crops_are_mirrored() -> None:
    ramp = PIL.Image.fromarray(np.tile(np.linspace(0, 255, 200).astype(np.uint8)[None, :, None], (200, 1, 3)))
    random = np.random.default_rng(0)
    crops = [random_crop(ramp, 8, random).astype(int) for _ in range(400)]
    assert 160 < sum(crop[0, 0, 0] > crop[0, -1, 0] for crop in crops) < 240


RAMP = np.linspace(0, 1, 256)[None, :].repeat(8, 0)
"""Brightness that rises from left to right over the whole range."""


def ramp_of(mode: str) -> PIL.Image.Image:
    grey = PIL.Image.fromarray(np.round(255 * RAMP).astype(np.uint8))
    return grey.convert(mode) if mode in ("P", "LA") else grey.convert("RGB").convert(mode)


WHOLE_RANGE: dict[str, tuple[str, Callable[[Path], None]]] = {
    **{
        f"{mode}-{suffix}": (suffix, lambda path, mode=mode: ramp_of(mode).save(path))
        for mode, suffix in [
            *(("L", "png"), ("LA", "png"), ("RGB", "png"), ("RGBA", "png"), ("P", "png"), ("P", "gif")),
            *(("L", "jpg"), ("CMYK", "jpg"), ("RGB", "tif"), ("YCbCr", "tif"), ("L", "ppm"), ("RGB", "bmp")),
        ]
    },
    "16-bit-png": ("png", lambda path: PIL.Image.fromarray(np.round(65535 * RAMP).astype(np.uint16)).save(path)),
    "16-bit-pgm": ("pgm", lambda path: write_pgm(path, 65535)),
    "10-bit-pgm": ("pgm", lambda path: write_pgm(path, 1023)),
    "16-bit-colour-png": ("png", lambda path: write_colour_png(path)),
}


def write_pgm(path: Path, most: int) -> None:
    path.write_bytes(b"P5 256 8 %d\n" % most + np.round(most * RAMP).astype(">u2").tobytes())


def png_chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def write_png(path: Path, width: int, height: int, bits: int, colour: int, rows: bytes) -> None:
    header = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    chunks = png_chunk(b"IHDR", header) + png_chunk(b"IDAT", rows) + png_chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunks)


def write_colour_png(path: Path) -> None:
    values = np.round(65535 * RAMP).astype(">u2")[..., None].repeat(3, -1)
    write_png(path, 256, 8, 16, 2, zlib.compress(b"".join(b"\0" + row.tobytes() for row in values)))


@pytest.mark.parametrize(("suffix", "write"), WHOLE_RANGE.values(), ids=WHOLE_RANGE)
def test_brightness_keeps_its_range(tmp_path: Path, suffix: str, write: Callable[[Path], None]) -> None:
    write(tmp_path / f"ramp.{suffix}")
    decoded = decode(tmp_path / f"ramp.{suffix}")
    assert decoded.mode == "RGB" and decoded.size == (256, 8)
    seen = np.asarray(decoded).astype(int)
    # The steps of JPEG are coarser than those of 8 bits.
    assert np.abs(seen - np.round(255 * RAMP)[..., None]).max() <= 12


NO_KNOWN_RANGE = {
    "float": ("F", "tif", RAMP.astype(np.float32)),
    "float-above-one": ("F", "tif", (1000 * RAMP).astype(np.float32)),
    "32-bit": ("I", "tif", (2**31 * 0.99 * RAMP).astype(np.int32)),
    "16-bit": ("I;16", "tif", (65535 * RAMP).astype(np.uint16)),
    "12-bit-in-16": ("I;16", "tif", (4095 * RAMP).astype(np.uint16)),
}


@pytest.mark.parametrize(("mode", "suffix", "values"), NO_KNOWN_RANGE.values(), ids=NO_KNOWN_RANGE)
def test_a_picture_without_a_known_range_is_refused(tmp_path: Path, mode: str, suffix: str, values: np.ndarray) -> None:
    path = tmp_path / f"picture.{suffix}"
    PIL.Image.fromarray(values).save(path)
    with pytest.raises(DataError) as caught:
        decode(path)
    assert str(caught.value).startswith(f"{path}: cannot be decoded: it has pixels of mode '{mode}' in TIFF format")
    assert "save it with 8 bits a channel" in str(caught.value)


def test_a_picture_that_another_program_would_draw_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def start_ghostscript(*_: object, **__: object) -> None:
        raise AssertionError("Ghostscript was started")

    monkeypatch.setattr(PIL.EpsImagePlugin, "Ghostscript", start_ghostscript)
    PIL.Image.new("RGB", (20, 20)).save(tmp_path / "picture.jpg", "EPS")
    with pytest.raises(DataError, match=r"picture\.jpg: cannot be decoded: it is no picture of the formats .* JPEG"):
        decode(tmp_path / "picture.jpg")


TOO_LARGE = {
    "bomb": (13_000, 13_000, f"13,000 x 13,000 pixels are more than {MOST_PIXELS:,}; make it smaller"),
    "larger-bomb": (60_000, 60_000, f"it has more than {MOST_PIXELS:,} pixels; make it smaller"),
    "thread": (LONGEST * 2 + 1, 2, f"it is more than {LONGEST} times longer than wide"),
    "upright-thread": (1, 1_000_000, f"it is more than {LONGEST} times longer than wide"),
}


@pytest.mark.parametrize(("width", "height", "message"), TOO_LARGE.values(), ids=TOO_LARGE)
def test_a_picture_that_takes_too_much_memory_is_refused_before_it_is_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int, height: int, message: str
) -> None:
    def decode_pixels(_: object) -> None:
        raise AssertionError("the picture was decoded")

    monkeypatch.setattr(PIL.Image.Image, "load", decode_pixels)
    monkeypatch.setattr(PIL.PngImagePlugin.PngImageFile, "load", decode_pixels)
    write_png(tmp_path / "large.png", width, height, 8, 0, zlib.compress(b""))
    with warnings.catch_warnings(), pytest.raises(DataError) as caught:
        warnings.simplefilter("ignore")
        decode(tmp_path / "large.png")
    assert str(caught.value).startswith(f"{tmp_path / 'large.png'}: cannot be decoded: ")
    assert message in str(caught.value)


def run_alone(code: str, path: Path) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own, with a user's filters of warnings, whose peak nothing else has raised."""
    imports = "import resource, sys; from pathlib import Path; from trainables.data.pictures import decode, DataError\n"
    return subprocess.run([sys.executable, "-c", imports + code, str(path)], check=True, capture_output=True, text=True)


@pytest.mark.proof
@pytest.mark.parametrize("mode", ["1", "L", "RGB"])
def test_the_largest_picture_takes_the_memory_that_is_documented(tmp_path: Path, mode: str) -> None:
    side = int(MOST_PIXELS**0.5)
    PIL.Image.new(mode, (side, side)).save(tmp_path / "largest.png")
    code = (
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "decode(Path(sys.argv[1]))\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    assert int(run_alone(code, tmp_path / "largest.png").stdout) * 1024 < 5.5 * MOST_PIXELS


@pytest.mark.proof
def test_nothing_but_the_message_is_said_of_a_picture_that_is_too_large(tmp_path: Path) -> None:
    write_png(tmp_path / "large.png", 13_000, 13_000, 8, 0, zlib.compress(b""))
    ended = run_alone("try: decode(Path(sys.argv[1]))\nexcept DataError: pass", tmp_path / "large.png")
    assert (ended.stdout, ended.stderr) == ("", "")


@pytest.mark.parametrize("width, height", [(LONGEST, 1), (1, LONGEST)])
def test_the_longest_pictures_are_cropped(tmp_path: Path, width: int, height: int) -> None:
    PIL.Image.new("RGB", (width, height), "red").save(tmp_path / "long.png")
    assert center_crop(decode(tmp_path / "long.png"), 224).shape == (224, 224, 3)


def encoded_pictures() -> list[bytes]:
    """A picture in every format that is read, with the modes that the format has."""
    pictures = []
    for kind in FORMATS:
        for mode in ("RGB", "L", "P", "RGBA", "CMYK", "1"):
            buffer = io.BytesIO()
            try:
                picture(13, 9).convert(mode).save(buffer, kind)
            except (OSError, ValueError):
                # The format has no such mode.
                continue
            pictures.append(buffer.getvalue())
    return pictures


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.sampled_from(encoded_pictures()), st.lists(st.tuples(st.integers(0, 400), st.binary(max_size=4)), max_size=4))
@example(b"", [])
@example(b"\0" * 64, [])
def test_any_damage_is_read_or_named(tmp_path: Path, good: bytes, damages: list[tuple[int, bytes]]) -> None:
    content = bytearray(good)
    for place, data in damages:
        content[place : place + max(1, len(data))] = data
    path = tmp_path / "damaged.jpg"
    path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            assert decode(path).mode == "RGB"
        except DataError as error:
            assert str(error).startswith(f"{path}: cannot be decoded: ")


RAISED = (struct.error("short"), zlib.error("bad"), EOFError("end"), KeyError(7), NotImplementedError("mode"))


@pytest.mark.parametrize("error", RAISED, ids=repr)
def test_whatever_a_decoder_raises_is_one_message_that_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(_: object) -> None:
        raise error

    picture(8, 8).save(tmp_path / "p.png")
    monkeypatch.setattr(PIL.PngImagePlugin.PngImageFile, "load", fail)
    monkeypatch.setattr(PIL.Image.Image, "load", fail)
    with pytest.raises(DataError) as caught:
        decode(tmp_path / "p.png")
    assert str(caught.value).startswith(f"{tmp_path / 'p.png'}: cannot be decoded: {type(error).__name__}: ")
    assert len(str(caught.value).splitlines()) == 1


SIZE = 16


@pytest.fixture
def folder(karpathy_folder: KarpathyFolder) -> Path:
    (karpathy_folder.folder / "images").mkdir()
    for index, image in enumerate(karpathy_folder.images):
        pixels = np.random.default_rng(index).integers(0, 256, (40, 30 + index, 3), dtype=np.uint8)
        PIL.Image.fromarray(pixels).save(karpathy_folder.folder / "images" / image["filename"], quality=95)
    return karpathy_folder.folder


@pytest.fixture
def data(folder: Path) -> Dataset:
    return load_dataset("tiny", folder.parent, features=PIXELS)


def resident(data: Dataset, split: str = "train") -> ResidentSplit:
    return ResidentSplit(data.splits[split], torch.device("cpu"), Reading(Crop(SIZE)))


def test_the_plain_crop_is_the_centre_of_each_image_of_the_split(folder: Path, data: Dataset) -> None:
    paths = [folder / "images" / f"picture{index}.jpg" for index in (4, 5)]
    expected = np.stack([center_crop(decode(path), SIZE) for path in paths])
    assert np.array_equal(torch.cat(list(resident(data, "test").image_chunks(1))).numpy(), expected)


def test_random_crops_are_a_function_of_draw_and_image_alone(data: Dataset) -> None:
    rows = torch.tensor([2, 0, 1])
    first, other = (resident(data).request_images(rows, draw)() for draw in (7, 8))
    assert torch.equal(first, torch.cat([resident(data).request_images(row, 7)() for row in rows.split(1)]))
    assert all(not torch.equal(one, two) for one, two in zip(first, other, strict=True))


@pytest.mark.parametrize("kind", ["pairs", "images"])
def test_the_next_batch_is_decoded_meanwhile(data: Dataset, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    started = threading.Semaphore(0)
    read = ImageFiles.read

    def noted(self: ImageFiles, row: int, view: View, draw: int | None) -> np.ndarray:
        started.release()
        return read(self, row, view, draw)

    monkeypatch.setattr(ImageFiles, "read", noted)
    training = TrainingConfig(batches=kind, batch_size=2, captions_per_image=2)
    batches = epoch_batches(resident(data), training, generator(0, "batches", 1), draw=5)
    assert next(batches).images.shape == (2, SIZE, SIZE, 3)
    # Those of the first batch, and those of the one after it, which nobody has asked for yet.
    expected = 4 if kind == "pairs" else 2
    assert all(started.acquire(timeout=60) for _ in range(expected))


def test_the_digest_knows_names_and_sizes_and_not_the_place(folder: Path, data: Dataset, tmp_path: Path) -> None:
    assert data.digest != load_dataset("tiny", folder.parent, features=None).digest
    folder.parent.rename(tmp_path / "elsewhere")
    assert load_dataset("tiny", tmp_path / "elsewhere", features=PIXELS).digest == data.digest
    with (tmp_path / "elsewhere" / "tiny" / "images" / "picture3.jpg").open("ab") as file:
        file.write(b"0")
    assert load_dataset("tiny", tmp_path / "elsewhere", features=PIXELS).digest != data.digest


def test_every_missing_file_is_named_with_its_image(folder: Path) -> None:
    for index in (1, 4):
        (folder / "images" / f"picture{index}.jpg").unlink()
    with pytest.raises(DataError) as caught:
        load_dataset("tiny", folder.parent, features=PIXELS)
    assert [problem.split(": ")[1] for problem in caught.value.problems] == ["train image '1'", "test image '4'"]
    assert "'picture4.jpg'" in caught.value.problems[1]


@pytest.mark.usefixtures("data")
def test_files_outside_the_data_root_are_refused_though_the_captions_are_prepared(folder: Path, tmp_path: Path) -> None:
    inside, outside = folder / "images" / "picture2.jpg", tmp_path / "outside.jpg"
    inside.rename(outside)
    inside.symlink_to(outside)
    with pytest.raises(DataError, match="'2': .*is a link that leaves the data root"):
        load_dataset("tiny", folder.parent, features=PIXELS)


def test_all_broken_images_of_a_request_are_named(folder: Path, data: Dataset) -> None:
    for index in (0, 2):
        path = folder / "images" / f"picture{index}.jpg"
        path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DataError) as caught:
        resident(data).request_images(torch.tensor([0, 1, 2, 0]))()
    assert [problem.split("image ")[1][:3] for problem in caught.value.problems] == ["'0'", "'2'"]


def test_a_split_keeps_its_files_when_it_is_cut(data: Dataset) -> None:
    part = ResidentSplit(data.splits["train"].head(2), torch.device("cpu"), Reading(Crop(SIZE)))
    assert torch.cat(list(part.image_chunks(8))).shape == (2, SIZE, SIZE, 3)
