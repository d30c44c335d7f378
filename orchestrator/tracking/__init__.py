"""MLflow: a parent run per study and a run per trial, which hold every metric of the journal once.

MLflow is imported in this package alone. Records are not sent as events. Instead, a trial's run in MLflow is compared
with the journal, and the difference is sent. Runs are found by their tags, so that any process can take over the
runs of a process that died.
"""

from orchestrator.text.addresses import without_password
from orchestrator.tracking.address import (
    choose_uri,
    default_uri,
    is_server,
    pages_command,
    refuse_default_password,
    sync_command,
)
from orchestrator.tracking.connection import (
    ExperimentDeletedError,
    StoreMovedError,
    count_experiments,
    find_run,
    first_line,
    store_failures,
)
from orchestrator.tracking.differences import find_differences
from orchestrator.tracking.pages import comparison_page, newest_page
from orchestrator.tracking.runs import restore
from orchestrator.tracking.store import STATUS, Store

__all__ = [
    "STATUS",
    "ExperimentDeletedError",
    "Store",
    "StoreMovedError",
    "choose_uri",
    "comparison_page",
    "count_experiments",
    "default_uri",
    "find_differences",
    "find_run",
    "first_line",
    "is_server",
    "newest_page",
    "pages_command",
    "refuse_default_password",
    "restore",
    "store_failures",
    "sync_command",
    "without_password",
]
