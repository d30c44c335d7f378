import inspect
from pathlib import Path

import pytest

from orchestrator.experiment.plugins import load_plugins
from search_spaces.space import bounds_of
from tests.support.plugins import plugins_gone_afterwards, write_plugin
from trainables.config import TrialConfig
from trainables.errors import ConfigError
from trainables.hyper_parameters import Entries
from trainables.loss_parameters import LOSS_PARAMETERS
from trainables.model_parameters import MODEL_PARAMETERS


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        ("vsepp", {}),
        ("vsrn", {"region_norm": "published", "norm_before_reasoning": False}),
        ("vsrn", {"region_norm": "features"}),
        ("scan", {"cross_attention": "i2t", "aggregation": "mean", "lambda_softmax": 4, "negative_slope": 0}),
        ("wsabie", {"radius": 2}),
        ("wsabie", {"radius": 0.1}),
    ],
)
def test_good_parameters_are_taken(model: str, parameters: dict) -> None:
    assert TrialConfig(dataset="scenes", model=model, model_parameters=parameters).model_parameters == parameters


@pytest.mark.parametrize(
    ("model", "parameters", "message"),
    [
        ("vsepp", {"radius": 1.0}, "model_parameters.radius: vsepp has no such parameter; did you mean"),
        ("vsrn", {"region_nrom": "published"}, "did you mean region_norm?"),
        ("vsrn", {"region_norm": "regions"}, "must be one of 'features', 'published', got 'regions'"),
        ("vsrn", {"norm_before_reasoning": 1}, "must be true or false, got 1"),
        ("scan", {"raw_feature_norm": "clipped_l3norm"}, "must be one of 'clipped_l2norm', 'l2norm'"),
        ("scan", {"negative_slope": -0.1}, "negative_slope must be a number of at least 0, got -0.1"),
        ("scan", {"lambda_lse": 0}, "lambda_lse must be a number above 0, got 0"),
        ("wsabie", {"radius": 0}, "radius must be a number above 0, got 0"),
        ("wsabie", {"radius": float("nan")}, "got nan"),
        ("wsabie", {"radius": float("inf")}, "got inf"),
        ("wsabie", {"radius": True}, "got True"),
        ("wsabie", {"radius": "1"}, "got '1'"),
    ],
)
def test_bad_parameters_are_refused(model: str, parameters: dict, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TrialConfig(dataset="scenes", model=model, model_parameters=parameters)
    assert message in str(caught.value)


BARE = """
from trainables.models.retrieval_model import RetrievalModel

@model()
class Bare(RetrievalModel):
    pass
"""


def test_a_plugin_model_without_parameters_refuses_every_parameter(tmp_path: Path) -> None:
    with plugins_gone_afterwards():
        load_plugins([str(write_plugin(tmp_path, BARE))])
        with pytest.raises(ConfigError, match=r"model_parameters.radius: bare has no parameters; leave it out"):
            TrialConfig(dataset="scenes", model="bare", model_parameters={"radius": 1.0})


def test_the_table_names_what_the_models_take() -> None:
    from trainables.models.ce import CE
    from trainables.models.clip import CLIP
    from trainables.models.gsmn import GSMN
    from trainables.models.hgr import HGR
    from trainables.models.scan import AGGREGATIONS, NORMS, SCAN
    from trainables.models.vsrn import RegionReasoning
    from trainables.models.wsabie import WSABIE

    ours = {"vsrn": RegionReasoning, "wsabie": WSABIE, "scan": SCAN, "gsmn": GSMN, "hgr": HGR, "ce": CE, "clip": CLIP}
    for model, encoder in ours.items():
        parameters = inspect.signature(encoder).parameters.values()
        taken = {one.name: one.default for one in parameters if one.kind is one.KEYWORD_ONLY}
        entries = {name: entry for name, entry in MODEL_PARAMETERS[model].items() if name != "encoder"}
        assert taken == {name: entry.default for name, entry in entries.items()}
    words = MODEL_PARAMETERS["scan"]
    assert all(words["raw_feature_norm"].rule.accepts(norm) for norm in NORMS)
    assert all(words["aggregation"].rule.accepts(name) for name in AGGREGATIONS)


# What an experiment may leave out, although no value of the rule says so.
WITHOUT = {"pooling", "hidden_size", "encoder"}


@pytest.mark.parametrize(("owner", "entries"), [*MODEL_PARAMETERS.items(), *LOSS_PARAMETERS.items()])
def test_defaults_and_ranges_obey_their_rules(owner: str, entries: Entries) -> None:
    for name, entry in entries.items():
        assert entry.rule.accepts(entry.default) or (entry.default is None and name in WITHOUT), f"{owner}.{name}"
        for bound in bounds_of({name: entry.space}).values():
            assert all(map(entry.rule.accepts, bound.ends())), f"{owner}.{name}"
            assert entry.first is None or bound.contains(entry.first), f"{owner}.{name}"
