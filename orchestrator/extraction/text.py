"""Computes the feature file of a dataset's captions."""

import hashlib
from pathlib import Path
from typing import Any

from orchestrator.extraction.feature_files import open_corpus, write_features
from trainables.config import TEXT
from trainables.data.dataset import tokenizer_of
from trainables.data.features import captions_digest
from trainables.data.source import find_source
from trainables.data.text_features import NAME, encode_sentences, extractor_path, fit_tfidf
from trainables.data.tokenizers import ENGLISH
from trainables.errors import ConfigError
from trainables.files import default_cache, write_whole


def extract_text(
    dataset: str,
    data_root: Path,
    extractor: str,
    *,
    dimensions: int,
    seed: int,
    out: Path | None,
    device: str,
    tokenizer: str | None = None,
) -> dict[str, Any]:
    """Make the features of all captions of a dataset; see ``open_corpus`` for the places.

    ``extractor`` is ``tfidf-svd``, fitted on the train captions, or the folder of a sentence encoder, which runs on
    ``device``, see ``trainables.seeding``. ``tfidf-svd`` alone has ``dimensions``, the features of each caption, >= 1,
    the ``seed`` of the decomposition, >= 0, and a ``tokenizer``, see ``tokenizers.find_tokenizer``; ``None`` infers it.

    Returns:
        Plain values for JSON: the number of ``captions``, the ``dimensions`` of each, all ``files`` that were written,
        the features first, and the ``tokenizer``, ``None`` for a sentence encoder, which has its own.

    Raises:
        ConfigError: If the extractor, the dimensions or the folder are refused.
        DataError: If the dataset is missing or damaged.
    """
    folder = Path(extractor)
    if extractor != NAME and not folder.is_dir():
        raise ConfigError(f"--text must be {NAME} or the folder of a sentence encoder; there is no folder {extractor}")
    if extractor != NAME and tokenizer is not None:
        raise ConfigError(f"--tokenizer goes with --text {NAME}; a sentence encoder has its own")
    corpus, (target,) = open_corpus(dataset, data_root, out, [TEXT])
    captions = [caption for image in corpus.images for caption in image.captions]
    about: dict[str, Any] = {"captions_digest": captions_digest(corpus.images), "captions": len(captions)}
    cut, fitted_files = None, []
    if extractor == NAME:
        cut = tokenizer_of(find_source(dataset, data_root), tokenizer, default_cache())
        train = [caption for image in corpus.split("train") for caption in image.captions]
        fitted = fit_tfidf(train, dimensions, seed, cut)
        content = fitted.to_bytes()
        write_whole(extractor_path(target), content)
        fitted_files = [str(extractor_path(target))]
        features = fitted.transform(captions)
        about |= {"extractor": NAME, "extractor_digest": hashlib.sha256(content).hexdigest(), "seed": seed}
        if cut != ENGLISH:
            about["tokenizer"] = cut.identity
    else:
        from trainables.seeding import choose_device

        features = encode_sentences(captions, folder, str(choose_device(device)))
        about |= {"extractor": "sentence-encoder", "folder": folder.name}
    first, origin = write_features([target], [features], [{"kind": TEXT, **about}])
    made = {"captions": len(captions), "dimensions": features.shape[1]}
    return {**made, "files": [first, *fitted_files, origin], "tokenizer": cut.title if cut else None}
