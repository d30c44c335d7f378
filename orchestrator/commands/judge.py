"""``orchestrator judge``: tables of results of any program, or confirmed candidates compared again."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from orchestrator.commands.judge_table import TableRequest, is_of_tables, judge_tables
from orchestrator.commands.options import DataRoot, Form, Json, Output
from orchestrator.results.table_verdicts import Circumstances
from trainables.errors import ConfigError

Column = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Of tables: name of this column; by default guessed.")
]


def judge(
    places: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES|EXPERIMENT",
            help="Tables of results (.csv, .tsv, .jsonl, .json, .parquet), mlflow:URI#EXPERIMENT or "
            "optuna:STORAGE#NAME. Or LABEL=FILE with values of queries (.npy, .npz), a file for each seed. Or an "
            "experiment of ours.",
        ),
    ],
    verdict: Annotated[
        Literal["seeds", "seeds_and_images"] | None,
        typer.Option(help="The test that decides, as in confirm.verdict; default: as in the experiment."),
    ] = None,
    candidate: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN|LABEL=FOLDER",
            help="Of tables: a column that names the candidates. Of an experiment: a model that was trained elsewhere. "
            "Its FOLDER holds ranks_SPLIT.npz, or SPLIT_images.npy and SPLIT_captions.npy, or SPLIT_similarity.npy, of "
            "val and test. Repeat a label to give a folder for each seed.",
        ),
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="Of tables: the column of datasets. Of an experiment: the dataset to judge.")
    ] = None,
    metric: Column = None,
    seed: Column = None,
    search: Column = None,
    split_column: Column = None,
    query: Column = None,
    step: Column = None,
    split: Annotated[str | None, typer.Option(help="Of tables: the split whose rows count; by default test.")] = None,
    baseline: Annotated[
        str | None,
        typer.Option(help="Of tables: the candidate that all others are compared with; by default all pairs are."),
    ] = None,
    lower_is_better: Annotated[
        bool, typer.Option("--lower-is-better", help="Of tables: lower values are better; by default by their name.")
    ] = False,
    higher_is_better: Annotated[
        bool, typer.Option("--higher-is-better", help="Of tables: higher values are better; by default by their name.")
    ] = False,
    percent: Annotated[bool, typer.Option("--percent", help="Of tables: take values up to 1 as fractions.")] = False,
    runs: Annotated[
        int | None, typer.Option(min=2, help="Of tables of means with deviations: the runs behind each mean.")
    ] = None,
    chosen: Annotated[
        Literal["beforehand", "val", "test"] | None, typer.Option(help="Of tables: how the candidates were chosen.")
    ] = None,
    settings: Annotated[
        Literal["fixed", "searched"] | None, typer.Option(help="Of tables: where the settings come from.")
    ] = None,
    looks: Annotated[
        int | None,
        typer.Option(min=1, help="Of tables: how often test was opened for these candidates, with this time."),
    ] = None,
    ignore_missing: Annotated[
        bool, typer.Option("--ignore-missing", help="Of tables: leave out runs without a value.")
    ] = False,
    form: Form = "table",
    data_root: DataRoot = Path("data"),
    output: Output = Path("runs"),
    as_json: Json = False,
) -> None:
    """Say which candidate is better: of tables of results, or of an experiment. Writes nothing.

    Columns are guessed, and shown before the answer; options name them. Of an experiment the confirmed candidates are
    compared by another test or with a model from elsewhere.
    """
    form = "json" if as_json else form
    columns = {"metric": metric, "seed": seed, "search": search, "split": split_column, "query": query, "step": step}
    if is_of_tables(places):
        if lower_is_better and higher_is_better:
            raise ConfigError("give one of --lower-is-better and --higher-is-better")
        lower = True if lower_is_better else False if higher_is_better else None
        roles = {"candidate": ",".join(candidate or []), "dataset": dataset, **columns}
        about = Circumstances(
            "",
            baseline=baseline,
            looks=looks,
            chosen=chosen,
            settings=settings,
            ignore_missing=ignore_missing,
            over_queries=verdict != "seeds",
        )
        judge_tables(TableRequest(places, roles, about, lower, split, percent, runs, form))
        return
    further = (split, baseline, lower_is_better, higher_is_better, percent, runs, chosen, settings, looks)
    if any((*columns.values(), *further, ignore_missing)):
        raise ConfigError(f"{places[0]}: an experiment takes no option of tables; tables are files such as results.csv")
    from orchestrator.commands.judge_experiment import judge_experiment

    judge_experiment(
        places[0],
        verdict=verdict,
        candidate=candidate or [],
        dataset=dataset,
        data_root=data_root,
        output=output,
        form=form,
    )
