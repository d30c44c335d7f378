"""A packed model as a model of MLflow: the loader and its code, what it needs, and what a query is."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlflow.models import ModelSignature

REQUIREMENTS = ["torch", "torchvision", "numpy", "pandas", "safetensors", "pillow", "nltk"]
"""What the packed code imports; no versions, because any that train will do."""


def save_model(packed: Path, folder: Path) -> None:
    """Write a packed model with the code that loads it as a model of MLflow.

    Args:
        packed: Folder of the packed model.
        folder: Of the model of MLflow; it does not exist yet.
    """
    import mlflow.pyfunc

    import trainables

    code = [str(Path(trainables.__file__ or "").parent)]
    with warnings.catch_warnings():
        # It wants an example of the input, which would have to be run for that.
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
    """Return what a query is: a caption, or an image of the gallery, and how many answers it gets."""
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema

    caption, image = (ColSpec("string", name, required=False) for name in ("caption", "image"))
    return ModelSignature(inputs=Schema([caption, image]), params=ParamSchema([ParamSpec("top", "long", 10)]))
