"""Models of open_clip as encoders: one that open_clip knows by name, with a file of weights, or a folder of one.

Weights of one architecture may need another activation (QuickGELU) or other means of the pixels. Where all weights that
open_clip knows of a name agree, theirs are used. Else the tag of the weights says which; without a tag the network is
built as open_clip builds it for a file, and a note says which weights need more.
"""

import json
import pickle
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import open_clip
import open_clip.transform
from open_clip.pretrained import get_pretrained_cfg, list_pretrained_tags_by_model
from safetensors import SafetensorError
from torch import Tensor

from trainables.encoders.pretrained import (
    CAPTIONS,
    IMAGES,
    NoEncoderError,
    PretrainedEncoder,
    getting,
    offline,
    tensor_files,
    text_files,
    unit,
)
from trainables.errors import reason_of
from trainables.files import parse_state

CONFIG, WEIGHTS = "open_clip_config.json", "open_clip_model.safetensors"
PICKLED = "open_clip_pytorch_model.bin"

PREPARATION = ("mean", "std", "interpolation", "resize_mode")
"""What the tag of some weights says of how pictures are prepared."""

_UNREADABLE = (OSError, RuntimeError, ValueError, KeyError, AttributeError, TypeError, EOFError)


class OpenClipEncoder(PretrainedEncoder):
    """A model of open_clip, both sides."""

    libraries: tuple[str, ...] = ("open_clip_torch",)
    sides = (IMAGES, CAPTIONS)

    def __init__(self, model: Any, tokenizer: Any, files: Mapping[str, Path | str], device: str) -> None:
        self.network = model.eval().requires_grad_(False).to(device)
        self._tokenizer, self._files = tokenizer, files
        self.context_length = int(tokenizer.context_length)
        # The tokenizer of open_clip itself pads with 0.
        self.padding = int(getattr(getattr(tokenizer, "tokenizer", None), "pad_token_id", 0) or 0)
        prepared = open_clip.transform.PreprocessCfg(**model.visual.preprocess_cfg)
        self._transform = open_clip.transform.image_transform_v2(prepared, is_train=False)
        self.transform = str(prepared)

    def prepare(self, picture: Any) -> np.ndarray:
        """See ``PretrainedEncoder``."""
        pixels: np.ndarray = self._transform(picture).numpy()
        return pixels

    def image_vectors(self, pixels: Tensor) -> Tensor:
        """See ``PretrainedEncoder``."""
        return unit(self.network.encode_image(pixels))

    def number(self, captions: Sequence[str]) -> list[np.ndarray]:
        """See ``PretrainedEncoder``."""
        padded = self._tokenizer(list(captions)).numpy()
        # The padding behind a caption alone: SigLIP's id of it may stand in a caption too.
        lengths = padded.shape[1] - (padded[:, ::-1] != self.padding).argmax(1)
        return [row[:length] for row, length in zip(padded, lengths, strict=True)]

    def _vectors_of(self, tokens: Tensor, inside: Tensor) -> Tensor:
        return unit(self.network.encode_text(tokens))

    def files(self) -> Mapping[str, Path | str]:
        """See ``PretrainedEncoder``."""
        return self._files


def read_named(name: str, weights: str | None, device: str) -> OpenClipEncoder:
    """Read ``MODEL`` or ``MODEL:TAG`` with a file of its weights; see ``read_encoder``."""
    model_name, _, tag = name.partition(":")
    config = open_clip.get_model_config(model_name) if model_name in open_clip.list_models() else None
    if config is None:
        nearest = ", ".join(get_close_matches(model_name, open_clip.list_models(), n=3, cutoff=0))
        raise NoEncoderError(f"--encoder open_clip:{name}: open_clip has no model {model_name!r}; similar: {nearest}")
    tags = {known: get_pretrained_cfg(model_name, known) for known in list_pretrained_tags_by_model(model_name)}
    if tag and tag not in tags:
        known = ", ".join(tags) or "none"
        raise NoEncoderError(f"--encoder open_clip:{name}: open_clip knows no weights {tag!r} of it; known: {known}")
    _check_captions(model_name, config, tags)
    settings, note = _settings(model_name, tag, bool(config.get("quick_gelu")), tags)
    _check_file(model_name, tag, weights, tags, quick_gelu=settings["quick_gelu"])
    file = Path(str(weights)).resolve()
    try:
        with offline():
            model = open_clip.create_model(
                model_name,
                # An absolute path, because a tag would be downloaded.
                pretrained=str(file),
                pretrained_text=False,
                force_quick_gelu=settings["quick_gelu"],
                force_preprocess_cfg=settings["preprocess_cfg"],
            )
            tokenizer = open_clip.get_tokenizer(model_name)
    except (*_UNREADABLE, pickle.UnpicklingError, SafetensorError) as error:
        raise NoEncoderError(f"{weights}: are no weights of open_clip:{model_name}: {_why(error)}") from None
    content = {
        "model_cfg": {**config, "quick_gelu": settings["quick_gelu"]},
        "preprocess_cfg": dict(model.visual.preprocess_cfg),
    }
    kept = WEIGHTS if file.suffix == ".safetensors" else PICKLED
    made = OpenClipEncoder(model, tokenizer, {CONFIG: json.dumps(content, indent=2), kept: file}, device)
    made.name, made.weights, made.notes = f"open_clip:{name}", file.name, note
    return made


