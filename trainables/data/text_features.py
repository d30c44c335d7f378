"""Features of captions: weighted counts of words on their principal directions.

With n(t, c) how often word t is in caption c, N captions in the train split, N_t of which hold t,

    w(t, c) = (1 + ln n(t, c)) (ln((1 + N) / (1 + N_t)) + 1),    x(c) = S^(-1) V^T w(c) / |w(c)|

with V the right singular vectors of the train captions' rows w(c) / |w(c)| (latent semantic analysis), and S the
standard deviation of each dimension over the train captions. Words count if at least ``FEWEST`` train captions hold
them. Pairs of neighbouring words do not count: they would push words out of the first directions. scikit-learn fits the
extractor. A fitted extractor needs NumPy alone, and is kept beside the features, so that new captions can be queries.

References:
    [Deerwester1990] Deerwester et al., Indexing by Latent Semantic Analysis, J. Am. Soc. Inf. Sci. 41(6), 391-407.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from trainables.data.features import description_of, sidecars
from trainables.data.tokenizers import ENGLISH, Tokenizer
from trainables.errors import ConfigError, DataError
from trainables.extras import require
from trainables.files import parse_state

NAME = "tfidf-svd"
"""Name of this extractor for ``data extract --text``."""

FEWEST = 2
"""Least number of train captions with a word that counts."""


@dataclass(frozen=True, eq=False)
class TfidfSvd:
    """A fitted extractor.

    Attributes:
        terms: Words; V strings.
        idf: Weight of each term, shape (V,), float32, >= 1.
        directions: V S^(-1), shape (V, D), float32.
    """

    terms: tuple[str, ...]
    idf: np.ndarray
    directions: np.ndarray
    tokenizer: Tokenizer = ENGLISH

    @cached_property
    def _places(self) -> dict[str, int]:
        return {term: place for place, term in enumerate(self.terms)}

    def transform(self, captions: Sequence[str]) -> np.ndarray:
        """Return the features of some captions, shape (len(captions), D), float32; zeros where no term is known."""
        features = np.zeros((len(captions), self.directions.shape[1]), dtype=np.float32)
        for row, caption in zip(features, captions, strict=True):
            counts = Counter(self._places[term] for term in self.tokenizer(caption) if term in self._places)
            if counts:
                places = np.array(list(counts))
                weights = (1 + np.log(np.array(list(counts.values())))) * self.idf[places]
                row[:] = weights / np.linalg.norm(weights) @ self.directions[places]
        return features

    def unknown(self, caption: str) -> list[str]:
        """Return the words of a caption that are no terms, each once."""
        return list(dict.fromkeys(word for word in self.tokenizer(caption) if word not in self._places))

    def to_bytes(self) -> bytes:
        """Return the extractor as a safetensors file; ``read_extractor`` takes it back."""
        tensors = {"idf": np.ascontiguousarray(self.idf), "directions": np.ascontiguousarray(self.directions)}
        about = {"name": NAME, "terms": json.dumps(self.terms)}
        if self.tokenizer != ENGLISH:
            about["tokenizer"] = json.dumps([self.tokenizer.name, self.tokenizer.content])
        return save(tensors, metadata=about)


DIMENSIONS = 512
"""Usual features of a caption."""


def fit_tfidf(captions: Sequence[str], dimensions: int | None, seed: int, tokenizer: Tokenizer = ENGLISH) -> TfidfSvd:
    """Fit an extractor.

    Args:
        captions: Captions of the train split, at least two.
        dimensions: D, >= 1; fewer than the terms and the captions. ``None``: ``DIMENSIONS``, or as many as can be.
        seed: Seed of the randomised decomposition [Halko et al., arXiv:0909.4061], from 0 to 2**32 - 1.
        tokenizer: Cuts captions into words.

    Raises:
        MissingExtraError: If scikit-learn is not installed.
        ConfigError: If there are fewer terms than dimensions, or the seed is refused.
    """
    require("text", f"--text {NAME}")
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(analyzer=tokenizer, min_df=FEWEST, sublinear_tf=True, dtype=np.float64)
    try:
        weights = vectorizer.fit_transform(captions)
    except ValueError as error:
        raise ConfigError(f"--text {NAME}: no word is in {FEWEST} train captions ({error})") from None
    terms = vectorizer.get_feature_names_out()
    fewest = min(len(terms), len(captions))
    dimensions = min(DIMENSIONS, fewest - 1) if dimensions is None else dimensions
    if not 0 < dimensions < fewest:
        raise ConfigError(
            f"--dimensions must be at least 1 and below {fewest:,}, for the train captions "
            f"hold {len(terms):,} words in {len(captions):,} captions; got {dimensions}"
        )
    if not 0 <= seed < 2**32:
        raise ConfigError(f"--seed must be from 0 to 2**32 - 1, got {seed}")
    decomposition = TruncatedSVD(dimensions, random_state=seed)
    spread = decomposition.fit_transform(weights).std(axis=0)
    # In a few captions some directions hold nothing but rounding, which must not be scaled up to a feature.
    directions = decomposition.components_.T / np.where(spread > 1e-6 * spread.max(), spread, 1.0)
    return TfidfSvd(
        tuple(map(str, terms)), vectorizer.idf_.astype(np.float32), directions.astype(np.float32), tokenizer
    )


def read_extractor(path: Path) -> TfidfSvd:
    """Read a file of ``TfidfSvd.to_bytes``; nothing in it can run code.

    Raises:
        DataError: If the file is damaged or something else.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            about = file.metadata()
            terms = parse_state(about["terms"])
            # Files of older versions, and those of English, do not name their tokenizer.
            tokenizer = Tokenizer(*parse_state(about["tokenizer"])) if "tokenizer" in about else ENGLISH
            idf, directions = (file.get_tensor(name) for name in ("idf", "directions"))
        if not isinstance(terms, list) or not all(isinstance(term, str) for term in terms):
            raise ValueError("its terms are no list of words")
        if idf.shape != (len(terms),) or directions.ndim != 2 or len(directions) != len(terms):
            raise ValueError(f"{len(terms)} terms, idf of shape {idf.shape}, directions of shape {directions.shape}")
        if not all(np.issubdtype(array.dtype, np.floating) for array in (idf, directions)):
            raise ValueError(f"must hold floating-point numbers, got {idf.dtype} and {directions.dtype}")
        return TfidfSvd(tuple(terms), idf, directions, tokenizer)
    except (OSError, AttributeError, KeyError, TypeError, ValueError, SafetensorError) as error:
        raise DataError(f"{path}: is no extractor of captions' features: {error}; make the features again") from None


def extractor_path(features: Path) -> Path:
    """Return where the fitted extractor of ``features_KIND.npy`` lies: ``extractor_KIND.safetensors`` beside it."""
    return features.with_name(f"{features.stem.replace('features_', 'extractor_', 1)}.safetensors")


def extractor_file(features: Path) -> Path | None:
    """Return the file of the fitted extractor that made some features; ``None`` where there is none.

    Raises:
        DataError: If the extractor beside the features did not make them.
    """
    path, description = extractor_path(features), description_of(features) or {}
    # One that is left of earlier features says nothing about those of an encoder.
    if not path.exists() or description.get("extractor") != NAME:
        return None
    if hashlib.sha256(path.read_bytes()).hexdigest() != description.get("extractor_digest"):
        named = sidecars(features)[0].name
        raise DataError(f"{path}: did not make {features.name}, says {named}; make the features again")
    return path
