"""Contracts of plug-ins: what a loss, a model or a form of data of other people must do, checked by running it."""
