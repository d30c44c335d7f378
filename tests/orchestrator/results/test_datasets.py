"""The interaction of loss and dataset against a textbook, its error rate, and mean ranks against Demsar's table."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

from orchestrator.results.answers import over_datasets
from orchestrator.results.crossed import ImageRows, crossed_test
from orchestrator.results.datasets import common_losses, interaction_test, mean_ranks
from orchestrator.results.runs import RunId
from orchestrator.views.forms import render_markdown
from tests.answers_page import candidate, summary_of, verdict_of

Values = dict[str, dict[str, ImageRows]]


def simulate(
    rng: np.random.Generator,
    *,
    losses: int = 3,
    seeds: int = 3,
    unequal: bool = False,
    effect: float = 0.0,
    counts: Sequence[int] = (200, 200, 200),
    same_images: bool = True,
) -> Values:
    """Return values of the images of some datasets, where only loss 0 on dataset 0 has an interaction."""
    images, of_losses = rng.normal(0, 60, counts[0]), rng.normal(0, 5, losses)
    values: Values = {}
    for dataset, count in enumerate(counts):
        images = images if same_images else rng.normal(0, 60, count)
        values[f"d{dataset}"] = {}
        for loss in range(losses):
            spread = 2 * np.exp(rng.normal()) if unequal else 2.0
            mean = 20 * dataset + of_losses[loss] + (effect if dataset == loss == 0 else 0.0)
            runs = mean + rng.normal(0, spread, (seeds, 1)) + images + rng.normal(0, 60, (seeds, count))
            values[f"d{dataset}"][f"l{loss}"] = runs + rng.normal(0, 30, count)
    return values


def rate(seed: int, **options: object) -> float:
    """Return how often the test finds an interaction at 5 %, in 400 simulated experiments."""
    rng = np.random.default_rng(seed)
    found = (interaction_test(simulate(rng, **options)) for _ in range(400))  # type: ignore[arg-type]
    return float(np.mean([test is not None and test.p < 0.05 for test in found]))


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"seeds": 3, "unequal": True}, id="unequal-variances"),
        pytest.param({"seeds": 2}, id="two-seeds", marks=pytest.mark.proof),
        pytest.param({"seeds": 3}, id="three-seeds", marks=pytest.mark.proof),
        pytest.param({"losses": 8, "seeds": 3}, id="eight-losses", marks=pytest.mark.proof),
        pytest.param({"counts": (200, 120, 60), "same_images": False}, id="other images", marks=pytest.mark.proof),
        pytest.param({"counts": (100, 100, 100), "same_images": False}, id="paired by chance", marks=pytest.mark.proof),
    ],
)
def test_the_level_is_kept_where_the_order_is_the_same(options: dict[str, object]) -> None:
    # 5 % and three standard errors of 400 experiments.
    assert rate(0, **options) <= 0.083


@pytest.mark.proof
def test_another_order_is_found() -> None:
    assert rate(1, effect=40.0) > 0.8


def test_effects_say_where_a_loss_is_better_than_elsewhere() -> None:
    p, _, _, effects = interaction_test(simulate(np.random.default_rng(2), effect=90.0))
    assert effects.argmax() == 0
    assert np.allclose(effects.sum(0), 0) and np.allclose(effects.sum(1), 0)
    assert p < 0.01


def test_two_losses_on_two_datasets_are_the_comparison_of_two_differences() -> None:
    values = {name: simulate(np.random.default_rng(3), losses=2)[name] for name in ("d0", "d1")}
    # Without seeds only the images vary, and the differences of the two datasets are paired by image.
    single = {name: {loss: runs[:1] for loss, runs in of.items()} for name, of in values.items()}
    p, statistic, freedom, _ = interaction_test(single)
    paired = crossed_test(single["d0"]["l0"] - single["d0"]["l1"], single["d1"]["l0"] - single["d1"]["l1"])
    assert (p, statistic) == pytest.approx((paired.p, (paired.difference / paired.error) ** 2))
    assert freedom == pytest.approx((1, 199))


def test_what_seed_and_image_do_together_counts_once_in_an_interaction() -> None:
    """Of two losses on two datasets F is the squared contrast over its variance, by hand."""
    values = {name: simulate(np.random.default_rng(5), losses=2)[name] for name in ("d0", "d1")}
    cells = [values[name][loss] for name in values for loss in ("l0", "l1")]
    signs = np.array([1, -1, -1, 1])
    contrast = sum(sign * cell.mean() for sign, cell in zip(signs, cells, strict=True))
    by_image = sum(sign * cell.mean(0) for sign, cell in zip(signs, cells, strict=True))
    variance = by_image.var(ddof=1) / len(by_image)
    for cell in cells:
        seeds, images = cell.shape
        left = cell - cell.mean(0) - cell.mean(1)[:, None] + cell.mean()
        joint = (left**2).sum() / ((seeds - 1) * (images - 1)) / (seeds * images)
        variance += cell.mean(1).var(ddof=1) / seeds - joint
    assert interaction_test(values).statistic == pytest.approx(contrast**2 / variance)


def test_winners_and_ranks_over_datasets_are_those_of_test() -> None:
    """On val the second loss is ahead on both datasets."""
    pair = [candidate("a", "nt_xent", 200.0, val=90.0), candidate("b", "triplet_sh", 190.0, val=95.0)]
    verdicts = {name: verdict_of(pair) for name in ("en", "zh")}
    answers = {answer.key: answer for answer in over_datasets(summary_of(verdicts))}
    rows = answers["ranks"].table.to_dict()["rows"]
    assert [(row["loss"], row["mean_rank"], round(row["en"])) for row in rows] == [
        ("nt_xent", 1.0, 200),
        ("triplet_sh", 2.0, 190),
    ]
    images = [
        candidate("a", "nt_xent", 200.0, val=90.0, images=20.0),
        candidate("b", "triplet_sh", 190.0, val=95.0, images=20.0),
    ]
    order = {
        answer.key: answer for answer in over_datasets(summary_of({name: verdict_of(images) for name in ("en", "zh")}))
    }
    assert order["order_of_settings"].headline.startswith("Settings of NT-Xent have the highest mean on every dataset.")


def test_after_one_search_of_each_loss_a_setting_wins_on_each_dataset() -> None:
    pair = [
        replace(candidate("a", "nt_xent", 200.0), parameters={"temperature": 0.1}),
        candidate("b", "triplet_sh", 190.0),
    ]
    for repeats, question, winner in ((1, "setting", "NT-Xent at τ = 0.1"), (3, "loss", "NT-Xent")):
        summary = summary_of({name: verdict_of(pair) for name in ("en", "zh")})
        summary.history.experiment = replace(summary.history.experiment, repeats=repeats)
        (winners, *_) = over_datasets(summary)
        assert winners.question == f"Which {question} wins on each dataset?"
        assert winners.headline == f"Winners: {winner} on en and zh."


def test_the_order_of_names_does_not_matter() -> None:
    values = simulate(np.random.default_rng(4))
    turned = {name: dict(reversed(of.items())) for name, of in reversed(values.items())}
    assert interaction_test(values).p == pytest.approx(interaction_test(turned).p)


def test_only_losses_that_all_datasets_have_are_compared() -> None:
    values = simulate(np.random.default_rng(5))
    del values["d1"]["l2"]
    assert common_losses(values) == ("l0", "l1")
    assert interaction_test(values).effects.shape == (3, 2)
    assert interaction_test({"d0": values["d0"]}) is None
    constant = {name: {loss: np.ones((2, 9)) for loss in ("a", "b")} for name in ("d", "e")}
    assert interaction_test(constant) is None
    with pytest.raises(ValueError, match="the same images"):
        interaction_test({name: {"a": np.ones((2, 9)), "b": np.ones((2, 8))} for name in ("d", "e")})


def test_datasets_with_other_images_have_independent_images() -> None:
    """Two losses without seeds on two datasets of 200 and 90 images: Welch's test of the two differences."""
    rng = np.random.default_rng(6)
    images = {"d0": 200, "d1": 90}
    values = {name: {loss: rng.normal(0, 60, (1, count)) for loss in ("a", "b")} for name, count in images.items()}
    p, statistic, freedom, _ = interaction_test(values)
    leads = [(of["a"] - of["b"])[0] for of in values.values()]
    welch = scipy.stats.ttest_ind(*leads, equal_var=False)
    assert (statistic, freedom[0]) == pytest.approx((welch.statistic**2, 1))
    # The degrees of freedom are those of the smaller dataset, which is below Welch's.
    assert welch.pvalue <= p < welch.pvalue * 1.1


