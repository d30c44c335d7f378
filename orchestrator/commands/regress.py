"""``orchestrator regress``: reruns of baselines, compared with accepted results."""

import json
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from orchestrator.commands.options import ClaimsName, Models, Output, Overrides, Seeds, split_names, with_start_options
from orchestrator.machines.cluster import StartOptions, ignored_address
from orchestrator.regression.accepted import default_path
from orchestrator.regression.accepted import require_accepted as refuse_unaccepted
from orchestrator.regression.answers import QUIET, blind_notes, headline
from orchestrator.regression.notices import notify
from orchestrator.regression.rerun import accept_rerun as write
from orchestrator.regression.rerun import rerun
from orchestrator.regression.reruns import SUMMARY, Request, Rerun, past_reruns
from orchestrator.regression.suite import load_suite, shipped_suites
from orchestrator.regression.verdict import blind_cells
from orchestrator.searches.begin import make_workload
from orchestrator.text.addresses import without_password
from orchestrator.text.terminal import say
from orchestrator.views.terminal import show
from trainables.errors import ConfigError
from trainables.files import make_writable


class SuiteFirst(TyperGroup):
    """A group whose first word is a suite unless it is a command: ``regress scenes-quick`` is ``regress run ...``.

    So ``regress --help`` explains ``regress SUITE``, with all of its options, and names the other commands.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put ``run`` before a first word that names no command."""
        return super().parse_args(ctx, args if args and args[0] in self.commands else ["run", *args])


class Unnamed(TyperCommand):
    """A command that usage lines and errors call by the name of its group."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Replace the group's context, if there is a group, by the command's own context."""
        if parent is not None:
            info_name, parent = parent.info_name, parent.parent
        return super().make_context(info_name, args, parent=parent, **extra)


app = typer.Typer(
    add_completion=False,
    cls=SuiteFirst,
    help="Rerun baselines and compare them with accepted results. Exit code 5: a regression.",
    rich_markup_mode="rich",
)

SuiteName = Annotated[
    str, typer.Argument(help=f"YAML file, or a shipped suite: {', '.join(shipped_suites())}.", metavar="SUITE")
]
Reference = Annotated[
    Path | None, typer.Option(help="Accepted results; by default SUITE.accepted.json beside the suite.")
]
Due = Annotated[str | None, typer.Option(help="Do nothing if the last result is younger, e.g. 24h.")]
Required = Annotated[
    bool, typer.Option("--require-accepted", help="Refuse to run where nothing was accepted to compare with.")
]

REGRESSION = 5
"""Exit code where a baseline got worse or a training failed."""


@app.command(
    cls=Unnamed,
    epilog='To accept the newest rerun as the reference: orchestrator regress accept SUITE --why "..." (see '
    "orchestrator regress accept --help). To rerun the claims of a paper: orchestrator regress claims CLAIMS.",
)
@with_start_options
def run(
    suite: SuiteName,
    overrides: Overrides = None,
    reference: Reference = None,
    if_due: Due = None,
    require_accepted: Required = False,
    max_seeds: Annotated[int | None, typer.Option(min=2, help="Add seeds, up to this total, if inconclusive.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Copy the JUnit XML to this file.")] = None,
    report: Annotated[Path | None, typer.Option(help="Copy the HTML page to this file.")] = None,
    *,
    options: StartOptions,
) -> None:
    """Rerun a suite's baselines and compare them with accepted results. Exit code 5: one got worse, changed, or failed.

    The same command resumes an interrupted rerun.
    """
    settings = [*(overrides or []), *([] if max_seeds is None else [f"max_seeds={max_seeds}"])]
    chosen, path = load_suite(suite, settings)
    copies = {name: copy for name, copy in (("junit.xml", junit), ("report.html", report)) if copy is not None}
    _check_copies(copies.values())
    target = reference or default_path(path)
    if require_accepted:
        refuse_unaccepted(target, chosen.name, [cell.title for cell in chosen.cells], suite)
    request = _request(target, options, if_due)
    done = rerun(chosen, request, make_workload(chosen.resources, options.data_root))
    for name, copy in copies.items():
        shutil.copyfile(done.directory / name, copy)
    news = None if done.result is None else f"{chosen.name}: {headline(done.result)}"
    _end(done, news, ("report.html", "junit.xml", SUMMARY), as_json=options.quiet)


def _check_copies(files: Iterable[Path]) -> None:
    """Make the folders of files; refuse a file that cannot be written now rather than after the rerun."""
    for file in files:
        try:
            make_writable(file.parent)
        except OSError as error:
            raise ConfigError(f"{file}: cannot be written: {error.strerror}; name another file") from None
        if file.is_dir():
            raise ConfigError(f"{file}: is a folder; name a file")


