"""How well each epoch ranks a study's trials in their final order: from which epoch on a scheduler may stop trials."""

from collections.abc import Sequence

from orchestrator.journal.points import points_of
from orchestrator.report.figures import Figure, Json, Option, Panel, axis, colour, plain, whole
from orchestrator.report.studies import Study, by_dataset
from orchestrator.results.analyses import FEWEST, RANKED, rank_correlations


def early_figure(studies: Sequence[Study]) -> Figure:
    """Return Kendall's tau between the rankings at each epoch and at the end: a line per study for each dataset."""
    options = []
    for dataset, group in by_dataset(studies).items():
        if traces := [trace for study in group for trace in _line(study)]:
            last = max(max(trace["x"]) for trace in traces)
            axes = {"xaxis": whole("epoch", last), "yaxis": axis("Kendall's tau with the end")}
            options.append(Option(dataset, [Panel("", traces, axes)]))
    return Figure(
        key="early",
        title="What early epochs tell",
        note=f"Kendall's tau between the best values so far after an epoch and at the end, over the settings that were "
        f"trained to their end: 1 is the same order, 0 is none. A scheduler that stops trials before a study's line "
        f"stays at {RANKED:g} or more may stop the best. Trials that were stopped early are left out.",
        options=options,
        absent=f"No study has {FEWEST} settings that were trained to their end.",
    )


def _line(study: Study) -> list[Json]:
    settings, tau = rank_correlations(points_of(study.trials))
    if not tau:
        return []
    return [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": plain(study.label),
            "legendgroup": study.name,
            "x": list(tau),
            "y": [round(value, 3) for value in tau.values()],
            "hovertemplate": f"{settings} settings<br>epoch %{{x}}: tau %{{y:.2f}}<extra></extra>",
            "line": {"color": colour(study), "width": 2},
        }
    ]
