"""A trained model packed with the encoded images and captions of a split, which answers queries without its dataset.

A folder holds ``model.safetensors``, ``gallery.safetensors`` (``images`` (I, E) and ``captions`` (C, E), float16; of a
model that compares sets, the vectors of all sets and ``images.lengths`` and ``captions.lengths``) and
``retriever.json`` (config, values of learned hyper-parameters of the loss, vocabulary, names). Nothing in it can run
code, but for the model of a plug-in: the text of the plug-ins that a training depended on lies under ``plugins/``, and
the text of a model's plug-in runs only for who trusts it. MLflow finds ``_load_pyfunc`` here, which makes of such a
folder a model that it can serve.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from trainables.checkpoint import BEST, read_file
from trainables.config import LEARNED, TrialConfig
from trainables.data.dataset import Dataset, Split
from trainables.data.resident import ResidentSplit
from trainables.data.strings import Strings
from trainables.data.tfidf import read_extractor
from trainables.data.vocabulary import UNKNOWN, Vocabulary, tokenize
from trainables.devices import choose_device
from trainables.errors import CheckpointError, DataError
from trainables.evaluation import encode_captions, encode_images, evaluating, load_best
from trainables.files import write_whole
from trainables.json_files import read_state
from trainables.models import build_model
from trainables.models.retrieval_model import RetrievalModel
from trainables.representations import Gallery, converted, from_tensors, to_tensors
from trainables.serving.packed_plugins import use_packed, write_plugins

if TYPE_CHECKING:
    from pandas import DataFrame

FORMAT = 1
MODEL, GALLERY, ABOUT = "model.safetensors", "gallery.safetensors", "retriever.json"
TEXT_EXTRACTOR = "text_extractor.safetensors"
"""File of the extractor of caption features, for a model that reads such features."""

TOP = 10
"""Default number of answers."""

COLUMNS = ("caption", "image")
"""Columns of a table of queries; a row has a value in one of them."""

EXAMPLE = """a table with a column caption or image, e.g. pandas.DataFrame({"caption": ["two dogs run"]})"""


@dataclass(frozen=True)
class Answer:
    """An image, or a caption with its image.

    Attributes:
        image: The source's id of the image.
        filename: File name of the image; empty where the source has none.
        caption: As written; empty where images were asked for.
        score: The model's similarity to the query (mostly a cosine); larger is closer.
    """

    image: str
    filename: str
    caption: str
    score: float


def write_retriever(
    folder: Path,
    checkpoint: Path,
    data: Dataset,
    split: str,
    *,
    origin: Mapping[str, Any] | None = None,
    text_extractor: Path | None = None,
) -> None:
    """Pack the best model of a checkpoint with the images and captions of a split.

    Args:
        folder: A new folder, which is made here.
        checkpoint: An ``epoch_NNNN`` directory.
        data: The dataset of the training.
        split: Split whose images and captions are the answers.
        origin: How features are made from a picture (the JSON that an extraction writes beside them), if known; without
            it, a new picture can only be queried by its features.
        text_extractor: Extractor of the captions' features, for a model that reads such features; without it, captions
            outside the gallery cannot be queried.

    Raises:
        CheckpointError: If the checkpoint is damaged, or of other data.
    """
    model, config = load_best(checkpoint, data)
    part = data.splits[split]
    with evaluating(model):
        resident = ResidentSplit(part, torch.device("cpu"), model.crop_size)
        gallery = {"images": encode_images(model, resident), "captions": encode_captions(model, resident)}
    folder.mkdir(parents=True)
    save_file({name: value.contiguous() for name, value in model.state_dict().items()}, folder / MODEL)
    kept = {name: converted(value, lambda numbers: numbers.half().contiguous()) for name, value in gallery.items()}
    save_file({name: value for each in kept for name, value in to_tensors(each, kept[each]).items()}, folder / GALLERY)
    if text_extractor is not None:
        write_whole(folder / TEXT_EXTRACTOR, text_extractor.read_bytes())
    caption_features = data.splits["train"].caption_features
    about = {
        "format": FORMAT,
        "config": config.to_dict(),
        "learned": read_file(checkpoint, BEST).get(LEARNED, {}),
        "dataset": data.name,
        "digest": data.digest,
        "split": split,
        "feature_shape": list(data.splits["train"].features.shape[1:]),
        "caption_size": None if caption_features is None else caption_features.shape[-1],
        "origin": None if origin is None else dict(origin),
        "vocabulary": data.vocabulary.words,
        "images": list(part.image_ids),
        "filenames": list(part.filenames),
        "captions": list(part.captions),
        "image_of_caption": part.image_of_caption.tolist(),
        "has_one_modality": part.labels is not None,
        "plugins": write_plugins(folder, config),
    }
    write_whole(folder / ABOUT, json.dumps(about, ensure_ascii=False))


class Retriever:
    """A packed model that answers queries.

    Attributes:
        about: Content of ``retriever.json``.
    """

    def __init__(self, folder: Path, *, device: str = "cpu", trust_plugins: bool = False) -> None:
        """Load a packed model.

        Args:
            folder: Folder of ``write_retriever``.
            device: See ``trainables.devices``.
            trust_plugins: Run the packed code of a plug-in's model; a warning names the plug-in.

        Raises:
            CheckpointError: If the folder holds something else, is damaged, or would run code that is not trusted.
        """
        self.about = _read_about(folder)
        self._device = choose_device(device)
        use_packed(folder, self.about, trust=trust_plugins)
        self._config = TrialConfig.from_dict(self.about["config"])
        self._vocabulary = Vocabulary(tuple(self.about["vocabulary"]))
        try:
            tensors = load_file(folder / GALLERY)
            gallery = {name: from_tensors(name, tensors) for name in ("images", "captions")}
            sizes = self.about["feature_shape"], self.about.get("caption_size")
            self._model = _build(self._config, self._vocabulary, *sizes, bool(self.about.get("has_one_modality")))
            self._model.load_state_dict(load_file(folder / MODEL))
        except (OSError, KeyError, RuntimeError, SafetensorError) as error:
            raise CheckpointError(
                f"{folder}: damaged: {str(error).splitlines()[0]}; register the model again"
            ) from None
        self._extractor = read_extractor(folder / TEXT_EXTRACTOR) if (folder / TEXT_EXTRACTOR).exists() else None
        self._images, self._captions = (converted(each, self._placed) for each in gallery.values())
        self._model.to(self._device)

    def images_for(self, caption: str, top: int = TOP) -> list[Answer]:
        """Return the images nearest to a caption, the nearest first.

        Raises:
            DataError: If the model reads features of captions, and their extractor is not packed with it.
        """
        scores = self._compare(self._images, self._query_caption(caption))[:, 0]
        return [self._answer(image, score) for image, score in _best(scores, top)]

    def captions_for(self, image: str | Path | Sequence[float], top: int = TOP) -> list[Answer]:
        """Return the captions nearest to an image, the nearest first.

        Args:
            image: An id or file name of the gallery, features as the model reads them, or a picture file.
            top: Number of captions.

        Raises:
            DataError: If there is no such image, or features cannot be made of a picture.
        """
        scores = self._compare(self._query_image(image), self._captions)[0]
        owners = self.about["image_of_caption"]
        best = _best(scores, top)
        return [self._answer(owners[caption], score, self.about["captions"][caption]) for caption, score in best]

    def captions_of(self, image: str) -> list[str]:
        """Return the captions that belong to an image of the gallery, named by its id."""
        index = self.about["images"].index(image)
        owners = zip(self.about["captions"], self.about["image_of_caption"], strict=True)
        return [caption for caption, owner in owners if owner == index]

    def doubts_about(self, caption: str | None, answers: Sequence[Answer]) -> list[str]:
        """Return reasons to doubt the answers, a sentence each.

        Args:
            caption: The query; ``None`` where captions were asked for.
            answers: The best first; at least one.
        """
        words = [] if caption is None else tokenize(caption)
        unknown = list(dict.fromkeys(word for word in words if not self._knows(word)))
        doubts = []
        if unknown and len(unknown) == len(set(words)):
            doubts.append("the model knows no word of the caption, so that the answers mean nothing")
        elif unknown:
            doubts.append(f"the model does not know {', '.join(unknown)}")
        usual = self._usual_best(of_captions=caption is not None)
        if answers[0].score < usual:
            kind = "captions" if caption is not None else "images"
            doubts.append(
                f"the best score, {answers[0].score:.3f}, is lower than the best score of 99 in 100 {kind} of "
                f"{self.about['dataset']} {self.about['split']} ({usual:.3f}): nothing there may fit, or the model has "
                f"learned too little to tell"
            )
        return doubts

    def _usual_best(self, *, of_captions: bool) -> float:
        """Return the score that the best answers reach in 99 of 100 queries by the gallery's own images or captions.

        The queries are the whole gallery, or as many evenly spread items as are compared in about a second.
        """
        queries, gallery = (self._captions, self._images) if of_captions else (self._images, self._captions)
        step = max(1, -(-len(queries) * len(gallery) // self._model.quick_pairs))
        best = []
        # In parts, because COCO has 25,000 captions of 5,000 images.
        for part in torch.arange(0, len(queries), step).split(1024):
            some = queries[part.to(self._device)]
            if of_captions:
                best.append(self._compare(gallery, some).amax(0))
            else:
                best.append(self._compare(some, gallery).amax(1))
        return float(torch.cat(best).quantile(0.01))

    def _compare(self, images: Gallery, captions: Gallery) -> Tensor:
        """Return the similarity of each image to each caption, on the CPU."""
        with evaluating(self._model):
            return self._model.compare(images, captions).float().cpu()

    def _placed(self, values: Tensor) -> Tensor:
        return values.float().to(self._device)

    def _answer(self, image: int, score: float, caption: str = "") -> Answer:
        return Answer(self.about["images"][image], self.about["filenames"][image], caption, round(score, 6))

    def _knows(self, word: str) -> bool:
        """Whether the model knows a word of a query."""
        if self._extractor is not None:
            return not self._extractor.unknown(word)
        return self._vocabulary.id_of(word) != UNKNOWN

    def _query_caption(self, caption: str) -> Gallery:
        """Return a caption as a gallery of one."""
        tokens = torch.tensor([self._vocabulary.encode(caption)])
        lengths = torch.tensor([tokens.shape[1]])
        if self._config.reads_text_features:
            if self._extractor is None:
                raise DataError(
                    f"the model reads features of captions, and what made those of {self.about['dataset']} is not "
                    "packed with the model; ask with --image, or train on features of `data extract --text tfidf-svd`"
                )
            tokens = torch.from_numpy(self._extractor.transform([caption]))
        with evaluating(self._model):
            encoded: Gallery = self._model.gather([self._model.encode_captions(tokens.to(self._device), lengths)])
            return encoded

    def _query_image(self, image: str | Path | Sequence[float]) -> Gallery:
        """Return an image as a gallery of one."""
        if not isinstance(image, str | Path):
            return self._encode_features(np.asarray(image, dtype=np.float32))
        for names in (self.about["images"], self.about["filenames"]):
            if str(image) in names:
                place = names.index(str(image))
                return self._images[place : place + 1]
        if Path(image).is_file():
            return self._encode_picture(Path(image))
        raise DataError(
            f"{image}: neither an image of {self.about['dataset']} {self.about['split']} "
            f"({', '.join(self.about['images'][:3])} ...) nor a file"
        )

    def _encode_features(self, features: np.ndarray) -> Gallery:
        if list(features.shape) != self.about["feature_shape"] or not np.isfinite(features).all():
            wanted = tuple(self.about["feature_shape"])
            raise DataError(f"features must be finite and of shape {wanted}, got shape {features.shape}")
        return self._encode(torch.from_numpy(features)[None])

    def _encode_picture(self, path: Path) -> Gallery:
        from trainables.serving.picture_features import features_of_picture, pixels_of_picture

        if self._model.crop_size:
            return self._encode(torch.from_numpy(pixels_of_picture(path, self._model.crop_size).copy())[None])
        return self._encode_features(features_of_picture(path, self.about["origin"], self._config.features))

    def _encode(self, images: Tensor) -> Gallery:
        with evaluating(self._model):
            encoded: Gallery = self._model.gather([self._model.encode_images(images.to(self._device))])
            return encoded


class Served:
    """A retriever with MLflow's interface: a table of queries in, a table of answers out."""

    def __init__(self, retriever: Retriever) -> None:
        self._retriever = retriever

    def predict(self, model_input: Any, params: Mapping[str, Any] | None = None) -> "DataFrame":
        """Answer each row of a table: a ``caption`` gets images, an ``image`` captions.

        Args:
            model_input: A data frame, or a list of mappings.
            params: ``top``: number of answers to each query.

        Returns:
            A row for each answer: ``query`` (position of the query in the table, from 0), ``rank`` (from 1), ``image``,
            ``filename``, ``caption`` and ``score`` as in ``Answer``.

        Raises:
            DataError: If the input is no such table, a row has neither column, or an image is not known.
        """
        from pandas import DataFrame

        top = int((params or {}).get("top", TOP))
        found = [
            {"query": query, "rank": rank, **asdict(answer)}
            for query, row in enumerate(_rows(model_input))
            for rank, answer in enumerate(self._ask(query, row, top), start=1)
        ]
        return DataFrame(found, columns=["query", "rank", *(one.name for one in fields(Answer))])

    def _ask(self, query: int, row: Mapping[str, Any], top: int) -> list[Answer]:
        caption, image = row.get("caption"), row.get("image")
        if isinstance(caption, str) and caption.strip():
            return self._retriever.images_for(caption, top)
        if isinstance(image, str | list | tuple | np.ndarray) and len(image):
            return self._retriever.captions_for(image, top)  # type: ignore[arg-type]
        raise DataError(f"query {query}: holds neither a caption nor an image{_others(row)}")


