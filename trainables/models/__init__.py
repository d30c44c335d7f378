"""The models by name; a name's kind of image features stands in ``trainables.config.FEATURES``."""

from trainables.config import TrialConfig
from trainables.data.dataset import Dataset
from trainables.models.retrieval_model import RetrievalModel
from trainables.models.vsepp import VSEPP
from trainables.models.vsrn import VSRN
from trainables.models.wsabie import WSABIE

MODELS: dict[str, type[RetrievalModel]] = {"vsepp": VSEPP, "vsrn": VSRN, "wsabie": WSABIE}


def build_model(config: TrialConfig, data: Dataset, *, pretrained: bool = True) -> RetrievalModel:
    """Make the model that a config names, untrained, drawing from torch's global generator.

    Args:
        config: Names the model and its sizes.
        data: What it is trained on.
        pretrained: Whether a backbone gets the weights that the config names; a checkpoint's come from the checkpoint.
    """
    model = MODELS[config.model].build(config, data, pretrained=pretrained)
    model.precision = config.training.precision
    return model
