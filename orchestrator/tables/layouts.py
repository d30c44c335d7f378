"""The columns of the tables of [Bleeker2022], with their headings.

References:
    [Bleeker2022] Bleeker and de Rijke, Do Lessons from Metric Learning Generalize to Image-Caption Retrieval?
        ECIR 2022. arXiv:2202.07474
"""

from dataclasses import dataclass, replace

from orchestrator.reference.published import NT_XENT_COCOS, RETRIEVAL, SMOOTH_AP_COCOS, TRIPLET_COCOS


@dataclass(frozen=True)
class Column:
    """A metric in a table.

    Attributes:
        metric: Name without prefix, e.g. ``i2t_r1``.
        heading: Heading as plain text.
        latex: The heading for LaTeX.
        decimals: Digits after the point that [Bleeker2022] prints.
    """

    metric: str
    heading: str
    latex: str
    decimals: int

    @property
    def direction(self) -> str:
        """``i2t``, ``t2i``, or empty for a metric of both directions."""
        way = self.metric.partition("_")[0]
        return way if way in ("i2t", "t2i") else ""


@dataclass(frozen=True)
class Layout:
    """The columns of one of the tables of [Bleeker2022].

    Attributes:
        name: Name of the layout, unique.
        published: Number of the table in [Bleeker2022]; ``None`` if the paper has no such table.
        title: Title of the table.
        spread: Sample of the standard deviations, if it is not the runs behind the means.
        caveat: Warning about comparisons with the published rows; empty without any.
    """

    name: str
    published: int | None
    title: str
    spread: str
    columns: tuple[Column, ...]
    caveat: str = ""


def both_ways(*columns: Column) -> tuple[Column, ...]:
    """Return columns for each direction."""
    return tuple(replace(column, metric=f"{way}_{column.metric}") for way in ("i2t", "t2i") for column in columns)


_RECALLS = (
    Column("r1", "R@1", "R@1", 1),
    Column("r5", "R@5", "R@5", 1),
    Column("r10", "R@10", "R@10", 1),
    Column("average_recall", "avg. recall", "avg.\\ recall", 1),
)
_PER_QUERY = Column("negatives_per_query", "C^q", "$C^{q}$", 2)
_PER_BATCH = Column("negatives_per_batch", "C^B", "$C^{B}$", 2)
_WITHOUT = Column("queries_without_gradient", "C^0", "$C^{0}$", 2)
_OVER_BATCHES = "the batches of a run"

RETRIEVAL_LAYOUT = Layout(
    name="retrieval",
    published=RETRIEVAL,
    title="Retrieval",
    spread="",
    columns=(
        *both_ways(*_RECALLS)[:4],
        Column("i2t_map5", "mAP@5", "mAP@5", 2),
        *both_ways(*_RECALLS)[4:],
        Column("rsum", "rsum", "rsum", 1),
    ),
)
CLASSES_LAYOUT = Layout(
    name="classes",
    published=None,
    title="Retrieval of images with images of their class",
    spread="",
    columns=tuple(Column(f"i2t_r{k}", f"R@{k}", f"R@{k}", 1) for k in (1, 2, 4, 8)),
)
TRIPLET_LAYOUT = Layout(
    name="cocos_triplet",
    published=TRIPLET_COCOS,
    title="Contributing samples of hinge losses",
    spread=_OVER_BATCHES,
    columns=both_ways(_PER_QUERY, _PER_BATCH, _WITHOUT),
    caveat="The published t2i C^q and C^0 of the plain triplet loss are sums over the wrong axis.",
)
NT_XENT_LAYOUT = Layout(
    name="cocos_nt_xent",
    published=NT_XENT_COCOS,
    title="Contributing samples of NT-Xent",
    spread=_OVER_BATCHES,
    columns=both_ways(
        Column("negatives_per_query", "C^qv-", "$C^{qv^{-}}$", 2),
        Column("negative_weight", "W^qv-", "$W^{qv^{-}}$", 2),
        Column("positive_weight", "W^qv+", "$W^{qv^{+}}$", 2),
    ),
)
SMOOTH_AP_LAYOUT = Layout(
    name="cocos_smooth_ap",
    published=SMOOTH_AP_COCOS,
    title="Contributing samples of SmoothAP",
    spread=_OVER_BATCHES,
    columns=both_ways(_PER_QUERY, _WITHOUT),
    caveat="The published t2i columns look at the wrong candidates: t2i C^0 is at least 614 of 640 for any model.",
)
GRADED_LAYOUT = Layout(
    name="cocos_graded",
    published=None,
    title="Contributing samples of losses with graded weights",
    spread=_OVER_BATCHES,
    columns=both_ways(
        _PER_QUERY,
        _WITHOUT,
        Column("negative_weight", "W^-", "$W^{-}$", 2),
        Column("positive_weight", "W^+", "$W^{+}$", 2),
    ),
)
GENERAL_LAYOUT = Layout(
    name="cocos_general",
    published=None,
    title="Contributing pairs of losses that say no weights of their own",
    spread=_OVER_BATCHES,
    columns=(
        Column("gradient_negatives", "negatives", "negatives", 2),
        Column("gradient_positives", "positives", "positives", 2),
    ),
)
EFFECTIVE_LAYOUT = Layout(
    name="cocos_effective",
    published=None,
    title="Effective number of negatives, and the share of the hardest, without a threshold",
    spread=_OVER_BATCHES,
    columns=both_ways(
        Column("effective_negatives_entropy", "N (entropy)", "$N_{H}$", 2),
        Column("effective_negatives_squares", "N (squares)", "$N_{2}$", 2),
        Column("gradient_share_hardest1", "hardest", "$p_{1}$", 3),
        Column("gradient_share_hardest5", "hardest 5", "$p_{1..5}$", 3),
    ),
)
COCOS_LAYOUTS = (TRIPLET_LAYOUT, NT_XENT_LAYOUT, SMOOTH_AP_LAYOUT, GRADED_LAYOUT, GENERAL_LAYOUT, EFFECTIVE_LAYOUT)

_GRADED = ("sigmoid", "decoupled", "multi_similarity", "circle", "gradient_weights")


def cocos_layout(loss: str) -> Layout:
    """Return the layout for the COCOS of a loss; a loss that is not named here has a hinge."""
    named = {"nt_xent": NT_XENT_LAYOUT, "smooth_ap": SMOOTH_AP_LAYOUT, **dict.fromkeys(_GRADED, GRADED_LAYOUT)}
    return named.get(loss, TRIPLET_LAYOUT)
