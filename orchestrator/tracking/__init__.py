"""MLflow: a parent run per study and a run per trial, which hold every metric of the journal once.

MLflow is imported in this package alone. Records are not sent as events. Instead, a trial's run in MLflow is compared
with the journal, and the difference is sent. Runs are found by their tags, so that any process can take over the
runs of a process that died.
"""
