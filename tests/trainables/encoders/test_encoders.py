"""Vectors of pretrained encoders are those of their libraries; files that are missing or wrong are named."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import open_clip
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch.nn.functional import normalize

from tests.support import encoders as tiny
from trainables import extras
from trainables.encoders import KEPT, keep, kept_folder, kept_name, libraries_of, read_encoder, read_kept
from trainables.encoders.open_clip_encoder import read_named
from trainables.encoders.pretrained import NoEncoderError, PretrainedEncoder, offline
from trainables.errors import DataError, UserError
from trainables.extras import MissingExtraError

CAPTIONS = ["a dog", "a picture with number 3", "the dog seen from number 7 ."]


def pictures() -> list[Image.Image]:
    """Pictures that are wide, high and square."""
    sizes = ((50, 90), (70, 40), (64, 64))
    colours = [
        np.random.default_rng(row).integers(0, 256, (*size, 3), dtype=np.uint8) for row, size in enumerate(sizes)
    ]
    return [Image.fromarray(values) for values in colours]


def images_of(encoder: PretrainedEncoder) -> np.ndarray:
    return encoder.encode_images(np.stack([encoder.prepare(picture) for picture in pictures()]))


def of_open_clip(model: torch.nn.Module, prepare: Callable, tokenize: Callable) -> tuple[np.ndarray, np.ndarray]:
    with torch.no_grad():
        images = model.eval().encode_image(torch.stack([prepare(picture) for picture in pictures()]))
        captions = model.encode_text(tokenize(CAPTIONS))
    return normalize(images, dim=-1).numpy(), normalize(captions, dim=-1).numpy()


def test_a_folder_of_open_clip_gives_the_vectors_of_open_clip(folders: Callable[[str], Path]) -> None:
    folder = folders("open_clip")
    name = f"local-dir:{folder}"
    model, _, prepare = open_clip.create_model_and_transforms(name)
    images, captions = of_open_clip(model, prepare, open_clip.get_tokenizer(name))
    encoder = read_encoder(str(folder))
    assert encoder.sides == ("global", "text") and "squash" in encoder.transform
    np.testing.assert_allclose(images_of(encoder), images, atol=1e-5)
    np.testing.assert_allclose(encoder.encode_captions(CAPTIONS), captions, atol=1e-5)


def test_a_model_that_open_clip_knows_takes_its_weights_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "tiny-test-clip.json").write_text(json.dumps(tiny.OPEN_CLIP_CONFIG))
    open_clip.add_model_config(tmp_path / "tiny-test-clip.json")
    weights = tiny.open_clip_weights(tmp_path / "mine.safetensors")
    model, _, prepare = open_clip.create_model_and_transforms("tiny-test-clip", pretrained=str(weights))
    images, captions = of_open_clip(model, prepare, open_clip.get_tokenizer("tiny-test-clip"))
    encoder = read_encoder("open_clip:tiny-test-clip", str(weights))
    np.testing.assert_allclose(images_of(encoder), images, atol=1e-5)
    np.testing.assert_allclose(encoder.encode_captions(CAPTIONS), captions, atol=1e-5)
    assert encoder.origin()["weights"] == "mine.safetensors" and encoder.notes == ()
    # What is kept needs neither the name nor the file.
    keep(encoder, tmp_path)
    weights.unlink()
    again = read_kept(tmp_path / kept_name(encoder.digest), encoder.name, encoder.digest, "cpu")
    assert np.array_equal(images_of(again), images_of(encoder))
    state = {name: tensor.contiguous() for name, tensor in model.state_dict().items() if name != "text_projection"}
    save_file(state, weights)
    with pytest.raises(NoEncoderError, match=r"are no weights of open_clip:tiny-test-clip: .*text_projection"):
        read_encoder("open_clip:tiny-test-clip", str(weights))


@pytest.mark.parametrize(
    ("name", "quick_gelu", "mean", "is_noted"),
    [
        ("RN50", True, 0.48145466, False),
        ("ViT-B-32", False, 0.48145466, True),
        ("ViT-B-32:openai", True, 0.48145466, False),
        ("ViT-B-32:laion2b_s34b_b79k", False, 0.48145466, False),
        ("ViT-L-14:laion2b_s32b_b82k", False, 0.5, False),
    ],
)
def test_activation_and_pixels_follow_the_weights(
    name: str, quick_gelu: bool, mean: float, is_noted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No network is built: what open_clip is asked for is compared with its own table of weights."""
    weights = tmp_path / "w.safetensors"
    weights.touch()
    asked = {}

    def create_model(model_name: str, **options: object) -> torch.nn.Module:
        asked.update(options)
        model = open_clip.model.CLIP(**tiny.OPEN_CLIP_CONFIG)
        default = open_clip.transform.PreprocessCfg(size=tiny.SIZE)
        prepared = {**default.__dict__, **options["force_preprocess_cfg"]}
        open_clip.model.set_model_preprocess_cfg(model, prepared)
        return model

    monkeypatch.setattr(open_clip, "create_model", create_model)
    encoder = read_named(name, str(weights), "cpu")
    assert asked["force_quick_gelu"] is quick_gelu and asked["pretrained"] == str(weights)
    assert f"mean=({mean}," in encoder.transform
    assert bool(encoder.notes) is is_noted
    if is_noted:
        assert "openai" in encoder.notes[0] and "--encoder open_clip:ViT-B-32:openai" in encoder.notes[0]


