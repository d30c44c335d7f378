"""MSR-VTT as its authors gave it: ``*videodatainfo*.json``, one file of all splits or several.

::

    {"videos": [{"video_id": "video0", "split": "train", ...}],
     "sentences": [{"video_id": "video0", "caption": "a man drives a car", ...}]}

A clip takes the place of an image. Feature rows follow ``videos``, file after file; captions follow ``sentences``.
``train_val_videodatainfo.json`` and ``test_videodatainfo.json`` are read together.

References:
    [Xu2016] Xu et al., MSR-VTT: A Large Video Description Dataset for Bridging Video and Language. CVPR 2016
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from trainables.data.corpus import SPLIT_ALIASES, Corpus, Image, caption_problem
from trainables.data.text_files import checked, read_json, records

FORMAT = "MSR-VTT (*videodatainfo*.json)"


def find(folder: Path) -> list[Path]:
    """Return the JSON files; the file of train and val comes before the file of test."""
    return sorted(folder.glob("*videodatainfo*.json"), key=lambda path: ("test" in path.name, path.name))


def read(files: Sequence[Path]) -> Corpus:
    """Read the clips and their captions; problems are collected, an unreadable file raises ``DataError``."""
    problems: list[str] = []
    splits: dict[str, tuple[str, str]] = {}
    captions: dict[str, list[str]] = {}
    for file in files:
        content = read_json(file)
        videos = records(file, content, "videos", "MSR-VTT")
        for place, record in checked(videos, partial(_video_problem, known=splits), problems):
            splits[record["video_id"]] = (place, SPLIT_ALIASES[record["split"]])
        sentences = records(file, content, "sentences", "MSR-VTT")
        for _, record in checked(sentences, partial(_sentence_problem, known=splits), problems):
            captions.setdefault(record["video_id"], []).append(record["caption"])
    images = [Image(place, name, "", split, tuple(captions.get(name, ()))) for name, (place, split) in splits.items()]
    return Corpus(str(files[0]), images, problems)


def _video_problem(record: Any, known: dict[str, tuple[str, str]]) -> str | None:
    if not isinstance(record, dict) or not isinstance(record.get("video_id"), str) or not record["video_id"]:
        return "another schema: must be an object with the text video_id"
    if record["video_id"] in known:
        return f"video_id {record['video_id']!r} is that of {known[record['video_id']][0]} too"
    if not isinstance(record.get("split"), str) or record["split"] not in SPLIT_ALIASES:
        return f"split must be train, validate or test, got {record.get('split')!r:.60}"
    return None


def _sentence_problem(record: Any, known: dict[str, tuple[str, str]]) -> str | None:
    if not isinstance(record, dict):
        return "another schema: must be an object with video_id and caption"
    if not isinstance(record.get("video_id"), str) or record["video_id"] not in known:
        return f"video_id {record.get('video_id')!r:.60} is none of videos"
    return caption_problem(record.get("caption"))
