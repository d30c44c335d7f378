"""Writes a packed model as an MLflow model: with the loader's code, its requirements and its signature."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlflow.models import ModelSignature

REQUIREMENTS = ["torch", "torchvision", "numpy", "pandas", "safetensors", "pillow", "nltk"]
"""Packages that the packed code imports; without versions, because all versions that can train also serve."""


def save_model(packed: Path, folder: Path) -> None:
    """Write a packed model, with the code that loads it, as an MLflow model.

    Args:
        packed: Folder of the packed model.
        folder: Folder of the MLflow model, which does not exist yet.
    """
    import mlflow.pyfunc

    import trainables

    code = [str(Path(trainables.__file__ or "").parent)]
    with warnings.catch_warnings():
        # MLflow asks for an example of the input, which would have to be run through the model.
        warnings.simplefilter("ignore", UserWarning)
        mlflow.pyfunc.save_model(
            str(folder),
            loader_module="trainables.serving.retriever",
            data_path=str(packed),
            code_paths=code,
            pip_requirements=REQUIREMENTS,
            signature=_signature(),
        )


def _signature() -> "ModelSignature":
    """Return the signature: a query is a caption or an image of the gallery, with a number of answers."""
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema

    caption, image = (ColSpec("string", name, required=False) for name in ("caption", "image"))
    return ModelSignature(inputs=Schema([caption, image]), params=ParamSchema([ParamSpec("top", "long", 10)]))
