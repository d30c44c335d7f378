"""``orchestrator data``: make, describe and check datasets."""

import typer

app = typer.Typer(help="Make, describe and check datasets.", no_args_is_help=True)
