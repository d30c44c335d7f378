"""The pages on losses, counters and models have all that the code has, and nothing else."""

import math
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch

from search_spaces import SPACES
from trainables.cocos import count_contributions
from trainables.errors import ConfigError
from trainables.losses import LOSSES, build_loss
from trainables.losses.parameters import learnable_of
from trainables.metric_table import counts
from trainables.model_parameters import MODEL_PARAMETERS

DOCS = Path(__file__).parent.parent / "docs"
COUNTER = r"(?:i2t|t2i)_\w+|gradient_(?:negatives|positives)"


def sections(page: str) -> dict[str, str]:
    """Return what stands under each heading of the second level, by the heading without its backquotes."""
    parts = re.split(r"^## (.*)$", (DOCS / page).read_text(), flags=re.M)
    return {heading.strip("`"): text for heading, text in zip(parts[1::2], parts[2::2], strict=True)}


def rows(text: str) -> dict[str, list[str]]:
    """Return the cells beside each name that stands in the first cell of a table's row."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("| `"):
            first, *rest = re.split(r"(?<!\\)\|", line.strip("| "))
            for name in re.findall(r"`(\w+)`", first):
                assert name not in found, f"{name} has two rows"
                found[name] = [cell.strip() for cell in rest]
    return found


def test_every_loss_has_a_section_and_no_other_name_has_one() -> None:
    others = ("Notation", "Negatives of earlier batches", "Learned hyper-parameters", "References")
    assert [heading for heading in sections("losses.md") if heading not in others] == list(LOSSES)


@pytest.mark.parametrize("name", LOSSES)
def test_every_parameter_stands_there_once(name: str) -> None:
    """What it means; ``list losses`` prints range, default and where a search looks."""
    heads = re.findall(r"^- ((?:`\w+`[^:`]*)+): ", sections("losses.md")[name], re.M)
    named = [parameter for head in heads for parameter in re.findall(r"`(\w+)`", head)]
    assert sorted(named) == sorted({field.name for field in fields(LOSSES[name])} | SPACES[name].searched.keys())


def test_every_parameter_that_can_be_learned_stands_there_with_its_bounds() -> None:
    lines = sections("losses.md")["Learned hyper-parameters"].splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("| `")]
    table = {tuple(row[:2]): row[2:4] for row in cells}
    ends = {-math.inf: "none", math.inf: "none"}
    assert table == {
        (f"`{loss}`", f"`{name}`"): [
            f"{how.initial:g}",
            " to ".join(dict.fromkeys(ends.get(end, f"{end:g}") for end in (how.minimum, how.maximum))),
        ]
        for loss in LOSSES
        for name, how in learnable_of(LOSSES[loss]).items()
    }


def counters_of(loss: Any) -> set[str]:
    """Return the names of all counters of a loss, in both conventions where there are two."""
    batch = (torch.eye(3), torch.eye(3, dtype=torch.bool))
    names = set(count_contributions(loss, *batch))
    try:
        return names | set(count_contributions(loss, *batch, convention="published"))
    except ConfigError:
        return names


def test_every_counter_stands_there_and_no_other() -> None:
    emitted = {name for loss in LOSSES for name in counters_of(build_loss(loss))}
    assert rows(sections("cocos.md")["The counters"]).keys() == emitted
    assert set(re.findall(f"`({COUNTER})`", (DOCS / "cocos.md").read_text())) == emitted
    assert {f"cocos/{name}" for name in emitted} == set(counts())


def test_every_loss_has_its_weights_there() -> None:
    assert rows(sections("cocos.md")["The weights of each loss"]).keys() == set(LOSSES)


@pytest.mark.parametrize("name", LOSSES)
def test_the_page_knows_which_losses_have_a_published_convention(name: str) -> None:
    told = sections("cocos.md")["The two conventions"]
    (refusal,) = [line for line in told.splitlines() if "refused: no published code" in line]
    batch = (torch.eye(3), torch.eye(3, dtype=torch.bool))
    try:
        count_contributions(build_loss(name), *batch, convention="published")
    except ConfigError:
        assert f"`{name}`" in refusal
    else:
        assert f"`{name}`" not in refusal


@pytest.mark.parametrize(
    ("model", "heading"),
    [
        ("scan", "Similarities of pairs"),
        ("gsmn", "GSMN: graphs of words and regions"),
        ("hgr", "HGR: events, actions and entities"),
        ("ce", "CE: experts that may be missing"),
        ("clip", "CLIP: an encoder that is trained"),
    ],
)
def test_every_parameter_of_a_model_stands_there_with_its_default(model: str, heading: str) -> None:
    table = rows(sections("reference/models.md")[heading])
    defaults = {name: entry.default for name, entry in MODEL_PARAMETERS[model].items()}
    assert {name: cells[0].strip("`") for name, cells in table.items() if cells[0] != "default"} == {
        name: default or "" if isinstance(default, str | None) else f"{default:g}" for name, default in defaults.items()
    }
