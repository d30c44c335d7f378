"""Hints for names by which papers and other programs call ours."""

import pytest

from orchestrator.experiment.values import SAMPLERS, SELECTING
from search_spaces import SPACES
from search_spaces.other_names import OTHER_NAMES, nearest
from trainables.config import TrainingConfig
from trainables.model_parameters import FEATURES


def test_every_hint_names_what_there_is_and_no_name_of_ours_is_a_name_of_others() -> None:
    parameters = {name for space in SPACES.values() for name in space.parameters}
    keys = {*vars(TrainingConfig()), "trials", "seeds"}
    ours = {*SPACES, *FEATURES, *SAMPLERS, *SELECTING, *parameters, *keys}
    assert {*OTHER_NAMES.values()} <= ours
    assert not {*OTHER_NAMES} & {*SPACES, *FEATURES, *SAMPLERS, *keys}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        *(("InfoNCE", "nt_xent"), ("info_nce", "nt_xent"), ("InfoNCELoss", "nt_xent"), ("NT-Xent", "nt_xent")),
        *(("CLIPLoss", "nt_xent"), ("SigLIP", "sigmoid"), ("SmoothAP", "smooth_ap"), ("tripletsh", "triplet_sh")),
        *(("max_violation", "triplet_sh"), ("DCL", "decoupled"), ("Multi-Similarity", "multi_similarity")),
        *(("nt_xnt", "nt_xent"), ("zzz", None)),
    ],
)
def test_a_loss_is_found_by_its_common_names(written: str, meant: str | None) -> None:
    assert nearest(written, list(SPACES)) == meant
