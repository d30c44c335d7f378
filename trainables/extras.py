"""The extras of the package, and the message about a missing extra.

Without extras the package reads datasets and experiment files. The extra ``train`` adds torch: losses, COCOS, metrics,
training and evaluation. A function that needs an extra calls
``require`` before its work. So a missing package ends a command with one line at once, and not with a traceback after
an hour. The names of the extras are the names in ``pyproject.toml``.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from types import MappingProxyType

from trainables.errors import UserError

_REPORT = ("scipy", "pandas", "jinja2")

EXTRAS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "train": ("torch",),
        "search": ("torch", "ray", "optuna", "cmaes", "pyarrow", *_REPORT),
        "tracking": ("mlflow", *_REPORT),
        "report": _REPORT,
        "judge": ("scipy", "jinja2"),
        "figures": ("plotly", *_REPORT),
        "watch": ("starlette", "uvicorn", "h11", "anyio", *_REPORT),
        "server": ("psycopg2", "boto3", "flask_wtf", "mlflow", *_REPORT),
        "pictures": ("torch", "torchvision"),
        "captions": ("nltk",),
        "text": ("sklearn",),
        "tokenizers": ("tokenizers",),
        "sentences": ("sentence_transformers",),
        "encoders": ("torch", "torchvision", "open_clip", "transformers", "peft", "sentence_transformers"),
        "coco": ("pycocotools",),
        "import": ("pyarrow", "webdataset", "h5py"),
        "datasets": ("datasets",),
        "parse": ("spacy",),
        "video": ("av",),
        "mcp": ("mcp",),
        "tensorboard": ("tensorboardX",),
        "wandb": ("wandb",),
    }
)
"""Extra -> the imported modules of the extra, including the modules of the extras in this extra."""


class MissingExtraError(UserError):
    """A package is missing, because its extra was not installed."""


def require(extra: str, user: str, *modules: str) -> None:
    """Refuse work that needs an extra that is not installed.

    Args:
        extra: A name of ``EXTRAS``.
        user: The work that needs the extra, as the subject of a sentence: ``a search``.
        modules: The modules of the extra that are needed; by default all modules of the extra.

    Raises:
        MissingExtraError: If one of the modules is not installed; the text has the command that installs the extra.

    Example:
        >>> require("train", "a training", "torch")
    """
    missing = missing_modules(*(modules or EXTRAS[extra]))
    if missing:
        raise MissingExtraError(missing_extra(extra, user, missing))


def missing_extra(extra: str, user: str, missing: Sequence[str]) -> str:
    """Return the message about missing modules of an extra, at least one."""
    *others, last = missing
    listed = f"{', '.join(others)} and {last}, which are" if others else f"{last}, which is"
    return f"{user} needs {listed} not installed: pip install 'icr-orchestrator[{extra}]'"


def missing_modules(*modules: str) -> list[str]:
    """Return the modules that are not installed; nothing is imported."""
    return [module for module in modules if not _is_installed(module)]


def is_installed(extra: str) -> bool:
    """Say whether all modules of an extra are installed."""
    return not missing_modules(*EXTRAS[extra])


@cache
def _is_installed(module: str) -> bool:
    spec = find_spec(module)
    # A folder with the module's name beside the script is also found, but its ``origin`` is ``None``.
    return spec is not None and spec.origin is not None