def _rows(model_input: Any) -> list[Mapping[str, Any]]:
    """Return the queries of a table."""
    if hasattr(model_input, "to_dict") and hasattr(model_input, "columns"):
        # MLflow drops columns that the signature does not name, and with the last column all rows.
        if not set(COLUMNS) & set(model_input.columns):
            raise DataError(f"queries are {EXAMPLE}; the table has neither column{_others(model_input.columns)}")
        return list(model_input.to_dict("records"))
    if not isinstance(model_input, list | tuple) or not all(isinstance(row, Mapping) for row in model_input):
        given = type(model_input[0] if isinstance(model_input, list | tuple) and model_input else model_input).__name__
        raise DataError(f"queries are {EXAMPLE}; got {given}")
    return list(model_input)


def _others(names: Iterable[Any]) -> str:
    """Return a text about the unknown columns of a query."""
    others = ", ".join(sorted(str(name) for name in names if name not in COLUMNS))
    return f", got {others}" if others else ""


def _load_pyfunc(path: str) -> Served:
    """Load a packed model for MLflow."""
    # MLflow has already run the packed code of this package, so its user trusts the model's folder.
    return Served(Retriever(Path(path), trust_plugins=True))


def _read_about(folder: Path) -> dict[str, Any]:
    try:
        about = read_state(folder / ABOUT)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{folder / ABOUT}: cannot be read: {error}; register the model again") from None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise CheckpointError(f"{folder / ABOUT}: not of format {FORMAT}; register the model again")
    return about


def _build(
    config: TrialConfig,
    vocabulary: Vocabulary,
    feature_shape: Sequence[int],
    caption_size: int | None,
    has_one_modality: bool,
) -> RetrievalModel:
    """Make the model of a config from the sizes of its dataset."""
    nothing = Strings.pack([])
    empty = Split(
        name="train",
        features=np.zeros((1, *feature_shape), dtype=np.float32),
        image_rows=np.zeros(0, dtype=np.int64),
        image_ids=nothing,
        filenames=nothing,
        tokens=np.zeros(0, dtype=np.int32),
        offsets=np.zeros(1, dtype=np.int64),
        image_of_caption=np.zeros(0, dtype=np.int64),
        captions=nothing,
        caption_features=None if caption_size is None else np.zeros((1, caption_size), dtype=np.float32),
        labels=np.zeros(0, dtype=np.int64) if has_one_modality else None,
    )
    return build_model(config, Dataset(config.dataset, "", vocabulary, {"train": empty}), pretrained=False)


def _best(scores: Tensor, top: int) -> list[tuple[int, float]]:
    found = scores.topk(min(max(top, 1), len(scores)))
    return [(int(index), float(score)) for score, index in zip(found.values, found.indices, strict=True)]
