import numpy as np
import PIL.Image
import pytest

from trainables.data.pixels import AREA, ASPECT, center_crop, decode, random_crop


def picture(width: int, height: int, seed: int = 0) -> PIL.Image.Image:
    """Coarse random colours, so that neighbouring pixels agree as in a photograph."""
    coarse = np.random.default_rng(seed).integers(0, 256, (height // 8 + 1, width // 8 + 1, 3), dtype=np.uint8)
    return PIL.Image.fromarray(coarse).resize((width, height), PIL.Image.Resampling.BICUBIC)


@pytest.mark.parametrize("size", [224, 96])
@pytest.mark.parametrize("width, height", [(300, 200), (200, 301), (224, 224), (64, 64), (501, 333)])
def test_center_crop_is_that_of_torchvision(width: int, height: int, size: int) -> None:
    from torchvision.transforms import CenterCrop, Compose, Resize

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
    falling = sum(
        int(crop[0, 0, 0]) > int(crop[0, -1, 0]) for crop in (random_crop(ramp, 8, random) for _ in range(400))
    )
    assert 160 < falling < 240


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "CMYK"])
def test_every_image_becomes_red_green_blue(tmp_path, mode: str) -> None:
    path = tmp_path / ("image.jpg" if mode == "CMYK" else "image.png")
    picture(20, 10).convert(mode).save(path)
    assert decode(path).mode == "RGB"
