"""Asks a packed model: a caption for images, or an image for captions.

``packed.py`` says what the folder of a packed model holds. MLflow finds ``_load_pyfunc`` here, which makes of such a
folder a model that MLflow can serve.

A new picture is put in as its pixels, or as features made like those of the model's dataset.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from trainables.data.inputs import INPUTS, CaptionInput, ImageInput
from trainables.data.pictures import decode
from trainables.data.sentences import text_key
from trainables.errors import CheckpointError, DataError, reason_of
from trainables.evaluation import evaluating
from trainables.representations import Gallery, converted, from_tensors
from trainables.seeding import choose_device
from trainables.serving.packed import (
    GALLERY,
    MODEL,
    build_unloaded,
    packed_config,
    read_about,
    use_packed,
    vocabulary_of,
)
from trainables.serving.queries import CaptionEncoder, caption_extractor, features_of_picture, missing_origin

if TYPE_CHECKING:
    from pandas import DataFrame


TOP = 10
"""Default number of answers."""

COLUMNS = ("caption", "image")
"""Columns of a table of queries; a row has a value in one of them."""

EXAMPLE = """a table with a column caption or image, e.g. pandas.DataFrame({"caption": ["two dogs run"]})"""


@dataclass(frozen=True)
class Match:
    """An image, or a caption with its image.

    The file name is empty where the source has none, and the caption where images were asked for. The score is the
    model's similarity to the query (mostly a cosine); larger is closer.
    """

    image: str
    filename: str
    caption: str
    score: float


class Retriever:
    """A packed model that answers queries.

    ``about`` is the content of ``retriever.json``.
    """

    def __init__(self, folder: Path, *, device: str = "cpu", trust_plugins: bool = False) -> None:
        """Load a folder of ``packed.write_retriever``; for the device see ``trainables.seeding``.

        With ``trust_plugins`` the packed code of a plug-in's model runs; a warning names the plug-in.

        Raises:
            CheckpointError: If the folder holds something else, is damaged, or would run code that is not trusted.
        """
        self.about = read_about(folder)
        self._device = choose_device(device)
        try:
            use_packed(folder, self.about, trust=trust_plugins)
            self._config = packed_config(folder, self.about)
            self._vocabulary = vocabulary_of(self.about)
            tensors = load_file(folder / GALLERY)
            gallery = {name: from_tensors(name, tensors) for name in ("images", "captions")}
            self._model = build_unloaded(self._config, self._vocabulary, self.about)
            self._model.load_state_dict(load_file(folder / MODEL))
        except (OSError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
            raise CheckpointError(f"{folder}: damaged: {reason_of(error)}; register the model again") from None
        self._folder = folder
        self._extractor = caption_extractor(folder, self.about, str(self._device))
        self._images, self._captions = (
            converted(vectors, lambda values: values.float().to(self._device)) for vectors in gallery.values()
        )
        self._model.to(self._device)

    def images_for(self, caption: str, top: int = TOP) -> list[Match]:
        """Return the images nearest to a caption, the nearest first.

        Raises:
            DataError: If the model reads features of captions, and their extractor is not packed with it.
        """
        scores = self._compare(self._images, self._query_caption(caption))[:, 0]
        return [self._answer(image, score) for image, score in _best(scores, top)]

    def captions_for(self, image: str | Path | Sequence[float], top: int = TOP) -> list[Match]:
        """Return the captions nearest to an image, the nearest first.

        The image is an id or file name of the gallery, features as the model reads them, or a picture file. Where no
        features can be made of a picture, it is found in the gallery by its name, see ``recognised``.

        Raises:
            DataError: If there is no such image, or features cannot be made of a picture.
        """
        scores = self._compare(self._query_image(image), self._captions)[0]
        owners, best = self.about["image_of_caption"], _best(scores, top)
        if (labels := self.about.get("candidates")) is not None:
            return [Match("", "", self.about["captions"][labels[label]], round(score, 6)) for label, score in best]
        return [self._answer(owners[caption], score, self.about["captions"][caption]) for caption, score in best]

    def captions_of(self, image: str) -> list[str]:
        """Return the captions that belong to an image of the gallery, named by its id."""
        index = self.about["images"].index(image)
        owners = zip(self.about["captions"], self.about["image_of_caption"], strict=True)
        return [caption for caption, owner in owners if owner == index]

    def doubts_about(self, caption: str | None, answers: Sequence[Match]) -> list[str]:
        """Return reasons to doubt the answers, a sentence each.

        The query is ``None`` where captions were asked for; of the answers, at least one, the first is the best.
        """
        words, unknown = self._words_of(caption)
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
                f"{self.about['dataset']} {self.about['split']} ({usual:.3f}): perhaps nothing there fits, or the "
                f"model has learned too little"
            )
        return doubts

    def _words_of(self, caption: str | None) -> tuple[Sequence[str], Sequence[str]]:
        """Return the words of a caption, and those that say nothing to the model; an encoder reads parts of words."""
        if caption is None or isinstance(self._extractor, CaptionEncoder) or self._model.reading.number:
            return [], []
        reads = self._vocabulary if self._extractor is None else self._extractor
        return reads.tokenizer(caption), reads.unknown(caption)

    def _usual_best(self, *, of_captions: bool) -> float:
        """Return the score that the best answers reach in 99 of 100 queries by the gallery's own images or captions.

        The queries are the whole gallery, or as many evenly spread items as are compared in about a second.
        """
        queries, gallery = (self._captions, self._images) if of_captions else (self._images, self._captions)
        step = max(1, -(-len(queries) * len(gallery) // self._model.quick_pairs))
        best = []
        # In parts, because COCO has 25,000 captions of 5,000 images.
        for part in torch.arange(0, len(queries), step).split(1024):
            batch = queries[part.to(self._device)]
            if of_captions:
                best.append(self._compare(gallery, batch).amax(0))
            else:
                best.append(self._compare(batch, gallery).amax(1))
        return float(torch.cat(best).quantile(0.01))

    def _compare(self, images: Gallery, captions: Gallery) -> Tensor:
        """Return the similarity of each image to each caption, on the CPU."""
        with evaluating(self._model):
            return self._model.compare(images, captions).float().cpu()

    def _answer(self, image: int, score: float, caption: str = "") -> Match:
        return Match(self.about["images"][image], self.about["filenames"][image], caption, round(score, 6))

    def _query_caption(self, caption: str) -> Gallery:
        if read := [name for name in self._config.inputs if isinstance(INPUTS[name], CaptionInput)]:
            return self._known_caption(caption, read[0])
        number = self._model.reading.number
        tokens = torch.tensor([self._vocabulary.encode(caption)] if number is None else np.array(number([caption])))
        lengths = torch.tensor([tokens.shape[1]])
        if self._config.reads_text_features:
            if self._extractor is None:
                raise DataError(
                    f"the model reads features of captions, and what made those of {self.about['dataset']} is not "
                    "packed with the model; ask with --image, or train on features that `data extract` makes"
                )
            tokens = torch.from_numpy(self._extractor.transform([caption]))
        with evaluating(self._model):
            encoded: Gallery = self._model.gather([self._model.encode_captions(tokens.to(self._device), lengths)])
            return encoded

    def _known_caption(self, caption: str, read: str) -> Gallery:
        """Return a caption of the gallery, encoded, for a model that reads more than its words."""
        keys = [text_key(known) for known in self.about["captions"]]
        if (key := text_key(caption)) not in keys:
            raise DataError(
                f"the model reads {read.replace('_', ' ')} of captions, and there is none of {caption!r:.80}; ask with "
                f"a caption of {self.about['dataset']} {self.about['split']}, such as {self.about['captions'][0]!r:.80}"
            )
        place = keys.index(key)
        return self._captions[place : place + 1]

    def _query_image(self, image: str | Path | Sequence[float]) -> Gallery:
        if not isinstance(image, str | Path):
            try:
                features = np.asarray(image, dtype=np.float32)
            except (TypeError, ValueError) as error:
                raise DataError(f"features must be numbers: {error}") from None
            return self._encode_features(features)
        name = self.recognised(image) or str(image)
        for names in (self.about["images"], self.about["filenames"]):
            if name in names:
                place = names.index(name)
                return self._images[place : place + 1]
        if _is_file(image):
            view = self._model.reading.view
            if view is None:
                return self._encode_features(
                    features_of_picture(Path(image), self.about["origin"], self._config.features, self._folder)
                )
            return self._encode(torch.from_numpy(view(decode(Path(image)), None).copy())[None])
        raise DataError(
            f"{image!s:.200}: neither an image of {self.about['dataset']} {self.about['split']} "
            f"({', '.join(self.about['images'][:3])} ...) nor a file"
        )

    def recognised(self, image: str | Path) -> str | None:
        """Return the file name by which a picture file is found in the gallery; ``None`` where its pixels are read."""
        name = Path(image).name
        is_known = name in self.about["filenames"]
        return name if is_known and _is_file(image) and not self.reads_pictures else None

    @property
    def reads_pictures(self) -> bool:
        """Whether a new picture can be encoded: by the model, or by the backbone of the dataset's features."""
        return self._model.reading.view is not None or missing_origin(self.about["origin"], self._folder) is None

    def _encode_features(self, features: np.ndarray) -> Gallery:
        if read := [name for name in self._config.inputs if isinstance(INPUTS[name], ImageInput)]:
            raise DataError(f"the model reads {read[0]} of images as well; ask with the id of an image of the gallery")
        shape, one_clip = self.about["feature_shape"], features.ndim == 2 and self.about.get("has_lengths", False)
        # A clip has its own number of frames.
        fits = list(features.shape) == shape or (one_clip and features.shape[1:] == (shape[-1],) and len(features))
        if not fits or not np.isfinite(features).all():
            wanted = tuple(self.about["feature_shape"])
            raise DataError(f"features must be finite and of shape {wanted}, got shape {features.shape}")
        return self._encode(torch.from_numpy(features)[None])

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

        The input is a data frame, or a list of mappings; ``top`` of ``params`` is the number of answers to each query.

        Returns:
            A row for each answer: ``query`` (position of the query in the table, from 0), ``rank`` (from 1), ``image``,
            ``filename``, ``caption`` and ``score`` as in ``Match``.

        Raises:
            DataError: If the input is no such table, a row has neither column, or an image is not known.
        """
        from pandas import DataFrame

        top = int((params or {}).get("top", TOP))
        rows = [
            {"query": query, "rank": rank, **asdict(answer)}
            for query, row in enumerate(_rows(model_input))
            for rank, answer in enumerate(self._ask(query, row, top), start=1)
        ]
        return DataFrame(rows, columns=["query", "rank", *(field.name for field in fields(Match))])

    def _ask(self, query: int, row: Mapping[str, Any], top: int) -> list[Match]:
        caption, image = row.get("caption"), row.get("image")
        if isinstance(caption, str) and caption.strip():
            return self._retriever.images_for(caption, top)
        if isinstance(image, str | list | tuple | np.ndarray) and len(image):
            return self._retriever.captions_for(image, top)  # type: ignore[arg-type]
        raise DataError(f"query {query}: holds neither a caption nor an image{_others(row)}")


def _rows(model_input: Any) -> list[Mapping[str, Any]]:
    if hasattr(model_input, "to_dict") and hasattr(model_input, "columns"):
        # MLflow drops columns that the signature does not name, and with the last column all rows.
        if not set(COLUMNS) & set(model_input.columns):
            raise DataError(f"queries are {EXAMPLE}; the table has neither column{_others(model_input.columns)}")
        return list(model_input.to_dict("records"))
    if not isinstance(model_input, list | tuple) or not all(isinstance(row, Mapping) for row in model_input):
        kind = type(model_input[0] if isinstance(model_input, list | tuple) and model_input else model_input).__name__
        raise DataError(f"queries are {EXAMPLE}; got {kind}")
    return list(model_input)


def _others(names: Iterable[Any]) -> str:
    others = ", ".join(sorted(str(name) for name in names if name not in COLUMNS))
    return f", got {others}" if others else ""


def _load_pyfunc(path: str) -> Served:
    """Load a packed model for MLflow."""
    # MLflow has already run the packed code of this package, so its user trusts the model's folder.
    return Served(Retriever(Path(path), trust_plugins=True))


def _is_file(image: str | Path) -> bool:
    try:
        return Path(image).is_file()
    except OSError:
        # A text that is too long for a name, such as the bytes of a picture in base64.
        return False


def _best(scores: Tensor, top: int) -> list[tuple[int, float]]:
    best = scores.topk(min(max(top, 1), len(scores)))
    return [(int(index), float(score)) for score, index in zip(best.values, best.indices, strict=True)]