@pytest.mark.parametrize(("losses", "quantile"), [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (10, 3.164)])
def test_critical_differences_are_those_of_the_published_table(losses: int, quantile: float) -> None:
    scores = {f"d{place}": {f"l{loss}": float(-loss) for loss in range(losses)} for place in range(14)}
    found = mean_ranks(scores)
    # [Demsar2006], table 5 (a).
    ranks, difference = found
    assert difference == pytest.approx(quantile * (losses * (losses + 1) / (6 * 14)) ** 0.5, rel=1e-3)
    assert list(ranks.values()) == [float(loss + 1) for loss in range(losses)]


def test_equal_scores_share_their_ranks() -> None:
    found = mean_ranks({"en": {"a": 3, "b": 2, "c": 1}, "zh": {"a": 3, "b": 3, "c": 1}, "ar": {"b": 3, "a": 2, "c": 1}})
    assert found[0] == {"a": 1.5, "b": 1.5, "c": 3.0}


@pytest.mark.parametrize(
    ("apart", "sentences"),
    [
        pytest.param(
            0.0,
            ("Settings of NT-Xent and Triplet SH share the best mean rank, 1.5.", "1 loss differs from them"),
            id="two",
        ),
        pytest.param(1.0, ("Settings of NT-Xent have the best mean rank, 1.0.", "1 loss differs from it"), id="one"),
    ],
)
def test_the_sentences_about_mean_ranks_count_losses(apart: float, sentences: tuple[str, str]) -> None:
    losses = (("a", "nt_xent", 200.0), ("b", "triplet_sh", 200.0 - apart), ("c", "circle", 100.0))
    verdict = verdict_of([candidate(*about) for about in losses])
    (ranks,) = (
        answer for answer in over_datasets(summary_of({f"d{n}": verdict for n in range(9)})) if answer.key == "ranks"
    )
    assert ranks.headline == sentences[0]
    assert f": {sentences[1]} significantly." in ranks.notes[0]


