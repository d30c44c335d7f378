"""A dataset in Karpathy's format that a test may change."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class KarpathyFolder:
    """Six images with two captions each, as a Karpathy JSON with features; ``content`` may be changed and saved."""

    root: Path
    content: Any

    @property
    def folder(self) -> Path:
        return self.root / "tiny"

    @property
    def file(self) -> Path:
        return self.folder / "dataset_tiny.json"

    @property
    def images(self) -> list[dict[str, Any]]:
        return self.content["images"]

    def save(self) -> None:
        self.file.write_text(json.dumps(self.content))
