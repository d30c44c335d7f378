"""Plug-ins: losses, models, forms of data and samplers of other people, which join the tables of ours.

A plug-in is one Python file, or an installed package with entry points. What it offers is decorated:

    from trainables.plugins import loss

    @loss(space={"scale": (1, 30, "log")})
    def pair_softplus(similarity, positives, ignore, scale=10.0):
        ...

A plug-in is code that runs with all rights of whoever runs it. Its text travels with a search: to the actors, into the
journal and into a packed winner. What it offers (names, parameters, where to look) is written beside the text, so that
an experiment is read without running its plug-ins. Nothing here imports torch before a loss or a model is made.
"""

from trainables.plugins.offers import data_format, loss, model, sampler

__all__ = ["data_format", "loss", "model", "sampler"]
