"""Numbers and names as people read them: the only place where a number of a result becomes a text.

A minus is the sign U+2212. Numbers have the digits that their error allows; a difference has a sign.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any

from orchestrator.reference.published import DATASETS, SYNONYMS
from orchestrator.text.values import MINUS, SYMBOLS, count_text, duration_text, value_text, visible
from trainables.loss_parameters import LOSS_TABLE
from trainables.metric_table import COCOS, COCOS_START, CONDENSED, is_in, metric_of, name_parts
from trainables.model_parameters import MODEL_TABLE, ZERO_SHOT

MISSING = "–"

PRINTED: Mapping[str, str] = {
    **{ours: printed for printed, ours in DATASETS.items()},
    "flickr8k": "Flickr8k",
    "flickr8k_zh": "Flickr8k (Chinese)",
    "flickr8k_ar": "Flickr8k (Arabic)",
    **{name: entry.printed for name, entry in MODEL_TABLE.items() if entry.printed},
    **{name: entry.printed for name, entry in LOSS_TABLE.items()},
    ZERO_SHOT: "Zero-shot",
}
"""Our name of a dataset, a model or a loss -> its name in papers."""

SMALLEST_P = 0.001


def printed(name: str) -> str:
    """Return the name of a dataset, a model or a loss in papers; of a path its last part.

    Example:
        >>> printed("nt_xent"), printed("data/mine"), printed("my_loss")
        ('NT-Xent', 'mine', 'my_loss')
    """
    last = PurePath(name).name or name
    return PRINTED.get(name) or PRINTED.get(SYNONYMS.get(last, last)) or one_line(last)


def loss_of_model(loss: str, model: str | None) -> str:
    """Return the printed name of a loss, after that of its model where several models are compared.

    Example:
        >>> loss_of_model("nt_xent", "hgr"), loss_of_model("nt_xent", None)
        ('HGR NT-Xent', 'NT-Xent')
    """
    return printed(loss) if model is None else f"{printed(model)} {printed(loss)}"


def one_line(text: str) -> str:
    """Return a text on one line, its control characters made visible."""
    return " ".join(visible(text).split())


def parameter_names(names: Iterable[str]) -> dict[str, str]:
    """Return name -> name for people of hyper-parameters: a letter, or words, with the section where two are equal.

    Example:
        >>> parameter_names(["temperature", "training.learning_rate"])
        {'temperature': 'τ', 'training.learning_rate': 'learning rate'}
        >>> list(parameter_names(["nt_xent.temperature", "smooth_ap.temperature"]).values())
        ['NT-Xent τ', 'SmoothAP τ']
    """
    parts = {name: name.rpartition(".") for name in names}
    words = {name: SYMBOLS.get(last, last.replace("_", " ")) for name, (_, _, last) in parts.items()}
    counts = Counter(words.values())
    return {
        name: word if counts[word] == 1 else f"{printed(parts[name][0])} {word}".strip() for name, word in words.items()
    }


BRIEF = 3
"""Most hyper-parameters of a setting in a sentence; the table beside the sentence has all."""


def setting_text(parameters: Mapping[str, Any], only: Iterable[str] | None = None, *, most: int | None = None) -> str:
    """Return hyper-parameters, or ``only`` some of them, as ``name = value``, separated by commas.

    Coefficients of a polynomial that follow from a degree, a scale and shapes are left out. Where there are more than
    ``most``, numbers and words come before lists, and three dots replace the others.

    Example:
        >>> setting_text({"temperature": 0.1, "training.learning_rate": 0.002})
        'τ = 0.1, learning rate = 0.002'
        >>> setting_text({"coefficients": [1, 2], "degree": 2, "push": 0.5, "margin": 0.2}, most=2)
        'degree = 2, push = 0.5, …'
    """
    shown = list(parameters) if only is None else [name for name in only if name in parameters]
    if "degree" in parameters:
        shown = [name for name in shown if not name.endswith("coefficients")]
    names, cut = parameter_names(shown), most is not None and len(shown) > most
    if cut:
        shown = sorted(shown, key=lambda name: isinstance(parameters[name], list | tuple))[:most]
    texts = [f"{names[name]} = {value_text(parameters[name])}" for name in shown]
    return one_line(", ".join([*texts, *["…"] * cut]))


def at_setting(name: str, parameters: Mapping[str, Any]) -> str:
    """Return the name of a candidate with the first parameter of its setting, short enough for a sentence.

    Example:
        >>> at_setting("NT-Xent", {"temperature": 0.1, "training.learning_rate": 0.002})
        'NT-Xent at τ = 0.1, …'
    """
    setting = setting_text(parameters, most=1)
    return f"{name} at {setting}" if setting else name


def decimals_of(unit: str) -> int:
    """Return the digits after the point of a metric: three of a fraction, one of a percentage or a sum of them."""
    return metric_of(unit).digits


def number_text(value: float, unit: str = "", *, signed: bool = False, decimals: int | None = None) -> str:
    """Return a value of a metric with its digits.

    Example:
        >>> number_text(115.38, "test/rsum", signed=True), number_text(-3.04, "val/rsum"), number_text(0.4123, "map_r")
        ('+115.4', '−3.0', '0.412')
    """
    digits = decimals_of(unit) if decimals is None else decimals
    # With z, a value that is rounded to zero has no minus.
    text = f"{value:{'+' if signed else ''}z,.{digits}f}"
    return text.replace("-", MINUS)


def metric_text(metric: str, value: float | None) -> str:
    """Return a metric of a trial with its digits; four digits of a count of contributing samples."""
    if value is None:
        return MISSING
    return value_text(value) if is_in(metric, COCOS, COCOS_START) else number_text(value, metric)


def interval_text(low: float, high: float, unit: str = "", *, signed: bool = False, decimals: int | None = None) -> str:
    """Return an interval in brackets, such as ``[110.9, 119.8]``."""
    ends = (number_text(end, unit, signed=signed, decimals=decimals) for end in (low, high))
    return f"[{', '.join(ends)}]"


def p_text(p: float) -> str:
    """Return a p-value in two digits, never as 0.

    Example:
        >>> p_text(0.00012), p_text(0.0061), p_text(0.214)
        ('< 0.001', '0.006', '0.21')
    """
    if p < SMALLEST_P:
        return f"< {SMALLEST_P}"
    return f"{p:.3f}" if p < 0.0995 else f"{p:.2f}"


def p_equals(p: float) -> str:
    """Return a p-value in a sentence: ``p < 0.001`` or ``p = 0.21``."""
    text = p_text(p)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def probability_text(probability: float) -> str:
    """Return a probability with two digits, never as 0 or 1.

    Example:
        >>> probability_text(0.934), probability_text(0.9996), probability_text(0.001)
        ('0.93', 'above 0.99', 'below 0.01')
    """
    if probability > 0.99:
        return "above 0.99"
    return "below 0.01" if probability < 0.01 else f"{probability:.2f}"


def share_text(share: float, *, signed: bool = False) -> str:
    """Return a share, or a relative change with its sign, as a percentage; only 0 is 0 %, and only 1 is 100 %.

    Example:
        >>> share_text(0.8), share_text(-0.148, signed=True), share_text(0.995), share_text(0.00001)
        ('80 %', '−15 %', '99.5 %', 'below 0.1 %')
    """
    away = abs(share) if signed else min(share, 1 - share)
    if 0 < away < 0.0005:
        return "above 99.9 %" if not signed and share > 0.5 else "below 0.1 %"
    rounded = f"{abs(share):.0%}"
    decimals = int(away > 0 and (rounded == "0%" or (rounded == "100%" and not signed)))
    text = f"{share:{'+' if signed else ''}z.{decimals}%}"
    return text.replace("-", MINUS).replace("%", " %")


def value_in_unit(value: float, unit: str, *, signed: bool = False, decimals: int | None = None) -> str:
    """Return a number in its unit, see ``results.answer.Column``."""
    if unit == "number":
        text = value_text(value)
        return f"+{text}" if signed and value > 0 else text
    shown = {
        "p": p_text,
        "probability": probability_text,
        "share": lambda share: share_text(share, signed=signed),
        "count": lambda count: f"{count:,.0f}",
        "seconds": duration_text,
    }.get(unit)
    return number_text(value, unit, signed=signed, decimals=decimals) if shown is None else shown(value)


def metric_words(metric: str) -> str:
    """Return a metric as people read it: its section, and its name in print.

    Example:
        >>> metric_words("val/i2t_r1"), metric_words("cocos/negatives_per_query"), metric_words("train/loss")
        ('val i2t R@1', 'cocos negatives a query', 'train loss')
    """
    section = name_parts(metric).section
    words = COCOS if section == COCOS_START else section.replace("/", " ").replace("_", " ")
    return f"{words} {metric_name(metric)}".lstrip()


def metric_name(metric: str) -> str:
    """Return a metric in a sentence: its direction and its name in print, without its split.

    Example:
        >>> metric_name("test/rsum"), metric_name("val/i2t_average_recall"), metric_name("t2i_map5")
        ('rsum', 'i2t average recall', 't2i mAP@5')
        >>> metric_name("cocos_start/i2t_share_without_gradient"), metric_name("map_r_condensed")
        ('i2t share without gradient at the start', 'mAP@R without unjudged pairs')
    """
    parts = name_parts(metric)
    ending = {"": "", CONDENSED: "without unjudged pairs"}.get(parts.ending, parts.ending.replace("_", ""))
    at_start = "at the start" if parts.section == COCOS_START else ""
    return " ".join(filter(None, (parts.direction, metric_of(metric).printed, at_start, ending)))


def metric_meaning(metric: str, *chances: float) -> str:
    """Return a metric with what it measures, and the values of a random ranking of each split, where they are known.

    Example:
        >>> metric_meaning("test/rsum", 3.2, 3.199)
        'test rsum: sum of six recalls, 0–600, chance 3.2'
        >>> metric_meaning("val/t2i_map5")
        'val t2i mAP@5: mean average precision among the first 5, 0 to 1'
    """
    name, meaning = metric_words(metric), metric_of(metric).meaning
    known = " or ".join(dict.fromkeys(number_text(chance, metric) for chance in chances))
    by_chance = f", chance {known}" if known else ""
    return f"{name}: {meaning}{by_chance}" if meaning else name


def listed(names: Iterable[str]) -> str:
    """Return names as a list in a sentence: ``a``, ``a and b``, ``a, b and c``."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def basis_text(runs: Iterable[int], images: int | None, unit: str = "seed", trials: int | None = None) -> str:
    """Return what a comparison rests on, such as ``3 seeds × 1,000 test images``.

    ``unit`` is that of the runs; ``trials`` are those of each search where the runs are searches.
    """
    counts = sorted(set(runs))
    plural = count_text(2, unit).removeprefix("2 ")
    rests = count_text(counts[0], unit) if len(counts) == 1 else f"{counts[0]} to {counts[-1]} {plural}"
    rests += "" if trials is None else f" of {count_text(trials, 'trial')}"
    return rests if images is None else f"{rests} × {images:,} test images"


def zero_shot_text(rsum: float, chance: float) -> str:
    """Return what the features of both sides retrieve as they are, beside chance.

    Example:
        >>> zero_shot_text(431.2, 3.2)
        'zero-shot: val rsum 431.2 of the features as they are, chance 3.2'
    """
    line = f"zero-shot: val rsum {number_text(rsum)} of the features as they are, chance {number_text(chance)}"
    # The recalls of a random order vary by about a fifth of their sum, more on few images.
    is_near = rsum < 1.5 * chance
    return f"{line}: the rows of one side are in another order, or the encoders share no space" if is_near else line
