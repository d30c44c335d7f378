"""The archive is small, whole, and explained."""

from tests.reference_values.archive import ARCHIVE, reference_values

LARGEST = 300_000
"""Bytes of the folder: what a clone can carry for numbers that never change."""


def test_the_folder_is_small() -> None:
    assert sum(path.stat().st_size for path in ARCHIVE.parent.iterdir() if path.is_file()) < LARGEST


def test_the_readme_says_what_each_key_is() -> None:
    told = (ARCHIVE.parent / "README.md").read_text()
    for key in reference_values():
        case, *rest = key.split("|")
        assert f"`{case}`" in told
        *losses, quantity = [word for word in rest if word != "cocos_as_coded"]
        assert f"`{quantity}`" in told and all(f"`{loss}`" in told for loss in losses)


def test_every_array_is_finite_float64_but_for_means_of_nothing() -> None:
    for key, values in reference_values().items():
        assert str(values.dtype) == "torch.float64"
        assert values.isfinite().all() or key.endswith("grads_mean")
