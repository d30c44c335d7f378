"""Figures of each loss at equal budgets, of the optimism of the search, and of a race."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from orchestrator.report.figures import COLOURS, Figure, Json, Option, Panel, axis, colour, plain, short, whole
from orchestrator.report.studies import Study, renamed
from orchestrator.results.analyses import describe_optimism, equal_budget_answer
from orchestrator.results.equal_budget import UNITS
from orchestrator.results.equal_budget import Json as Values
from orchestrator.results.race import Race, describe_race


def budget_figure(found: Mapping[str, Values], studies: Sequence[Study]) -> Figure:
    """Return the expected best value of each loss over trials, epochs and hours, with bands.

    Args:
        found: Dataset -> the values of its losses at equal budgets.
        studies: Studies of the experiment, for their colours.
    """
    return Figure(
        key="budget",
        title="Equal budget",
        note="The expected best of so many trials drawn from the search without replacement; the band holds 8 "
        "of 10 draws. With all trials there is one draw, so the band closes there, whatever another search would give. "
        "Trials of a sampler that learns get better, so the left of its curve is too high.",
        options=[
            Option(f"{Path(dataset).name}: {_unit(each, unit)}", [_budget(dataset, each, unit, studies)])
            for dataset, each in found.items()
            for unit in UNITS
            if all(loss[unit][-1] > 0 for loss in each["losses"])
        ],
        absent="No loss has enough trials that have ended.",
    )


def incumbent_figure(found: Mapping[str, Values]) -> Figure:
    """Return the value of the search's leader over the search, beside the values that fresh seeds confirmed."""
    return Figure(
        key="incumbents",
        title="How optimistic the search was",
        note="The line is the highest value so far. A dot is the mean of a leader's trainings with fresh seeds; its "
        "distance to the line is what being picked for the highest value added.",
        options=[Option(Path(dataset).name, [_incumbents(each)]) for dataset, each in found.items() if _known(each)],
        absent="No leader of the search was trained again with fresh seeds.",
    )


def race_figure(races: Mapping[str, Race], metric: str, names: Mapping[str, str]) -> Figure:
    """Return the means of the candidates of each race over its rounds.

    Args:
        races: Dataset -> its race.
        metric: Metric on val that decides a race.
        names: Id of a trial -> its name on the page.
    """
    return Figure(
        key="race",
        title="The race",
        note="The mean of each candidate over its seeds so far. A cross is where a candidate left.",
        options=[Option(Path(dataset).name, [_race(race, metric, names)]) for dataset, race in races.items()],
        absent="The candidates did not race: each got the same number of seeds, or none was confirmed.",
    )


def _budget(dataset: str, found: Values, unit: str, studies: Sequence[Study]) -> Panel:
    traces: list[Json] = []
    for place, loss in enumerate(found["losses"]):
        shade = _shade(dataset, loss, place, studies)
        traces += _band_and_line(loss, unit, shade)
    most = max(loss[unit][-1] for loss in found["losses"])
    horizontal = whole("trials", round(most)) if unit == "trials" else axis(_unit(found, unit))
    layout = {"xaxis": horizontal, "yaxis": axis(f"best {short(found['metric'])}")}
    return Panel(" ".join(equal_budget_answer(dataset, found).sentences), traces, layout)


def _unit(found: Values, unit: str) -> str:
    return str(found["hours_are"]) if unit == "hours" else unit


def _caption(sentences: Sequence[str]) -> str:
    """Join statements to one sentence; a statement that begins with a name keeps its first letter."""
    joined = "; ".join(sentences)
    return f"{joined[:1].upper()}{joined[1:]}." if joined else ""


def _shade(dataset: str, loss: Values, place: int, studies: Sequence[Study]) -> str:
    """Return the colour of the study of a loss."""
    wanted = (Path(dataset).name, loss["model"], loss["loss"])
    own = next((study for study in studies if (study.dataset, study.model, study.loss) == wanted), None)
    return f"--c{place % COLOURS + 1}" if own is None else colour(own)


