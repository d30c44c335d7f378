"""The models by name; ``trainables.model_parameters.MODEL_TABLE`` has what is known of each without torch."""

from inspect import signature

from trainables.config import TrialConfig
from trainables.data.dataset import Dataset
from trainables.errors import Blaming, PluginError
from trainables.model_parameters import MODEL_TABLE
from trainables.models.retrieval_model import RetrievalModel
from trainables.plugins.in_use import NameTable, class_at, find_owner, run_offer


def _class_of_plugin(name: str, _: object) -> type[RetrievalModel]:
    offer, place = run_offer("models", name)
    if not (isinstance(offer.definition, type) and issubclass(offer.definition, RetrievalModel)):
        raise PluginError(f"{place}: must be a class of trainables.models.retrieval_model.RetrievalModel")
    if next(base for base in offer.definition.__mro__ if "build" in vars(base)) is RetrievalModel:
        try:
            signature(offer.definition).bind_partial(*range(4))
        except TypeError as error:
            wanted = "its first arguments are the numbers of image features and of words, embedding_size and word_size"
            raise PluginError(f"{place}: the constructor: {error}; without a build of the class, {wanted}") from None
    return offer.definition


MODELS: NameTable[type[RetrievalModel]] = NameTable(
    "models", {name: class_at(f"{__name__}.{entry.made_by}") for name, entry in MODEL_TABLE.items()}, _class_of_plugin
)


def build_model(config: TrialConfig, data: Dataset, *, pretrained: bool = True) -> RetrievalModel:
    """Make the model that a config names, untrained; initial parameters come from torch's global generator.

    Not ``pretrained``, a backbone gets no weights, because a checkpoint is loaded afterwards.
    """
    made = model_class(config.model)
    with Blaming():
        model = made.build(config, data, pretrained=pretrained)
    model.precision = config.training.precision
    return model


def model_class(name: str) -> type[RetrievalModel]:
    """Return the class of a model; an installed plug-in that offers the name is taken into use.

    Raises:
        PluginError: If the model's plug-in cannot be run, or offers no ``RetrievalModel``.
    """
    if name not in MODELS:
        find_owner("models", name)
    return MODELS[name]