def read_folder(folder: Path, device: str) -> OpenClipEncoder:
    """Read a folder with ``open_clip_config.json`` and weights; see ``read_encoder``."""
    weights = find_weights(folder)
    if not weights:
        raise NoEncoderError(
            f"{folder}: holds {CONFIG} and no weights; put {WEIGHTS} of the same model there; "
            f"{getting('REPOSITORY', WEIGHTS)}"
        )
    try:
        text = parse_state((folder / CONFIG).read_bytes())["model_cfg"]["text_cfg"]
        if text.get("hf_model_name"):
            raise NoEncoderError(
                f"{folder}: its text tower {text['hf_model_name']} is of transformers, and would be downloaded; it is "
                "not read"
            )
        with offline():
            model = open_clip.create_model(f"local-dir:{folder.resolve()}", require_pretrained=True)
            tokenizer = open_clip.get_tokenizer(f"local-dir:{folder.resolve()}")
    except (*_UNREADABLE, pickle.UnpicklingError, SafetensorError) as error:
        raise NoEncoderError(f"{folder}: is no model of open_clip: {_why(error)}") from None
    kept = [*text_files(folder), weights[0]]
    made = OpenClipEncoder(model, tokenizer, {path.name: path for path in kept}, device)
    made.name, made.weights = f"open_clip:{folder.resolve().name}", weights[0].name
    if text.get("hf_tokenizer_name"):
        made.libraries += ("transformers",)
    return made


def find_weights(folder: Path) -> list[Path]:
    """Return the file of a folder with weights of open_clip, if there is one."""
    return tensor_files(folder, "open_clip*.safetensors", "open_clip*.bin")[:1]


def _settings(
    model_name: str, tag: str, quick_gelu: bool, tags: Mapping[str, Mapping[str, Any]]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return activation and preparation of pictures, and a note where weights of this name need another."""

    def of(known: Mapping[str, Any]) -> dict[str, Any]:
        prepared = {key: known[key] for key in PREPARATION if key in known}
        return {"quick_gelu": quick_gelu or bool(known.get("quick_gelu")), "preprocess_cfg": prepared}

    if tag:
        return of(tags[tag]), ()
    forms = {known: of(form) for known, form in tags.items()}
    usual: dict[str, Any] = {"quick_gelu": quick_gelu, "preprocess_cfg": {}}
    if len({json.dumps(form, sort_keys=True) for form in forms.values()}) <= 1:
        return next(iter(forms.values()), usual), ()
    others = [known for known, form in forms.items() if form["quick_gelu"] != quick_gelu]
    others = others or [known for known, form in forms.items() if form != next(iter(forms.values()))]
    note = (
        f"weights {', '.join(others)} of {model_name} need another form of the network or of pictures; if the file is "
        f"one of them, name it: --encoder open_clip:{model_name}:{others[0]}"
    )
    return usual, (note,)


def _check_captions(model_name: str, config: Mapping[str, Any], tags: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse a model whose captions are read by files that open_clip would download."""
    text = config["text_cfg"]
    if not (text.get("hf_tokenizer_name") or text.get("hf_model_name")):
        return
    if text.get("hf_model_name"):
        raise NoEncoderError(
            f"open_clip:{model_name}: its text tower {text['hf_model_name']} is of transformers, and would be "
            "downloaded; it is not read"
        )
    repository = next(iter(_repositories(tags).values()), text["hf_tokenizer_name"])
    raise NoEncoderError(
        f"open_clip:{model_name}: its captions need a tokenizer's file beside the weights; "
        f"{getting(repository)}; then --encoder FOLDER"
    )


def _check_file(
    model_name: str, tag: str, weights: str | None, tags: Mapping[str, Mapping[str, Any]], *, quick_gelu: bool
) -> None:
    """Refuse weights that are not there; say which file they must be."""
    if weights is not None and Path(weights).is_file():
        return
    fitting = {known: form for known, form in tags.items() if bool(form.get("quick_gelu")) == quick_gelu}
    repositories = _repositories({tag: tags[tag]} if tag else fitting or tags)
    such, how = "", ""
    if repositories:
        known, repository = next(iter(repositories.items()))
        such, how = f", such as {WEIGHTS} of {repository} ({known})", f"; {getting(repository, WEIGHTS)}"
    said = "needs a file of weights with --weights" if weights is None else f"--weights {weights} is no file; name one"
    raise NoEncoderError(f"open_clip:{model_name}: {said}{such}{how}")


def _why(error: BaseException) -> str:
    """Return the reason in a line; torch names the tensors that do not fit in its second line."""
    return f"{' '.join(str(error).split()) or reason_of(error):.200}"


def _repositories(tags: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return tag -> repository of the Hugging Face Hub, of the tags that have one."""
    hubs = {tag: str(form.get("hf_hub") or "") for tag, form in tags.items()}
    return {tag: str(PurePosixPath(*PurePosixPath(hub).parts[:2])) for tag, hub in hubs.items() if hub}