def test_a_dataset_that_is_not_confirmed_is_none_of_those_with_the_highest_mean() -> None:
    pair = [candidate("a", "nt_xent", 200.0, images=20.0), candidate("b", "triplet_sh", 190.0, images=20.0)]
    summary = summary_of(dict.fromkeys(("ar", "en", "zh"), verdict_of(pair)))
    del vars(summary)["verdicts"]["zh"]
    order = next(answer for answer in over_datasets(summary) if answer.key == "order_of_settings")
    assert order.headline.startswith("Settings of NT-Xent have the highest mean on every confirmed dataset. ")


def test_values_of_a_fraction_have_three_digits_also_over_datasets() -> None:
    verdicts = {}
    for dataset, sign in (("en", 1.0), ("zh", -1.0)):
        leads = (("a", "nt_xent", 0.012), ("bb", "triplet_sh", -0.012))
        pair = [candidate(*about, 0.5 + sign * lead, noise=1e-3, images=1e-3) for *about, lead in leads]
        verdicts[dataset] = verdict_of([replace(one, dataset=dataset) for one in pair])
    summary = summary_of(verdicts)
    summary.history.experiment = replace(summary.history.experiment, metric="val/i2t_map5")
    answers = {answer.key: answer for answer in over_datasets(summary)}
    assert "on zh, +0.012 beside" in answers["order_of_settings"].notes[0]
    assert " 0.512 " in render_markdown([answers["ranks"]])


def test_a_single_seed_that_is_left_of_a_candidate_is_not_exact_over_datasets() -> None:
    """Its spread over seeds is not known, and none would make chance an interaction."""
    whole = [candidate(label, loss, 190.0, images=20.0) for label, loss in (("a", "nt_xent"), ("b", "triplet_sh"))]
    lost = replace(candidate("c", "nt_xent", 200.0, seeds=1, images=20.0), missing={RunId(0, 1): "diverged"})
    verdicts = {"en": verdict_of([lost, whole[1]]), "zh": verdict_of(whole)}
    assert [answer.key for answer in over_datasets(summary_of(verdicts))] == ["winners", "ranks"]


def test_of_each_loss_its_best_candidate_counts_and_over_images_the_best_with_their_values() -> None:
    best, kept, further = (candidate("a" * n, "nt_xent", 200.0 - n, images=20.0 * (n > 1)) for n in (1, 2, 3))
    other, *pair = (candidate(label, "triplet_sh", 190.0, images=20.0) for label in "bcd")
    pair = [replace(pair[0], loss="nt_xent"), pair[1]]
    verdicts = {"en": verdict_of([best, kept, further, other]), "zh": verdict_of(pair)}
    answers = {answer.key: answer for answer in over_datasets(summary_of(verdicts))}
    means = {row["loss"]: row["en"] for row in answers["ranks"].table.to_dict()["rows"]}
    first, *_, last = verdicts["en"].candidates
    assert means == {"nt_xent": first.mean("test/rsum"), "triplet_sh": last.mean("test/rsum")} and first.label == "a"
    runs = {"en": [kept, other], "zh": pair}
    found = interaction_test({name: {one.loss: one.image_rows("test/rsum") for one in of} for name, of in runs.items()})
    assert answers["order_of_settings"].numbers["statistic"] == found.statistic
