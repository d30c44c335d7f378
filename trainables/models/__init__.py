"""The models by name; a name's kind of image features stands in ``trainables.config.FEATURES``."""

from trainables.config import TrialConfig
from trainables.data.dataset import Dataset
from trainables.models.retrieval_model import RetrievalModel
from trainables.models.vsepp import VSEPP
from trainables.models.vsrn import VSRN
from trainables.models.wsabie import WSABIE

MODELS: dict[str, type[RetrievalModel]] = {"vsepp": VSEPP, "vsrn": VSRN, "wsabie": WSABIE}


def build_model(config: TrialConfig, data: Dataset) -> RetrievalModel:
    """Make the model that a config names, untrained, drawing from torch's global generator."""
    return MODELS[config.model].build(config, data)
