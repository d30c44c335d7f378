"""A dry run as tables and sentences for a terminal."""

from rich.table import Table
from rich.text import Text

from orchestrator.forecast.dry_run import DryRun, StudyPlan
from orchestrator.text.terminal import make_console, make_table
from orchestrator.text.values import count_text, format_parameters


def print_dry_run(found: DryRun) -> None:
    """Print spaces, first points and the forecast."""
    show = make_console(plain_width=160).print
    for study in found.studies:
        show(make_table(["parameter", "where"], list(study.space.items()), f"{study.study}: space"))
        show(_points(study))
    rows = [
        [study.study, str(study.trials), str(study.epochs), f"{study.epoch_seconds:.2f}"] for study in found.studies
    ]
    show(make_table(["study", "trials", "epochs each", "s/epoch"], rows, f"{found.experiment}: plan", texts=1))
    for sentence in describe(found):
        show(Text(sentence))


def describe(found: DryRun) -> list[str]:
    """Return sentences about the time of the search, and about limits that end it before."""
    plan, at_a_time = found.forecast, found.concurrency
    confirm = f" and up to {plan.confirmations} trainings that confirm" if plan.confirmations else ""
    epochs = f"{plan.epochs_at_most:,} epochs"
    if plan.epochs < plan.epochs_at_most:
        epochs = f"about {plan.epochs:,} epochs of at most {plan.epochs_at_most:,}"
    fused = f", {at_a_time.together} of them as one stacked model" if at_a_time.fuse > 1 else ""
    pace = f"{at_a_time.together} that share one {found.device}" if fused else f"one on {found.device}"
    confirming = f"the confirmation {duration(plan.stages['confirm'])}, " if plan.confirmations else ""
    sentences = [
        f"{plan.trials} trials{confirm}: {epochs}, then {count_text(plan.evaluated, 'model')} evaluated on test",
        f"{at_a_time.trials} trials at a time, limited by {at_a_time.limited_by}{fused}",
        f"about {duration(plan.hours)}, at most {duration(plan.hours_at_most)}, at the pace of {pace}",
        f"of these the search {duration(plan.stages['search'])}, {confirming}test {duration(plan.stages['test'])}",
    ]
    if at_a_time.gpus:
        sentences.append(
            f"about {plan.gpu_hours:.2g} GPU hours, at most {plan.gpu_hours_at_most:.2g}, "
            f"with {at_a_time.gpus:g} of a GPU for each trial"
        )
    needs = {"hours": plan.stages["search"], "gpu_hours": plan.search_gpu_hours}
    sentences += [
        f"budget.{name}={limit:g} ends it before"
        for name, limit in found.budget.items()
        if limit is not None and needs[name] > limit
    ]
    return [*sentences, *found.notes, "nothing was searched and nothing written"]


def duration(hours: float) -> str:
    """Return hours in minutes, hours or days."""
    if hours >= 48:
        return f"{hours / 24:.1f} days"
    return f"{hours:.1f} hours" if hours >= 1 else f"{hours * 60:.1f} minutes"


def _points(study: StudyPlan) -> Table:
    has_prior = any("source" in point for point in study.points)
    headings = ["point", "suggested", "as parameters", *(["from search.prior"] if has_prior else [])]
    rows = []
    for number, point in enumerate(study.points):
        source = [point.get("source", "")] if has_prior else []
        meaning = [format_parameters(point[key]) for key in ("loss_parameters", "training", "model_parameters")]
        means = " ".join(filter(None, [point["loss"], *meaning]))
        rows.append([str(number), format_parameters(point["params"]), means, *source])
    return make_table(headings, rows, f"{study.study}: the first {len(study.points)} points")
