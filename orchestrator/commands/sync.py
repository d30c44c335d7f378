"""``orchestrator sync``: MLflow gets the records that it missed."""

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path

from orchestrator.commands.options import AnyExperimentNames, Json, Output, TrackingUri
from orchestrator.journal.directory import JOURNAL_FILE, find_directory
from orchestrator.journal.journal import JournalError
from orchestrator.text.terminal import say
from orchestrator.tracking import choose_uri, without_password
from orchestrator.tracking.registry import register_all
from orchestrator.tracking.sync import DeletedError, deliver


def sync(
    experiments: AnyExperimentNames = None,
    output: Output = Path("runs"),
    tracking_uri: TrackingUri = None,
    as_json: Json = False,
) -> None:
    """Send MLflow the records that it missed, or all records to another store. Safe to repeat."""
    directories = [find_directory(name, output) for name in experiments or []]
    directories = directories or sorted(path.parent for path in output.glob(f"*/{JOURNAL_FILE}"))
    if not directories:
        raise JournalError(f"{output}: holds no experiment; name another with --output")
    uri = choose_uri(tracking_uri, output)
    done, problems = [], []
    for directory in directories:
        try:
            waiting = f"{directory.name}: waits for another process that delivers it to this store"
            done.append(
                deliver(directory, output, uri, restores=bool(experiments), on_wait=partial(say, waiting, error=True))
            )
        except DeletedError as error:
            # `restores` is off, so the user did not name this experiment: the other experiments are still delivered.
            problems.append(str(error))
            continue
        problems += register_all(uri, directory)[1]
    if as_json:
        said = {
            "tracking_uri": without_password(uri),
            "experiments": [asdict(one) for one in done],
            "unregistered": problems,
        }
        print(json.dumps(said, indent=2))
        return
    for problem in problems:
        say(f"warning: {problem}", error=True)
    for one in done:
        if not one.sent:
            say(f"{one.experiment}: its search is running and delivers to this store itself; nothing was sent")
            continue
        say(f"{one.experiment}: {one.runs} runs agree with the journal{', search continues' if one.running else ''}")
        if one.duplicates:
            say(f"{one.experiment}: {one.duplicates} runs that were there twice are in MLflow's trash now")
