"""Claims of a paper, read from YAML: statement, place in the paper, and form over cells.

A cell is a dataset, a model and a loss; a claim is about metrics of cells. Its form is a list of parts that must all
hold. A part compares, in every group (dataset and model) that it selects and in every metric that it names,

    beats       one loss with others: the difference of the means is above ``by``
    best        one loss with others: no other mean is above by ``margin`` or more, and none is higher
    not_better  one loss with others: the difference of the means is below ``margin``
    alike       one loss with others: the difference lies between -margin and margin
    above       the mean of a loss is above ``than``
    below       the mean of a loss is below ``than``
    same_best   the loss with the highest mean in ``metrics`` has the highest in ``and_metrics``, or within ``margin``
    opposed     over the ranks of the losses in ``metrics``, the means of ``and_metrics`` fall

A part must hold in all groups and metrics; ``opposed`` is about the mean over the groups, for each pair of metrics.

A loss may be named with its setting. ``nt_xent`` is the loss at its published setting, and ``nt_xent(best)`` the best
setting of its search. ``polynomial_self(degree=2)`` is the best of the settings that were searched with this degree.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, model_validator

from orchestrator.experiment.values import Name
from orchestrator.experiment.yaml_files import STRICT, find_file, read_yaml, validate
from orchestrator.reference.published import shipped_claims

Kind = Literal["beats", "best", "not_better", "alike", "above", "below", "same_best", "opposed"]

BEST = "best"
"""In the place of a setting: the best setting of the search, whatever it is."""

_SETTING = re.compile(r"\w+(?:\((?:best|\w+=[\w.+-]+(?:, ?\w+=[\w.+-]+)*)\))?")


def setting_of(name: str) -> tuple[str, Mapping[str, float | str] | None]:
    """Return the loss that a part names and its setting; ``None`` is the published setting, empty the best of all.

    Example:
        >>> setting_of("nt_xent"), setting_of("warp(rank_weight=constant)"), setting_of("polynomial_self(degree=2)")
        (('nt_xent', None), ('warp', {'rank_weight': 'constant'}), ('polynomial_self', {'degree': 2.0}))
    """
    loss, _, inside = name.removesuffix(")").partition("(")
    if not inside:
        return loss, None
    pairs = [] if inside == BEST else [pair.strip().split("=") for pair in inside.split(",")]
    return loss, {key: _value(text) for key, text in pairs}


def _value(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _checked(name: str) -> str:
    if not _SETTING.fullmatch(name):
        raise ValueError(f"{name!r}: a loss is named like nt_xent, nt_xent(best) or polynomial_self(degree=2)")
    return name


LossSetting = Annotated[str, AfterValidator(_checked)]
"""A loss, with or without a setting."""

AGAINST = ("beats", "best", "not_better", "alike")
"""Kinds that compare a loss with others."""


class Part(BaseModel):
    """A part of a claim's form.

    Attributes:
        loss: The loss that the part is about; none for ``same_best`` and ``opposed``.
        against: The losses with which it is compared.
        metrics: Metrics of the test split or of COCOS, without a prefix.
        and_metrics: The metrics beside ``metrics``, as many, for ``same_best`` and ``opposed``.
        losses: The losses that ``same_best`` and ``opposed`` compare.
        models: The models in which the part must hold; empty for every model.
        datasets: The datasets in which the part must hold; empty for every dataset.
        by: Least difference of the means, >= 0, in the metric's unit.
        margin: Largest difference that does not matter, > 0, in the metric's unit.
        than: The bound of a mean, in the metric's unit.
    """

    model_config = STRICT
    kind: Kind
    loss: LossSetting = ""
    against: tuple[LossSetting, ...] = ()
    metrics: Annotated[tuple[str, ...], Field(min_length=1)]
    and_metrics: tuple[str, ...] = ()
    losses: tuple[LossSetting, ...] = ()
    models: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    by: Annotated[float, Field(ge=0)] = 0.0
    margin: Annotated[float, Field(gt=0)] | None = None
    than: float | None = None

    @model_validator(mode="after")
    def _is_complete(self) -> "Part":
        needed = {"best": "margin", "not_better": "margin", "alike": "margin", "above": "than", "below": "than"}
        if self.kind in needed and getattr(self, needed[self.kind]) is None:
            raise ValueError(f"{self.kind} needs {needed[self.kind]}")
        if self.kind in AGAINST and not (self.loss and self.against):
            raise ValueError(f"{self.kind} needs loss and against")
        if self.kind in ("above", "below") and not self.loss:
            raise ValueError(f"{self.kind} needs loss")
        compares_losses = self.kind in ("same_best", "opposed")
        if compares_losses and (len(set(self.losses)) < 2 or len(self.and_metrics) != len(self.metrics)):
            raise ValueError(f"{self.kind} needs two losses or more, and as many and_metrics as metrics")
        return self

    @property
    def all_losses(self) -> tuple[str, ...]:
        """Every loss of which the part needs a cell."""
        return tuple(dict.fromkeys([*((self.loss,) if self.loss else ()), *self.against, *self.losses]))


class Claim(BaseModel):
    """A claim of a paper, in a sentence of ours, with the parts that must all hold.

    The id and the number, from 1, are unique in the file; ``where`` is the place in the paper. A note is what a reader
    must know, such as an error of the paper's counter.
    """

    model_config = STRICT
    id: str
    number: Annotated[int, Field(ge=1)]
    statement: str
    where: str
    holds_if: Annotated[tuple[Part, ...], Field(min_length=1)]
    note: str = ""


class Claims(BaseModel):
    """The claims of a paper.

    Attributes:
        level: How often a page without any true claim may call one of its claims true, in (0, 0.5).
        papers: The papers in whose tables ``certify --published`` looks; see ``reference/README.md``.
        experiment: Keys of the experiment that runs the cells, as in an experiment file, without its datasets;
            ``models`` are those of a certificate that names none.
    """

    model_config = STRICT
    name: Name
    source: str
    papers: tuple[str, ...] = ()
    experiment: dict[str, Any] = {}
    level: Annotated[float, Field(gt=0, lt=0.5)] = 0.05
    claims: Annotated[tuple[Claim, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _names_are_unique(self) -> "Claims":
        for key in ("id", "number"):
            values = [getattr(claim, key) for claim in self.claims]
            if len(set(values)) < len(values):
                raise ValueError(f"two claims have the same {key}")
        return self

    @property
    def metrics(self) -> tuple[str, ...]:
        """Every metric of which a claim needs a value."""
        parts = [part for claim in self.claims for part in claim.holds_if]
        return tuple(dict.fromkeys(name for part in parts for name in (*part.metrics, *part.and_metrics)))

    @property
    def losses(self) -> tuple[str, ...]:
        """Every loss of which a claim needs a cell, with its setting."""
        return tuple(
            dict.fromkeys(loss for claim in self.claims for part in claim.holds_if for loss in part.all_losses)
        )


def load_claims(name: str) -> Claims:
    """Read claims that ship, or a YAML file.

    Raises:
        ConfigError: If there is no such file, or its content is refused.
    """
    return validate(Claims, read_yaml(find_file(name, shipped_claims(), "claims file")))