@app.command()
def accept(
    suite: SuiteName,
    why: Annotated[str, typer.Option(help="Sentence for the file: why these numbers are right.")],
    overrides: Overrides = None,
    who: Annotated[str | None, typer.Option(help="Person who accepts; by default this user.")] = None,
    output: Output = Path("runs"),
    reference: Reference = None,
    restart_drift: Annotated[
        bool, typer.Option("--restart-drift", help="Measure drift from this run, not from the first accepted.")
    ] = False,
) -> None:
    """Accept the newest finished rerun as the reference. Keep the written file under version control.

    Later reruns are also tested for a drift from the first accepted result.
    """
    chosen, path = load_suite(suite, overrides or [])
    target = reference or default_path(path)
    say(*(f"warning: {warning}" for warning in past_reruns(output / chosen.name).warnings), error=True)
    accepted = write(chosen, output, target, why=why, who=who, restart_drift=restart_drift, typed=suite)
    say(*(f"warning: {note}" for note in blind_notes(chosen, blind_cells(chosen, accepted))), error=True)
    seeds = min(len(runs.values) for runs in accepted.cells.values())
    say(f"{target}: {len(accepted.cells)} cells with {seeds} seeds, accepted by {accepted.who}")


@app.command()
@with_start_options
def claims(
    name: ClaimsName,
    datasets: Annotated[str, typer.Option(help="Datasets on which the claims are asked, separated by commas.")],
    models: Models = "",
    seeds: Seeds = 5,
    overrides: Overrides = None,
    reference: Annotated[
        Path | None, typer.Option(help="Accepted certificate.json; by default CLAIMS.accepted.json in this folder.")
    ] = None,
    if_due: Due = None,
    require_accepted: Required = False,
    *,
    options: StartOptions,
) -> None:
    """Train the cells of claims again, and compare the answers with an accepted certificate.

    Exit code 5: a claim that held is contradicted, or was not run. The same command resumes an interrupted rerun.
    """
    from orchestrator.claims.cells import cells_experiment
    from orchestrator.claims.certificate import CERTIFICATE, PAGE
    from orchestrator.claims.claims import load_claims
    from orchestrator.claims.reruns import rerun_claims

    asked = load_claims(name)
    experiment = cells_experiment(asked, split_names(datasets), split_names(models), seeds, overrides or [])
    target = reference or Path(f"{asked.name}.accepted.json")
    if require_accepted and not target.is_file():
        raise ConfigError(f"--require-accepted: {target} is not there; copy the certificate.json that you accept")
    request = _request(target, options, if_due)
    done = rerun_claims(asked, experiment, request)
    news = done.answers[0].headline if done.was_due else None
    _end(done, news, ("report.html", PAGE, CERTIFICATE), as_json=options.quiet)


def _request(reference: Path, options: StartOptions, if_due: str | None) -> Request:
    if warning := ignored_address(options.cluster):
        say(warning, error=True)
    seconds, command = None if if_due is None else seconds_of(if_due), command_line(sys.argv[1:])
    return Request(**vars(options), reference=reference, if_due=seconds, command=command)


def command_line(arguments: Sequence[str]) -> str:
    """Return the command as the page of the rerun shows it: without passwords, ready to be pasted into a shell."""
    return shlex.join(["orchestrator", *map(without_password, arguments)])


def seconds_of(text: str) -> float:
    """Read a length of time such as ``24h``, ``90m`` or ``7d``.

    Raises:
        ConfigError: If ``text`` is no length of time.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text)
    if match is None or float(match[1]) == 0:
        raise ConfigError(f"--if-due {text}: must be a number above 0 with s, m, h or d, e.g. 24h")
    return float(match[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[match[2]]


def _end(done: Rerun, news: str | None, files: Sequence[str], *, as_json: bool) -> None:
    """Print a rerun and the names of its files; of an alarm, post the news, if there are any, and end with code 5."""
    say(*(f"warning: {warning}" for warning in done.warnings), error=True)
    if as_json:
        print(json.dumps({**done.summary, "due": done.was_due}, indent=2))
    elif done.answers:
        about, *others = done.answers
        show([about, *(replace(other, table=None) for other in others if other.verdict not in QUIET)])
        for name in files:
            say(f"{name}: {done.directory / name}")
    else:
        say(f"not due: {done.directory} is fresh and found: {done.summary['finding']}")
        if done.is_alarm:
            say(
                "this finding stays until a rerun without --if-due is well, or `orchestrator regress accept` accepts it"
            )
    if done.is_alarm:
        if news is not None and (problem := notify(news, done.summary)) is not None:
            say(f"warning: {problem}", error=True)
        raise typer.Exit(REGRESSION)
