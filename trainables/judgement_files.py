"""Where judgements of people join: the only module that knows ``judgements/``, without which no dataset has any."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from trainables.data.corpus import Corpus
from trainables.data.dataset import Split
from trainables.judged_ranks import JudgedSplit


def load_judgements(name: str, data_root: Path, splits: Mapping[str, Split]) -> Mapping[str, Sequence[JudgedSplit]]:
    """Return split -> judgements that lie beside a dataset, of judged splits alone.

    Raises:
        DataError: If a file of judgements is damaged, or does not belong to the dataset.
    """
    if find_spec("trainables.judgements") is None:
        return {}
    from trainables.judgements import files

    return files.load_judgements(name, data_root, splits)


def describe_judgements(
    name: str, data_root: Path, splits: Mapping[str, Split], corpus: Corpus
) -> tuple[Mapping[str, list[dict[str, Any]]], list[str]]:
    """Return split -> counts of each set of judgements, and a sentence about each set that is of other data.

    Raises:
        DataError: See ``load_judgements``.
    """
    if find_spec("trainables.judgements") is None:
        return {}, []
    from trainables.judgements import files

    return files.describe_judgements(name, data_root, splits, corpus)
