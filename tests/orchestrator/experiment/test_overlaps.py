"""A baseline that another loss of the experiment could be is named before the search, unless the search tries it."""

import pytest

from orchestrator.experiment.experiment import Experiment
from orchestrator.experiment.overlaps import overlaps
from orchestrator.experiment.yaml_files import Document, override, validate
from orchestrator.text.wording import printed

RELATIVE = "triplet_sh, polynomial_relative"


def said(losses: str, settings: str = "", dataset: str | None = None) -> list[str]:
    """Return the sentences about losses whose search has some settings, one behind the other."""
    given = [f"losses=[{losses}]", *(f"search.{setting}" for setting in settings.split("; ") if setting)]
    values = {"name": "tiny", "datasets": ["pets", "birds"] if dataset else ["pets"], "training": {"batch_size": 128}}
    return overlaps(validate(Experiment, override(Document("tiny.yaml", values), given)), dataset)


@pytest.mark.parametrize(
    ("losses", "settings"),
    [
        pytest.param("triplet_sh, polynomial_relative, polynomial_self", "", id="tried first"),
        pytest.param("triplet, nt_xent, smooth_ap, warp, polynomial_relative", "", id="no such loss"),
        pytest.param(RELATIVE, "fixed.polynomial_relative.coefficients=[0.2, 1.0]", id="nothing is searched"),
        pytest.param(
            "triplet_sh, polynomial_self",
            "fixed.polynomial_self={hinge: separate, gate: 0.2}",
            id="two hinges are never the triplet loss",
        ),
        pytest.param(RELATIVE, "fixed.polynomial_relative.gate=0.1", id="nor is a gate inside the margin"),
        pytest.param(
            RELATIVE,
            "fixed.triplet_sh.margin=0.3; "
            "enqueue.polynomial_relative=[{scale: 128.0, margin: 0.3, degree: 2, shape2: 0.5}]",
            id="enqueued",
        ),
        pytest.param(RELATIVE, "loss=choose", id="in one study"),
        pytest.param(
            RELATIVE,
            "sampler=grid; space.triplet_sh.margin={values: [0.2]}; "
            "space.polynomial_relative={e0: {values: [25.6]}, e1: {values: [64.0, 128.0]}}",
            id="in the grid",
        ),
    ],
)
def test_nothing_is_said_where_nothing_is_missed(losses: str, settings: str) -> None:
    assert said(losses, settings) == []


def test_a_baseline_that_is_inside_and_not_tried_is_named_with_its_point() -> None:
    assert said(RELATIVE, "fixed.triplet_sh.margin=0.3") == [
        "Polynomial (relative) with scale = 128, margin = 0.3, degree = 2, shape2 = 0.5 is Triplet SH with margin = "
        "0.3. The search does not try it first: `search.enqueue.polynomial_relative` can list it"
    ]


@pytest.mark.parametrize(
    ("loss", "setting", "outside"),
    [
        ("polynomial_relative", "space.polynomial_relative.scale=[1, 8]", "scale = 128 is not in [1, 8] log"),
        ("polynomial_self", "space.polynomial_self.balance=[2, 4]", "balance = 1 is not in [2, 4] log"),
        ("polynomial_self", "space.polynomial_self.push=[0.6, 1]", "push = 0.5 is not in [0.6, 1]"),
        (
            "polynomial_relative",
            "space.polynomial_relative.slope_0=[0, 2]",
            "offset = 25.6 is not in [0, 0.5], slope 0 = 128 is not in [0, 2], slope 1 = 128 is not in [0, 2]",
        ),
        (
            "polynomial_relative",
            "space.polynomial_relative={e0: {values: [25.6]}, e1: {values: [64.0]}}",
            "e1 = 128 is not in {64.0}",
        ),
    ],
)
def test_a_baseline_outside_is_named_with_the_bounds_that_leave_it_out(loss: str, setting: str, outside: str) -> None:
    sentences = said(f"triplet_sh, {loss}", setting)
    start = f"{printed(loss)} could be Triplet SH with margin = 0.2, which is outside its space: {outside}. "
    assert [sentence.startswith(start) for sentence in sentences] == [True]


def test_each_dataset_is_asked_for_alone() -> None:
    assert [len(said(RELATIVE, "space.polynomial_relative.slope_0=[0, 2]", name)) for name in ("pets", "cars")] == [
        1,
        0,
    ]
