"""Names by which papers and other programs call what has another name here, for hints in messages.

No name of this table is accepted in place of ours: one thing has one name in files, results and MLflow.
"""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence

OTHER_NAMES: Mapping[str, str] = {
    # Losses.
    **dict.fromkeys(("infonce", "cliploss", "simclr", "npairs", "npair", "contrastive"), "nt_xent"),
    **dict.fromkeys(("crossentropy", "softmax", "itc", "vsesoftmax"), "nt_xent"),
    **dict.fromkeys(("siglip", "sigliploss", "bce", "logistic"), "sigmoid"),
    **dict.fromkeys(("vse", "sumofhinges", "hinge", "ranking", "marginranking"), "triplet"),
    **dict.fromkeys(("vsepploss", "maxofhinges", "mh", "maxviolation", "hardestnegative", "semihard"), "triplet_sh"),
    **dict.fromkeys(("dcl", "decoupledcontrastive"), "decoupled"),
    **dict.fromkeys(("ms", "msloss"), "multi_similarity"),
    **dict.fromkeys(("selhn", "selectivelyhardnegative"), "triplet_selhn"),
    **dict.fromkeys(("metaspn", "metaweightnet"), "meta_weights"),
    **dict.fromkeys(("ap", "averageprecision", "aploss"), "smooth_ap"),
    **dict.fromkeys(("wsabieloss", "warploss"), "warp"),
    **dict.fromkeys(("polynomial", "polyloss", "universalweighting"), "polynomial_self"),
    # Models.
    **dict.fromkeys(("vse++", "vsepp++", "vseplusplus"), "vsepp"),
    **dict.fromkeys(("linear", "linearprobe", "probe", "adapter", "projection"), "head"),
    # Samplers.
    **dict.fromkeys(("bayesian", "bayes", "optuna", "hyperopt", "bayesopt"), "tpe"),
    **dict.fromkeys(("cma", "cmaevolutionstrategy"), "cmaes"),
    **dict.fromkeys(("gaussianprocess", "botorch"), "gp"),
    "gridsearch": "grid",
    "randomsearch": "random",
    # Metrics.
    **dict.fromkeys(("recall", "recallsum", "sumofrecalls", "rsum", "valrsum"), "val/rsum"),
    **dict.fromkeys(("map", "map@5", "valmap"), "val/i2t_map5"),
    **dict.fromkeys(("r@1", "recall@1", "r1"), "val/i2t_r1"),
    **dict.fromkeys(("r@5", "recall@5", "r5"), "val/i2t_r5"),
    **dict.fromkeys(("r@10", "recall@10", "r10"), "val/i2t_r10"),
    # Keys and hyper-parameters.
    **dict.fromkeys(("lr", "learnrate", "stepsize"), "learning_rate"),
    **dict.fromkeys(("wd", "decay", "l2"), "weight_decay"),
    **dict.fromkeys(("bs", "bsize"), "batch_size"),
    **dict.fromkeys(("dim", "embeddim", "embeddingdim", "dimension", "embedsize"), "embedding_size"),
    **dict.fromkeys(("numepochs", "nepochs", "maxepochs"), "epochs"),
    **dict.fromkeys(("ntrials", "numtrials", "numsamples", "samples"), "trials"),
    **dict.fromkeys(("nseeds", "numseeds", "repetitions"), "seeds"),
    **dict.fromkeys(("tau", "temp", "t", "τ"), "temperature"),
    **dict.fromkeys(("gap", "tripletmargin"), "margin"),
}
"""A name of others, in small letters without punctuation -> ours."""


def nearest(name: str, known: Sequence[str]) -> str | None:
    """Return the known name that is probably meant: ours for a name of others, one in other writing, or a near one.

    Example:
        >>> [nearest(name, ["triplet_sh", "nt_xent", "smooth_ap"]) for name in ("InfoNCE", "NT-Xent", "smoothap", "x")]
        ['nt_xent', 'nt_xent', 'smooth_ap', None]
    """
    plain, ours = _plain(name), our_name(name)
    written = next((own for own in known if _plain(own) == plain), None)
    if written is not None or ours in known:
        return written or ours
    # A section of keys has its own part before the dot.
    ends = [own for own in known if ours is not None and re.split(r"[./]", own)[-1] == ours]
    return next(iter([*ends, *difflib.get_close_matches(name, known, n=1, cutoff=0.5)]), None)


def our_name(name: str) -> str | None:
    """Return our name for what others call so; ``None`` where the table does not have the name."""
    plain = _plain(name)
    return OTHER_NAMES.get(plain, OTHER_NAMES.get(re.sub(r"loss$", "", plain)))


def suggestion(name: str, known: Iterable[str], label: str) -> str:
    """Return ``did you mean ...?`` if a known name is near, otherwise all known names."""
    known = list(known)
    meant = nearest(name, known)
    return f"did you mean {meant!r}?" if meant is not None else f"{label}: {', '.join(known) or 'none'}"


def _plain(name: str) -> str:
    return re.sub(r"[\s_./:-]", "", name.lower())
