"""Plug-ins: losses, models, forms of data, samplers and metrics of other people.

A plug-in is one Python file, or an installed package with entry points. Its offers are decorated:

    from trainables.plugins import loss

    @loss(space={"scale": (1, 30, "log")})
    def pair_softplus(similarity, positives, ignore, scale=10.0):
        ...

A plug-in is code that runs with all rights of its user. A search copies the text of a plug-in to its actors, into its
journal and into packed winners. The offers (names, parameters, search spaces) are stored beside the text, so that an
experiment can be read without running its plug-ins. This package imports torch only to make a loss or a model.
"""

from trainables.plugins.offers import data_format, loss, metric, model, sampler

__all__ = ["data_format", "loss", "metric", "model", "sampler"]
