"""The journal in MLflow: a parent run a study, a run a trial, each metric once.

The one importer of MLflow, beside ``registry``. Nothing is sent as an event: what a trial's run holds is compared with
what the journal says, and the difference is sent. Runs are found again by their tags, so that it does not matter which
process began them, or what it came to.
"""

from orchestrator.text.addresses import without_password
from orchestrator.tracking.address import choose_uri, default_uri, is_server, pages_command, sync_command
from orchestrator.tracking.connection import (
    ExperimentDeletedError,
    count_experiments,
    find_run,
    first_line,
    store_failures,
)
from orchestrator.tracking.differences import find_differences
from orchestrator.tracking.pages import comparison_page, newest_page
from orchestrator.tracking.password import refuse_default_password
from orchestrator.tracking.relocation import find_former_folders
from orchestrator.tracking.runs import restore
from orchestrator.tracking.store import STATUS, Store

__all__ = [
    "STATUS",
    "ExperimentDeletedError",
    "Store",
    "choose_uri",
    "comparison_page",
    "count_experiments",
    "default_uri",
    "find_differences",
    "find_former_folders",
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