def _band_and_line(loss: Values, unit: str, shade: str) -> list[Json]:
    x, group = loss[unit], plain(loss["label"])
    band = {
        "type": "scatter",
        "mode": "lines",
        "x": [*x, *reversed(x)],
        "y": [*loss["high"], *reversed(loss["low"])],
        "fill": "toself",
        "fillcolor": shade.replace("--c", "--soft"),
        "line": {"width": 0},
        "hoverinfo": "skip",
        "legendgroup": group,
        "showlegend": False,
    }
    line = {
        "type": "scatter",
        "mode": "lines+markers" if len(x) <= 20 else "lines",
        "name": group,
        "legendgroup": group,
        "x": x,
        "y": loss["expected"],
        "customdata": list(zip(loss["low"], loss["high"], strict=True)),
        "hovertemplate": f"{group}<br>%{{x:.4g}}: %{{y:.4g}} [%{{customdata[0]:.4g}}, %{{customdata[1]:.4g}}]"
        "<extra></extra>",
        "line": {"color": shade, "width": 2.5},
        "marker": {"color": shade, "size": 5},
    }
    return [band, line]


def _known(found: Values) -> bool:
    return any(one["confirmed"] is not None for one in found["incumbents"])


def _incumbents(found: Values) -> Panel:
    every = found["incumbents"]
    known = [(one, one["confirmed"]) for one in every if one["confirmed"] is not None]
    last = max(found["ended"], every[-1]["after"])
    line = {
        "type": "scatter",
        "mode": "lines",
        "name": "highest value of the search",
        "x": [*(one["after"] for one in every), last],
        "y": [*(one["value"] for one in every), every[-1]["value"]],
        "line": {"color": "--c1", "width": 2.5, "shape": "hv"},
        "hovertemplate": "%{y:.4g}<extra></extra>",
    }
    points = {
        "type": "scatter",
        "mode": "markers",
        "name": "the leader with fresh seeds",
        "x": [one["after"] for one, _ in known],
        "y": [confirmed for _, confirmed in known],
        "text": [plain(one["trial"]) for one, _ in known],
        "customdata": [[one["seeds"], one["value"] - confirmed] for one, confirmed in known],
        "hovertemplate": "%{text}<br>%{y:.4g} over %{customdata[0]} seeds, %{customdata[1]:.3g} less than in the search"
        "<extra></extra>",
        "marker": {"color": "--c2", "size": 9},
    }
    layout = {"xaxis": whole("trials that have ended", last), "yaxis": axis(short(found["metric"]))}
    return Panel(
        " ".join(describe_optimism(found, None)) if found["excess"] is not None else "", [line, points], layout
    )


def _race(race: Race, metric: str, names: Mapping[str, str]) -> Panel:
    traces = [trace for place, label in enumerate(race.seeds) for trace in _runner(race, label, place, names)]
    caption = renamed(_caption(describe_race(race, metric)), names)
    most = max(race.seeds.values(), default=0)
    return Panel(caption, traces, {"xaxis": whole("seeds", most), "yaxis": axis(f"mean {short(metric)}")})


def _runner(race: Race, label: str, place: int, names: Mapping[str, str]) -> list[Json]:
    """Return the line of a candidate over the rounds that gave it seeds."""
    means = {one.seeds[label]: one.means[label] for one in race.rounds if label in one.means}
    shade = f"--c{place % COLOURS + 1}"
    name = plain(names.get(label, label))
    line = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": list(means),
        "y": list(means.values()),
        "text": [plain(label)] * len(means),
        "hovertemplate": f"{name}<br>%{{x}} seeds: %{{y:.4g}}<extra></extra>",
        "line": {"color": shade, "width": 2},
        "marker": {"color": shade, "size": 8},
    }
    return [line] if means else []