def test_clip_of_transformers(folders: Callable[[str], Path]) -> None:
    from transformers import CLIPImageProcessor, CLIPModel, PreTrainedTokenizerFast

    folder = folders("clip")
    model = CLIPModel.from_pretrained(folder).eval()
    pixels = CLIPImageProcessor.from_pretrained(folder)(images=pictures(), return_tensors="pt")
    tokens = PreTrainedTokenizerFast.from_pretrained(folder)(CAPTIONS, padding=True, return_tensors="pt")
    with torch.no_grad():
        both = model(pixel_values=pixels["pixel_values"], input_ids=tokens["input_ids"], **mask_of(tokens))
    encoder = read_encoder(str(folder))
    np.testing.assert_allclose(images_of(encoder), both.image_embeds.numpy(), atol=1e-5)
    # The library pads to the longest caption, we pad to the length of the tower.
    np.testing.assert_allclose(encoder.encode_captions(CAPTIONS), both.text_embeds.numpy(), atol=1e-5)
    assert encoder.encode_captions(["a dog " * 50]).shape == (1, tiny.WIDTH)


def mask_of(tokens: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {"attention_mask": tokens["attention_mask"]}


def test_siglip_reads_padding_as_it_was_trained_to(folders: Callable[[str], Path]) -> None:
    from transformers import PreTrainedTokenizerFast, SiglipImageProcessor, SiglipModel

    folder = folders("siglip")
    model = SiglipModel.from_pretrained(folder).eval()
    pixels = SiglipImageProcessor.from_pretrained(folder)(images=pictures(), return_tensors="pt")
    options = {"padding": "max_length", "max_length": tiny.LENGTH, "truncation": True, "return_tensors": "pt"}
    tokens = PreTrainedTokenizerFast.from_pretrained(folder)(CAPTIONS, **options)
    with torch.no_grad():
        both = model(pixel_values=pixels["pixel_values"], input_ids=tokens["input_ids"])
    encoder = read_encoder(str(folder))
    np.testing.assert_allclose(images_of(encoder), both.image_embeds.numpy(), atol=1e-5)
    np.testing.assert_allclose(encoder.encode_captions(CAPTIONS), both.text_embeds.numpy(), atol=1e-5)


def test_dinov2_has_pictures_alone(folders: Callable[[str], Path]) -> None:
    from transformers import BitImageProcessor, Dinov2Model

    folder = folders("dinov2")
    pixels = BitImageProcessor.from_pretrained(folder)(images=pictures(), return_tensors="pt")
    with torch.no_grad():
        expected = normalize(Dinov2Model.from_pretrained(folder).eval()(**pixels).last_hidden_state[:, 0], dim=-1)
    encoder = read_encoder(str(folder))
    assert encoder.sides == ("global",) and list(encoder.by_side()) == ["global"]
    np.testing.assert_allclose(images_of(encoder), expected.numpy(), atol=1e-5)


def test_a_sentence_encoder_has_captions_alone(folders: Callable[[str], Path], tmp_path: Path) -> None:
    package = pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    folder = folders("sentence")
    expected = package.SentenceTransformer(str(folder), device="cpu").encode(CAPTIONS, show_progress_bar=False)
    encoder = read_encoder(str(folder))
    assert encoder.sides == ("text",)
    np.testing.assert_allclose(encoder.encode_captions(CAPTIONS), expected, atol=1e-5)
    keep(encoder, tmp_path)
    kept = tmp_path / kept_name(encoder.digest)
    assert (kept / "1_Pooling" / "config.json").exists() and not (kept / "README.md").exists()
    again = read_kept(kept, encoder.name, encoder.digest, "cpu")
    assert np.array_equal(again.encode_captions(CAPTIONS), encoder.encode_captions(CAPTIONS))


def test_what_made_features_is_kept_beside_them_and_recognised(folders: Callable[[str], Path], tmp_path: Path) -> None:
    encoder = read_encoder(str(folders("clip")))
    keep(encoder, tmp_path)
    keep(encoder, tmp_path)
    features, kept = tmp_path / "features_text.npy", tmp_path / kept_name(encoder.digest)
    assert kept_folder(features) is None
    features.with_suffix(".json").write_text(json.dumps({KEPT: kept.name}))
    assert kept_folder(features) == kept and libraries_of(tmp_path) == ["transformers"]
    again = read_kept(kept, encoder.name, encoder.digest, "cpu")
    assert np.array_equal(again.encode_captions(CAPTIONS), encoder.encode_captions(CAPTIONS))
    assert (kept / "model.safetensors").samefile(folders("clip") / "model.safetensors"), "a link takes no space"
    with pytest.raises(DataError, match=r"clip:clip is not what it was when the features were made"):
        read_kept(kept, encoder.name, "another", "cpu")


def test_nothing_is_fetched_while_a_model_is_read() -> None:
    from huggingface_hub import constants
    from huggingface_hub import is_offline_mode as is_offline

    before = constants.HF_HUB_OFFLINE
    with offline():
        assert is_offline()
    assert before == constants.HF_HUB_OFFLINE


@pytest.mark.parametrize(
    ("name", "weights", "message"),
    [
        (
            "open_clip:ViT-B-32",
            None,
            r"needs a file of weights with --weights, such as open_clip_model\.safetensors of .*: *`?.*hf download",
        ),
        (
            "open_clip:ViT-B-32:openai",
            "none.pt",
            r"--weights none\.pt is no file; .* of timm/vit_base_patch32_clip_224\.openai \(openai\); `hf download",
        ),
        ("open_clip:ViT-B-32:opnai", "x", r"knows no weights 'opnai' of it; known: openai, "),
        ("open_clip:ViT-B-23", None, r"open_clip has no model 'ViT-B-23'; similar: ViT-B-32"),
        ("open_clip:ViT-B-16-SigLIP", "x", r"need a tokenizer's file .* timm/ViT-B-16-SigLIP --local-dir FOLDER"),
        ("open_clip:roberta-ViT-B-32", "x", r"text tower roberta-base is of transformers, and would be downloaded"),
        ("openai/clip-vit-base-patch32", None, r"`hf download openai/clip-vit-base-patch32 --local-dir FOLDER`"),
        (".", "x", r"a folder holds its weights"),
    ],
)
def test_a_file_that_is_missing_is_named_with_the_command_that_gets_it(
    name: str, weights: str | None, message: str
) -> None:
    with pytest.raises(UserError, match=message.replace(": *`?", ".")) as caught:
        read_encoder(name, weights)
    assert caught.value.exit_code == 2


def spoil(folder: Path, kind: str) -> None:
    """Damage a copy of a folder of CLIP."""
    if kind == "no weights":
        (folder / "model.safetensors").unlink()
    elif kind == "no tokenizer":
        for path in folder.glob("tokenizer*"):
            path.unlink()
    elif kind == "no preparation":
        (folder / "preprocessor_config.json").unlink()
    elif kind == "a tensor is missing":
        state = load_file(folder / "model.safetensors")
        del state["visual_projection.weight"]
        save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    elif kind == "cut short":
        (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:200])
    elif kind == "another model":
        (folder / "config.json").write_text('{"model_type": "t5"}')
    else:
        (folder / "config.json").unlink()


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("no weights", r"holds no weights; put model\.safetensors .*`hf download"),
        ("no tokenizer", r"holds no tokenizer; put tokenizer\.json"),
        ("no preparation", r"holds no preparation of pictures; put preprocessor_config\.json"),
        ("a tensor is missing", r"its weights lack 1 tensors of the model, e\.g\. visual_projection\.weight"),
        ("cut short", "cannot be read by transformers"),
        ("another model", "is a t5; of transformers clip, siglip, dinov2"),
        ("no config", r"holds no config\.json, open_clip_config\.json or modules\.json"),
    ],
)
def test_a_folder_that_is_damaged_is_refused(
    kind: str, message: str, folders: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = tmp_path / "copy"
    folder.mkdir()
    for path in folders("clip").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    spoil(folder, kind)
    with pytest.raises(NoEncoderError, match=message):
        read_encoder(str(folder))


@pytest.mark.parametrize(("kind", "module"), [("open_clip", "open_clip"), ("clip", "transformers")])
def test_a_missing_package_is_one_line_with_its_extra(
    kind: str, module: str, folders: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folders(kind)
    monkeypatch.setattr(extras, "_is_installed", lambda name: name != module)
    with pytest.raises(MissingExtraError, match=rf"needs {module}, which is not .*icr-orchestrator\[encoders\]"):
        read_encoder(str(folder))
