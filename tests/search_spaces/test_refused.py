"""What a study's space refuses before anything starts, with its key."""

import pytest

from orchestrator.experiment.experiment import Experiment
from orchestrator.experiment.yaml_files import Document, override, validate
from trainables.errors import ConfigError

CONSTANT = "must hold a coefficient of power 1 or above.* got the constant"
PUSH = "push needs a joint hinge"
COUNT = "search.space.triplet.*(whole number|start above 0)"
GRID = "sampler=grid; space.LOSS.temperature={values: [0.2]}; "
REFUSED = {
    "polynomial_relative": [
        ("fixed.LOSS.coefficients=[0.2, -1.0]", r"on \[-1, 2\], got \(0.2, -1.0\), .* raise .* by 1,.*infeasible"),
        (
            "space.LOSS={e0: {values: [0.2]}, e1: {values: [0.5, 1.0]}, e2: {values: [0.0, 2.0]}}",
            r"search.space.polynomial_relative: coefficients must rise .* got \(0.2, 0.5, 2.0\)",
        ),
        ("space.LOSS.e1=[0.5, 1.0]", "e1 must list its values.*searched by scale, margin and shape"),
        ("space.LOSS.e1={values: [1.0]}; fixed.LOSS.coefficients=[0.2, 1.0]", "are fixed, so e1 cannot be searched"),
        ("fixed.LOSS.gate=1.5; space.LOSS.slope_0=[0, 1]", "gate must be at most 1 where slope_0, .*, got 1.5"),
        ("space.LOSS.slope_0=[-1, 1]", "at least 0"),
        ("space.LOSS.degree={values: [5]}", "one of 1, 2, 3, 4"),
        ("space.LOSS.slope_7=[0, 1]", "did you mean"),
        ("space.LOSS={scale: [1, 8], slope_0: [0, 1]}", "scale and slope_0 are of two parametrisations"),
        ("space.LOSS.scale={values: [0]}", "scale must be a number above 0"),
        ("space.LOSS.shape2=[0, 2]", r"in \[0, 1\], got 2"),
        ("space.LOSS.scael=[1, 2]", "did you mean 'scale'"),
        ("fixed.LOSS.gate=wide", "search.fixed.*gate must be"),
        ("fixed.LOSS.coefficients=[0.5]", CONSTANT),
        ("space.LOSS.e0={values: [0.1, 0.5]}", CONSTANT),
    ],
    "polynomial_self": [
        ("fixed.LOSS={positive_coefficients: [0.5], negative_coefficients: [0.1]}", CONSTANT),
        ("space.LOSS={a0: {values: [0.5]}, b0: {values: [0.0, 0.1]}}", CONSTANT),
        ("space.LOSS={balance: [0.5, 2.0], push: [0.2, 0.4]}", "push and balance are of two parametrisations"),
        ("fixed.LOSS={hinge: separate, push: 0.5}", PUSH),
        ("fixed.LOSS.hinge=separate; space.LOSS.push=[0.2, 0.4]", PUSH),
    ],
    "triplet": [
        ("space.LOSS.negatives=[0, 4]", COUNT),
        ("space.LOSS.negatives=[1, 4.5]", COUNT),
        ("space.LOSS.negatives={values: [1, 2.5]}", COUNT),
        ("space.LOSS.negatives={values: [most]}", COUNT),
    ],
    "nt_xent": [
        ("training.learning_rat=[1, 2]", "search.training.learning_rat: unknown name.*did you mean"),
        ("training.learning_rate=[-1.0, 0.1]", "log-uniform range must start above 0"),
        ("training.learning_rate=[0.1, 0.01]", "finite low < high"),
        ("training.learning_rate=nowhere", "search.training.learning_rate"),
        ("training.batch_size={values: [1]}", "batch_size: must be at least 2"),
        ("training.batch_size={values: [32.5]}", "search.training.batch_size"),
        ("training.learning_rate_drop_epochs=[1.5, 3]", "whole ends"),
        ("training.epochs=[1, 3]", "unknown name 'epochs'"),
        ("model_parameters.radius=[-1, 1]", "above 0"),
        ("model_parameters.radios=[1, 2]", "did you mean 'radius'"),
        ("model_parameters.backbone=default", "no default place to look"),
        ("model_parameters.backbone={values: [vgg19]}", "backbone cannot be searched"),
        ("sampler=grid; training.learning_rate=default", "a grid needs values"),
        (GRID + "enqueue.LOSS=[{temperature: 0.2}]", "search.enqueue: a grid"),
        (GRID + "warm_start_from=[a]", "search.warm_start_from: a grid"),
    ],
}


@pytest.mark.parametrize(
    ("loss", "settings", "message"),
    [pytest.param(loss, *row, id=f"{loss}-{row[0]}") for loss, rows in REFUSED.items() for row in rows],
)
def test_what_is_refused(loss: str, settings: str, message: str) -> None:
    values = {"name": "p", "datasets": ["pets"], "losses": [loss], "models": ["vsepp", "wsabie"]}
    given = [f"search.{setting}" for setting in settings.replace("LOSS", loss).split("; ")]
    with pytest.raises(ConfigError, match=message):
        validate(Experiment, override(Document("p.yaml", values), given))
