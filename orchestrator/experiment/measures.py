"""The measures of a trial and their meanings: the metrics that can be maximised, and the COCOS counts."""

_WAYS = {
    "i2t": "of images that query captions",
    "t2i": "of captions that query images",
}
_SCORES = {
    "r1": "queries whose first candidate is a match, in percent",
    "r5": "queries with a match among the first five candidates, in percent",
    "r10": "queries with a match among the first ten candidates, in percent",
    "map5": "mean average precision among the first five candidates, in [0, 1]",
    "average_recall": "mean of r1, r5 and r10, in percent",
}
_COUNTED = {
    "negatives_per_query": "negatives that contribute to the gradient of a query, the mean over queries that have any",
    "negatives_per_batch": "negatives that contribute to the gradient, summed over the queries of a batch",
    "queries_without_gradient": "queries of a batch to whose gradient no negative contributes",
    "negative_weight": "summed weight of a query's contributing negatives, the mean over all queries",
    "positive_weight": "weight of a query's positive, the mean over all queries",
    "effective_negatives_entropy": "effective number of a query's negatives, exp of the entropy of their weights",
    "effective_negatives_squares": "effective number of a query's negatives, 1 over the sum of their squared shares",
    "gradient_share_hardest1": "share of the weight of a query's negatives that its hardest negative has, in [0, 1]",
    "gradient_share_hardest5": "share of the weight of a query's negatives that its five hardest have, in [0, 1]",
}

METRICS = {
    "val/rsum": "sum of r1, r5 and r10 of both directions on the val split, in [0, 600]",
    "val/r1_r5_sum": "sum of r1 and r5 of both directions on the val split, in [0, 400]",
    **{f"val/{way}_{name}": f"{what}, {whose}" for way, whose in _WAYS.items() for name, what in _SCORES.items()},
}
"""The metrics that can be maximised: a larger value is better."""

COUNTS = {
    **{f"cocos/{way}_{name}": f"{what}, {whose}" for way, whose in _WAYS.items() for name, what in _COUNTED.items()},
    "cocos/gradient_negatives": "negative pairs whose similarity has a gradient above epsilon, from autograd",
    "cocos/gradient_positives": "positive pairs whose similarity has a gradient above epsilon, from autograd",
}
"""The COCOS counts that every loss has at a trial's best epoch; they can be further objectives."""
