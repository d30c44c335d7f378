"""What a dry run and ``init`` say of repeated searches: how to split a budget of trainings between them."""

from collections.abc import Iterator, Sequence
from statistics import median

from rich.table import Table

from orchestrator.experiment.experiment import Experiment
from orchestrator.results.search_designs import Luck, SearchDesign, search_designs
from orchestrator.results.statistics import POWER
from orchestrator.text.terminal import make_table
from orchestrator.text.values import in_digits
from orchestrator.text.wording import listed, number_text, share_text
from search_spaces import Range
from trainables.metric_table import range_of

METRIC = "val/rsum"
"""The metric of which usual lucks are known."""

ADVISED = 4
"""Searches that are advised where an experiment has one, see ``results.questions.ONE_SEARCH``."""


def designs_of(experiment: Experiment, luck: Luck) -> list[SearchDesign]:
    """Return repeated searches for the budget of an experiment; none where it compares no losses by rsum.

    The budget of a single search is that of ``ADVISED`` searches like it.
    """
    search, confirm, studies = experiment.search, experiment.confirm, experiment.studies()
    if confirm is None or len({cell.loss for cell in studies}) < 2 or search.metric != METRIC:
        return []
    is_repeated, trials = search.repeats > 1, max(experiment.trials_in(cell) for cell in studies)
    seeds = (confirm.seeds or 1) if is_repeated else 1
    searched = [
        sum(isinstance(bound, Range) or len(bound.values) > 1 for bound in cell.space.bounds().values())
        for cell in studies
    ]
    budget = (search.repeats if is_repeated else ADVISED) * (trials + seeds)
    own = (search.repeats, trials) if is_repeated else None
    return search_designs(budget, seeds, max(1, round(median(searched))), luck, own)


def design_table(designs: Sequence[SearchDesign], luck: Luck) -> Table:
    """Return the designs as a table, the recommended one first."""
    lucks = [f"lead found, luck {in_digits(deviation, 2)}" for deviation in luck.deviations]
    headings = ["searches × trials", *lucks, "settings below", ""]
    rows = [
        [
            f"{design.searches} × {design.trials}",
            *map(_lead, design.leads),
            " to ".join(number_text(below, METRIC) for below in design.below),
            _remark(design, is_first=place == 0),
        ]
        for place, design in enumerate(designs)
    ]
    searches, trials = designs[0].searches, designs[0].trials
    return make_table(headings, rows, f"repeated searches, about {searches * trials} trials of each loss", texts=1)


def _lead(lead: float) -> str:
    low, high = range_of(METRIC)
    return number_text(lead, METRIC) if lead < high - low else f"over {high - low:g}"


def _remark(design: SearchDesign, *, is_first: bool) -> str:
    return ", ".join([*(["recommended"] if is_first else []), *(["this experiment"] if design.is_own else [])])


def describe_designs(experiment: Experiment, designs: Sequence[SearchDesign], luck: Luck) -> Iterator[str]:
    """Yield which lead repeated searches detect, and what their numbers rest on."""
    own = [design for design in designs if design.is_own]
    for design in own or designs[:1]:
        leads = listed([_lead(lead) for lead in design.leads])
        yield (
            f"{design.searches} searches of {design.trials} trials of two losses detect a lead of {leads} rsum "
            f"in {share_text(POWER)} of studies"
        )
    if designs:
        known = "as measured here" if luck.is_measured else "as usual"
        yield f"luck: standard deviation of the best setting over searches of {luck.trials} trials, {known}"
        yield "settings below: by how much the settings of shorter searches are worse than those of one with all trials"
    if designs and experiment.search.repeats == 1:
        yield "this experiment searches once, so its verdict is about settings; search.repeats compares losses"
