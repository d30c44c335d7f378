"""``orchestrator doctor``: whether a machine has what a search needs, and whether an experiment's files are whole."""

import json
from dataclasses import replace
from typing import Annotated

import typer
from rich.text import Text

from orchestrator.commands.options import with_start_options
from orchestrator.doctor.experiment import check_experiment
from orchestrator.doctor.machine import Check, examine
from orchestrator.journal.directory import find_directory
from orchestrator.machines.cluster import StartOptions
from orchestrator.text.addresses import without_password
from orchestrator.text.terminal import make_console
from orchestrator.tracking.address import choose_uri
from trainables.errors import ConfigError
from trainables.extras import require


@with_start_options
def doctor(
    experiment: Annotated[
        str | None,
        typer.Argument(
            metavar="EXPERIMENT", help="Experiment to check instead of the machine: a name under OUTPUT, or a folder."
        ),
    ] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Repair files of EXPERIMENT where possible.")] = False,
    *,
    options: StartOptions,
) -> None:
    """Check this machine and the services that a search uses, or an experiment. Exit code 1: a problem."""
    if experiment is not None:
        require("report", "`orchestrator doctor EXPERIMENT`")
        directory = find_directory(experiment, options.output).resolve()
        findings = check_experiment(directory, choose_uri(options.tracking_uri, directory.parent), repair=repair)
    elif repair:
        raise ConfigError("--repair: name the experiment to repair, e.g. orchestrator doctor NAME --repair")
    else:
        findings = examine(options.data_root, options.output, options.tracking_uri, options.cluster)
    # Findings quote folders and addresses of the command line, which may contain a password.
    findings = [replace(finding, found=without_password(finding.found)) for finding in findings]
    if options.quiet:
        print(json.dumps([finding.to_dict() for finding in findings], indent=2))
    else:
        show_findings(findings)
    if any(finding.state == "fail" for finding in findings):
        raise typer.Exit(1)


def show_findings(findings: list[Check]) -> None:
    """Print each finding on a line, with its remedy below."""
    styles = {"ok": "green", "warn": "yellow", "fail": "bold red"}
    console = make_console(soft_wrap=True)
    for finding in findings:
        console.print(
            Text.assemble((f"{finding.state:4} ", styles[finding.state]), f"{finding.check:12}{finding.found}")
        )
        if finding.way_out:
            console.print(Text(f"     {'':12}-> {finding.way_out}"))
