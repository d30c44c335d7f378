"""``orchestrator doctor``: is everything there that a search needs?"""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from orchestrator.commands.options import Address, DataRoot, Json, Output, Storage, TrackingUri

if TYPE_CHECKING:
    from orchestrator.doctor import Finding


def doctor(
    data_root: DataRoot = Path("data"),
    output: Output = Path("runs"),
    tracking_uri: TrackingUri = None,
    address: Address = None,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Check Python, packages, GPU, disk, ports, data, store and cluster; exit code 1 if something does not work."""
    from orchestrator.cluster import Cluster
    from orchestrator.doctor import examine

    findings = examine(data_root, output, tracking_uri, Cluster(address, storage))
    if as_json:
        print(json.dumps([finding.to_dict() for finding in findings], indent=2))
    else:
        _print(findings)
    if any(finding.state == "fail" for finding in findings):
        raise typer.Exit(1)


def _print(findings: "list[Finding]") -> None:
    from rich.console import Console
    from rich.text import Text

    styles = {"ok": "green", "warn": "yellow", "fail": "bold red"}
    console = Console(soft_wrap=True)
    for finding in findings:
        console.print(
            Text.assemble((f"{finding.state:4} ", styles[finding.state]), f"{finding.check:12}{finding.found}")
        )
        if finding.way_out:
            console.print(Text(f"     {'':12}-> {finding.way_out}"))
