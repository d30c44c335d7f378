"""``orchestrator judge`` of tables: what is read, the words, what a referee would say, and how often it errs."""

import csv
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from orchestrator.judging.records import read_records
from orchestrator.results.runs import Runs
from orchestrator.results.table_verdicts import VALUE, Circumstances, TableVerdict
from orchestrator.text.addresses import database_address
from tests.support.bucket import free_port
from tests.support.commands import CommandLine
from trainables.errors import DataError

SHARED = Path(__file__).resolve().parents[4] / "shared"
A = [71.2, 70.8, 71.5, 70.9, 71.1]
B = [72.3, 72.9, 72.5, 72.1, 72.6]


@pytest.fixture
def line(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    return CommandLine(capsys)


def write(name: str, rows: list[dict[str, Any]], delimiter: str = ",") -> str:
    names = list(dict.fromkeys(key for row in rows for key in row))
    with Path(name).open("w", newline="") as file:
        writer = csv.DictWriter(file, names, delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return name


def rows(metric: str = "test_acc", **candidates: list[Any]) -> list[dict[str, Any]]:
    return [
        {"method": name, "seed": seed, metric: value}
        for name, values in candidates.items()
        for seed, value in enumerate(values)
    ]


def answer(line: CommandLine, *arguments: object) -> dict[str, Any]:
    answers: list[dict[str, Any]] = line.json("judge", *arguments)["answers"]
    return next(one for one in answers if one["key"] == "table")


def test_the_answer_is_that_of_welch_and_the_columns_are_shown_before_it(line: CommandLine) -> None:
    said = line.shows("judge", write("t.csv", rows(ours=B, baseline=A)))
    assert said.index("What was read?") < said.index("ours beats baseline by")
    found = answer(line, "t.csv")
    expected = stats.ttest_ind(B, A, equal_var=False)
    assert found["numbers"]["p"] == pytest.approx(expected.pvalue)
    assert found["numbers"]["difference"] == pytest.approx(np.mean(B) - np.mean(A))
    interval = expected.confidence_interval()
    assert (found["numbers"]["low"], found["numbers"]["high"]) == pytest.approx((interval.low, interval.high))
    assert found["verdict"] == "better"
    assert any("--chosen" in note for note in found["notes"]) and any("--looks" in note for note in found["notes"])
    known = answer(line, "t.csv", "--chosen", "val", "--settings", "fixed", "--looks", 1)
    assert not any("not known" in note for note in known["notes"])
    looked = answer(line, "t.csv", "--looks", 4)
    assert looked["numbers"]["p"] == pytest.approx(min(1, 4 * expected.pvalue))


def test_what_data_import_reads_is_read_too(line: CommandLine) -> None:
    from pyarrow import Table, feather

    table = rows(ours=B, baseline=A)
    name = write("unicode.csv", table)
    Path(name).write_text(Path(name).read_text(), encoding="utf-16")
    Path("columns.json").write_text(json.dumps({key: [row[key] for row in table] for key in table[0]}))
    feather.write_feather(Table.from_pylist(table), "arrow.feather")
    expected = answer(line, write("t.csv", table))["headline"]
    assert {answer(line, file)["headline"] for file in (name, "columns.json", "arrow.feather")} == {expected}


@pytest.mark.parametrize("form", ["tsv", "semicolon", "jsonl", "json", "parquet", "percent", "fractions", "wide"])
def test_each_form_of_a_table_gives_the_same_answer(line: CommandLine, form: str) -> None:
    table = rows(ours=B, baseline=A)
    if form == "tsv":
        name = write("t.tsv", table, "\t")
    elif form == "semicolon":
        name = write("t.csv", [{**row, "test_acc": str(row["test_acc"]).replace(".", ",")} for row in table], ";")
        Path(name).write_text("\ufeff" + Path(name).read_text())
    elif form == "jsonl":
        name = "t.jsonl"
        nested = [
            {"config": {"method": row["method"], "seed": row["seed"]}, "test": {"acc": row["test_acc"]}}
            for row in table
        ]
        Path(name).write_text("".join(f"{json.dumps(row)}\n" for row in nested))
    elif form == "json":
        name = "t.json"
        Path(name).write_text(json.dumps(table))
    elif form == "parquet":
        from pyarrow import Table, parquet

        name = "t.parquet"
        parquet.write_table(Table.from_pylist(table), name)
    elif form == "percent":
        name = write("t.csv", [{**row, "test_acc": f"{row['test_acc']} %"} for row in table])
    elif form == "fractions":
        name = write("t.csv", [{**row, "test_acc": row["test_acc"] / 100} for row in table])
    else:
        name = write(
            "t.csv", [{"seed": seed, "ours": b, "baseline": a} for seed, (a, b) in enumerate(zip(A, B, strict=True))]
        )
    options = ["--percent"] if form == "fractions" else []
    found = answer(line, name, *options)
    assert found["numbers"]["p"] == pytest.approx(stats.ttest_ind(B, A, equal_var=False).pvalue)
    assert found["headline"].startswith("ours beats baseline by 1.38 ")


def test_several_files_are_one_table_and_roles_can_be_named(line: CommandLine) -> None:
    one = write("a.csv", [{"who": "x", "nr": n, "m1": value, "m2": -value} for n, value in enumerate(A)])
    two = write("b.csv", [{"who": "y", "nr": n, "m1": value, "m2": -value} for n, value in enumerate(B)])
    found = answer(line, one, two, "--candidate", "who", "--seed", "nr", "--metric", "m1")
    assert found["headline"].startswith("y beats x by 1.38 m1")
    lower = answer(line, one, two, "--candidate", "who", "--seed", "nr", "--metric", "m2", "--lower-is-better")
    assert lower["headline"].startswith("y beats x: −1.38 m2, lower is better")
    assert lower["numbers"]["difference"] == pytest.approx(-found["numbers"]["difference"])
    assert "there is no column 'm3'" in line.refuses("judge", one, two, "--metric", "m3")


def test_a_loss_is_better_where_it_is_lower(line: CommandLine) -> None:
    found = answer(line, write("t.csv", rows("val_loss", old=[1.0, 1.1, 0.9, 1.0], new=[0.5, 0.52, 0.48, 0.5])))
    assert found["verdict"] == "better" and found["headline"].startswith("new beats old: −0.5")
    assert [row["candidate"] for row in found["table"]["rows"]] == ["new", "old"]
    turned = answer(line, "t.csv", "--higher-is-better")
    assert turned["headline"].startswith("old beats new")


def test_one_seed_gets_no_verdict_and_what_follows_from_it(line: CommandLine) -> None:
    found = answer(line, write("t.csv", rows(ours=[73.0], baseline=A)))
    assert found["verdict"] == "untested" and "at least two runs" not in found["headline"][:20]
    notes = " ".join(found["notes"])
    assert "ours has one run" in notes and "this is no verdict" in notes
    sample = np.array(A)
    away = (73.0 - sample.mean()) / (sample.std(ddof=1) * np.sqrt(1.2))
    p = 2 * stats.t.sf(away, 4)
    assert f"p = {p:.3f}" in notes


def test_unequal_seeds_are_allowed_and_named(line: CommandLine) -> None:
    found = answer(line, write("t.csv", rows(ours=B[:3], baseline=A)))
    assert found["numbers"]["p"] == pytest.approx(stats.ttest_ind(B[:3], A, equal_var=False).pvalue)
    assert any("unequal numbers of runs (ours 3 and baseline 5)" in note for note in found["notes"])


def test_a_candidate_that_lost_a_run_is_never_called_better(line: CommandLine) -> None:
    found = answer(line, write("t.csv", rows(ours=[*B[:4], ""], baseline=A)))
    assert found["verdict"] == "untested" and "lost a run" in found["headline"]
    assert any("ours lacks a value of seed 4 (no value)" in note for note in found["notes"])
    assert answer(line, "t.csv", "--ignore-missing")["verdict"] == "better"
    # The baseline's lost run cannot make the baseline better, but the other may be.
    assert answer(line, write("u.csv", rows(ours=B, baseline=[*A[:4], ""])))["verdict"] == "better"


def test_a_run_that_crashed_is_missing_whatever_its_last_value(line: CommandLine) -> None:
    table = [
        {
            "Name": f"run-{place}",
            "State": state,
            "method": row["method"],
            "seed": row["seed"],
            "test/acc": row["test_acc"],
        }
        | {"Runtime": 100 + place, "_step": 7, "lr": 0.1, "Sweep": "", "Notes": ""}
        for place, (row, state) in enumerate(zip(rows(ours=B, baseline=A), ["crashed", *["finished"] * 9], strict=True))
    ]
    found = answer(line, write("wandb_export.csv", table))
    assert found["verdict"] == "untested" and any("(crashed)" in note for note in found["notes"])
    read = line.json("judge", "wandb_export.csv")["answers"][0]["table"]["rows"]
    assert {row["role"]: row["column"] for row in read}.keys() == {"candidate", "metric", "seed", "step", "state"}


def test_fractions_beside_percentages_are_refused(line: CommandLine) -> None:
    name = write("t.csv", rows(ours=[value / 100 for value in B], baseline=A))
    assert "--percent" in line.refuses("judge", name)
    assert answer(line, name, "--percent")["headline"].startswith("ours beats baseline by 1.38")


def test_without_a_baseline_all_pairs_are_counted_and_with_one_its_own(line: CommandLine) -> None:
    other = [72.0, 72.8, 72.4, 72.2, 72.9]
    name = write("t.csv", rows(a=A, b=B, c=other))
    p = {
        key: stats.ttest_ind(*pair, equal_var=False).pvalue
        for key, pair in {"ab": (A, B), "ac": (A, other), "bc": (B, other)}.items()
    }
    found = answer(line, name)
    assert found["verdict"] == "tie" and found["numbers"]["p"] == pytest.approx(p["bc"])
    by_name = {row["candidate"]: row for row in found["table"]["rows"]}
    assert by_name["a"]["verdict"] == "worse" and by_name["a"]["p"] == pytest.approx(3 * p["ab"])
    found = answer(line, name, "--baseline", "a")
    by_name = {row["candidate"]: row for row in found["table"]["rows"]}
    assert by_name["c"]["verdict"] == "better" and by_name["c"]["p"] == pytest.approx(p["ac"])
    assert by_name["b"]["p"] == pytest.approx(2 * p["ab"]) and "2 of 2 candidates beat a" in found["headline"]
    assert "is no candidate" in line.refuses("judge", name, "--baseline", "z")


def test_the_surest_of_those_that_beat_a_baseline_is_one_of_them(line: CommandLine) -> None:
    far = [60.0, 60.1, 59.9, 60.0, 60.1]
    table = rows(base=A, b=B, c=[value + 0.05 for value in B], far=far)
    found = answer(line, write("t.csv", table), "--baseline", "base")
    assert found["headline"].startswith("2 of 3 candidates beat base: c and b. Surest: c beats base by")
    assert found["numbers"]["difference"] > 0
    twice = [{"dataset": name, **row} for name in ("d1", "d2") for row in table]
    said = line.json("judge", write("t.csv", twice), "--baseline", "base")["answers"][-1]["headline"]
    assert said == "c is ahead on 2 of 2 datasets; c beats base on 2; b beats base on 2."


def test_searches_are_the_unit_where_a_candidate_has_several(line: CommandLine) -> None:
    table = [
        {"method": name, "search": search, "seed": seed, "acc": mean + 0.1 * seed}
        for name, means in {"a": [70, 71, 72], "b": [74, 75, 77]}.items()
        for search, mean in enumerate(means)
        for seed in range(3)
    ]
    found = answer(line, write("t.csv", table))
    expected = stats.ttest_ind([74.1, 75.1, 77.1], [70.1, 71.1, 72.1], equal_var=False)
    assert found["numbers"]["p"] == pytest.approx(expected.pvalue) and "3 searches" in found["headline"]
    assert not any("another search" in note for note in found["notes"])


def test_datasets_are_questions_of_their_own(line: CommandLine) -> None:
    table = [{"dataset": name, **row} for name in ("d1", "d2") for row in rows(ours=B, baseline=A)]
    answers = line.json("judge", write("t.csv", table))["answers"]
    assert [one["dataset"] for one in answers if one["key"] == "table"] == ["d1", "d2"]
    assert "ours is ahead on 2 of 2 datasets" in answers[-1]["headline"]


def test_of_several_splits_test_counts_and_of_several_steps_the_last(line: CommandLine) -> None:
    table = [
        {
            "method": row["method"],
            "seed": row["seed"],
            "split": split,
            "epoch": epoch,
            "acc": row["test_acc"] - 5 * (2 - epoch),
        }
        for row in rows(ours=B, baseline=A)
        for split in ("val", "test")
        for epoch in (1, 2)
    ]
    found = answer(line, write("t.csv", table))
    assert found["numbers"]["p"] == pytest.approx(stats.ttest_ind(B, A, equal_var=False).pvalue)
    assert "must be one of val, test" in line.refuses("judge", "t.csv", "--split", "dev")


def test_values_of_queries_are_crossed_with_seeds(line: CommandLine) -> None:
    rng = np.random.default_rng(0)
    hard = rng.normal(size=200)
    for name, lift in {"a": 0.0, "b": 0.4}.items():
        for seed in range(3):
            np.save(f"{name}{seed}.npy", hard + lift + 0.1 * rng.normal() + 0.3 * rng.normal(size=200))
    files = [f"{name}={name}{seed}.npy" for name in "ab" for seed in range(3)]
    found = answer(line, *files, "--metric", "score")
    from orchestrator.results.crossed import crossed_test

    values = [np.stack([np.load(f"{name}{seed}.npy") for seed in range(3)]) for name in "ba"]
    expected = crossed_test(*values)
    assert expected is not None and found["numbers"]["p"] == pytest.approx(expected.p)
    assert "3 runs × 200 queries" in found["headline"]
    table = [
        {"method": name, "seed": seed, "query": f"q{query}", "score": value}
        for name in "ab"
        for seed in range(3)
        for query, value in enumerate(np.load(f"{name}{seed}.npy"))
    ]
    assert answer(line, write("q.csv", table))["numbers"]["p"] == pytest.approx(expected.p)
    one = answer(line, "a=a0.npy", "b=b0.npy", "--metric", "score")
    assert one["numbers"]["p"] == pytest.approx(stats.ttest_rel(np.load("a0.npy"), np.load("b0.npy")).pvalue)
    assert any("not about training it again" in note for note in one["notes"])
    np.save("short.npy", np.ones(7))
    assert "must be the same" in line.refuses("judge", "a=a0.npy", "b=short.npy")


def values_of_queries(**candidates: list[Any]) -> list[dict[str, Any]]:
    """Return three runs of ten queries; a candidate is its lift, its first query, and the number of whole runs."""
    rng = np.random.default_rng(3)
    return [
        {"method": name, "seed": seed, "query": f"q{query}", "score": lift + rng.normal() if seed < whole else ""}
        for name, (lift, first, whole) in candidates.items()
        for seed in range(3)
        for query in range(first, first + 10)
    ]


def test_values_of_different_queries_are_not_paired(line: CommandLine) -> None:
    name = write("q.csv", values_of_queries(a=[0.0, 0, 3], b=[9.0, 1, 3]))
    assert "a: has no value of query q10" in line.refuses("judge", name)
    table = values_of_queries(a=[0.0, 0, 3], b=[9.0, 0, 3])
    assert "b, seed 2: has several values of query q9" in line.refuses("judge", write("q.csv", [*table, table[-1]]))


def test_a_run_without_any_value_of_its_queries_is_a_lost_run(line: CommandLine) -> None:
    found = answer(line, write("q.csv", values_of_queries(a=[0.0, 0, 3], b=[9.0, 0, 2])))
    assert found["verdict"] == "untested" and "b lost a run" in found["headline"]
    assert answer(line, "q.csv", "--ignore-missing")["verdict"] == "better"
    # One run that is left of three is no model without seeds.
    found = answer(line, write("q.csv", values_of_queries(a=[0.0, 0, 1], b=[9.0, 0, 3])), "--ignore-missing")
    assert found["verdict"] == "untested" and "a has one run; a verdict needs at least two" in " ".join(found["notes"])


def test_over_the_runs_alone_single_runs_get_no_word(line: CommandLine) -> None:
    """Their difference has an error that nobody knows, and is not exact."""
    for name, lift in (("a", 0.0), ("b", 5.0)):
        np.save(f"{name}.npy", np.random.default_rng(0).normal(size=50) + lift)
    for others in (["a=a.npy"], ["a=a.npy"] * 3):
        found = answer(line, "b=b.npy", *others, "--verdict", "seeds")
        assert found["verdict"] == "untested" and "a test needs at least two seeds of each" in found["headline"]
        assert "b has one run; a verdict needs at least two" in " ".join(found["notes"])


def test_the_name_of_a_metric_turns_values_of_queries_as_well(line: CommandLine) -> None:
    for name, lift in (("a", 0.0), ("b", 5.0)):
        np.save(f"{name}.npy", np.random.default_rng(int(lift)).normal(size=50) + lift)
    found = answer(line, "a=a.npy", "b=b.npy", "--metric", "nll")
    assert found["headline"].startswith("a beats b: −") and "lower is better" in found["headline"]
    read = line.json("judge", "a=a.npy", "b=b.npy", "--metric", "nll")["answers"][0]["table"]["rows"]
    assert read == [{"role": "metric", "column": "nll (lower is better)", "how": "named"}]
    assert answer(line, "a=a.npy", "b=b.npy", "--metric", "nll", "--higher-is-better")["headline"].startswith("b beats")
    assert "--baseline z: is no candidate" in line.refuses("judge", "a=a.npy", "b=b.npy", "--baseline", "z")


@pytest.mark.parametrize(("searches", "level"), [(2, 0.012), (3, 0.03), (4, 0.035)])
def test_few_searches_have_a_level_of_their_own(line: CommandLine, searches: int, level: float) -> None:
    """A lead whose p-value is a little below, and one whose p-value is a little above the level."""
    spread = np.linspace(-1.0, 1.0, searches)

    def word(p: float) -> str:
        error = float(spread.std(ddof=1)) * np.sqrt(2 / searches)
        lead = error * stats.t.isf(p / 2, 2 * (searches - 1))
        table = [
            {"method": name, "search": search, "seed": seed, "acc": 50 + mean + value}
            for name, mean in (("a", 0.0), ("b", lead))
            for search, value in enumerate(spread)
            for seed in range(2)
        ]
        return str(answer(line, write("t.csv", table))["verdict"])

    assert [word(0.99 * level), word(1.01 * level)] == ["better", "tie"]


@pytest.mark.skipif(not (SHARED / "reference").exists(), reason="the published tables do not lie beside the checkout")
def test_the_five_runs_of_the_ecir_paper_are_judged_from_means_and_deviations(line: CommandLine) -> None:
    table = SHARED / "reference" / "paper_table1.csv"
    found = line.json("judge", table, "--runs", 5, "--metric", "rsum", "--dataset", "dataset,model")["answers"]
    by_dataset = {one["dataset"]: one for one in found if one["key"] == "table"}
    vsepp = by_dataset["Flickr30k, VSE++"]
    # Triplet SH 353.8 ± 1.6 and SmoothAP 350.4 ± 1.7, five runs each: Welch by hand, Holm over six pairs.
    expected = stats.ttest_ind_from_stats(353.8, 1.6, 5, 350.4, 1.7, 5, equal_var=False).pvalue
    assert vsepp["numbers"]["p_unadjusted"] == pytest.approx(expected)
    assert len(by_dataset) == 4 and vsepp["table"]["rows"][0]["candidate"].startswith("Triplet loss SH")


@pytest.mark.parametrize("form", ["markdown", "latex", "html", "csv"])
def test_each_renderer_shows_the_verdict(line: CommandLine, form: str) -> None:
    said = line.shows("judge", write("t.csv", rows(ours=B, baseline=A)), "--format", form)
    assert "ours" in said and ("better" in said or "worse" in said)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.csv", "", "has no rows"),
        ("t.csv", "a,a\n1,2\n", "different name for each column"),
        ("t.csv", "a,b\n1,2,3\n", "row 2 has 3 cells"),
        ("t.csv", "m,seed,acc\na,1,2\na,1,3\nb,1,2\n", "has several rows"),
        ("t.csv", "method,seed,acc\na,x,2\nb,y,3\n", "a seed must be a number"),
        ("t.csv", "method,seed\na,1\nb,2\n", "no column of numbers is a metric"),
        ("t.json", "[1, 2]", "[0]: must be an object"),
        ("t.jsonl", "{", "line 1: broken JSON"),
        ("t.xlsx", "PK", "export it as CSV"),
        ("t.parquet", "PAR1", "cannot be read as a table"),
    ],
)
def test_bad_tables_are_refused_with_their_place(line: CommandLine, name: str, content: str, said: str) -> None:
    Path(name).write_text(content)
    assert said in line.refuses("judge", name)


@pytest.mark.parametrize("start", ["mlflow", "optuna"])
@pytest.mark.parametrize("name", ["gone.db", "50%.db"])
def test_a_database_that_is_not_there_is_named_and_not_made(
    line: CommandLine, tmp_path: Path, start: str, name: str
) -> None:
    said = line.refuses("judge", f"{start}:{database_address(tmp_path / name)}#x")
    assert f"there is no file {tmp_path / name}" in said
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("start", ["mlflow", "optuna"])
def test_nothing_is_written_into_the_database_of_another_program(line: CommandLine, tmp_path: Path, start: str) -> None:
    theirs = tmp_path / "theirs.db"
    with closing(sqlite3.connect(theirs)) as database:
        database.execute("create table mine (number)")
    before = theirs.read_bytes()
    line.refuses("judge", f"{start}:sqlite:///{theirs}#x")
    assert theirs.read_bytes() == before


def test_a_server_that_is_not_there_is_asked_once(line: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("time.sleep", waited.append)
    said = line.refuses("judge", f"mlflow:http://127.0.0.1:{free_port()}#x")
    assert "cannot be read: " in said
    assert sum(waited) < 10, "MLflow would wait four minutes"
    assert "driver of the database is not installed" in line.refuses("judge", "mlflow:mssql+gone://127.0.0.1:1/x#x")


def test_a_file_that_is_not_there_is_named(line: CommandLine) -> None:
    assert "gone.csv: cannot be read" in line.refuses("judge", "gone.csv")


@pytest.mark.proof
def test_a_store_of_mlflow_and_a_study_of_optuna_that_plain_scripts_wrote(line: CommandLine, tmp_path: Path) -> None:
    import mlflow
    import optuna

    uri = f"sqlite:///{tmp_path / 'plain.db'}"
    client = mlflow.MlflowClient(tracking_uri=uri)
    experiment = client.create_experiment("plain")
    for row in rows(ours=B, baseline=A):
        run = client.create_run(experiment)
        client.log_param(run.info.run_id, "method", row["method"])
        client.set_tag(run.info.run_id, "seed", row["seed"])
        client.log_metric(run.info.run_id, "acc", row["test_acc"])
        client.set_terminated(run.info.run_id)
    expected = stats.ttest_ind(B, A, equal_var=False).pvalue
    assert answer(line, f"mlflow:{uri}#plain")["numbers"]["p"] == pytest.approx(expected)
    assert "has no experiment 'other'" in line.refuses("judge", f"mlflow:{uri}#other")
    storage = f"sqlite:///{tmp_path / 'optuna.db'}"
    study = optuna.create_study(storage=storage, study_name="plain", direction="minimize")
    for row in rows(ours=B, baseline=A):
        study.add_trial(
            optuna.trial.create_trial(
                params={"method": row["method"]},
                distributions={"method": optuna.distributions.CategoricalDistribution(["ours", "baseline"])},
                user_attrs={"seed": row["seed"]},
                value=-row["test_acc"],
            )
        )
    found = answer(line, f"optuna:{storage}#plain")
    assert found["numbers"]["p"] == pytest.approx(expected) and found["headline"].startswith("ours beats baseline: −")
    assert "has no study 'other'" in line.refuses("judge", f"optuna:{storage}#other")


@pytest.mark.parametrize(
    "place",
    [
        "optuna:postgresql+psycopg2://me:secret@127.0.0.1:1/db#study",
        "optuna:postgresql+nothing://me:secret@127.0.0.1:1/db#study",
        "optuna:postgresql://me:secret@127.0.0.1:1/db",
        "mlflow:postgresql://me:secret@127.0.0.1:1/db",
        "mlflow:postgresql+nothing://me:secret@127.0.0.1:1/db#experiment",
        "postgresql://me:secret@127.0.0.1:1/db.csv",
    ],
)
def test_no_error_quotes_the_password_of_a_store(place: str) -> None:
    """Also from Python, where no command hides it."""
    with pytest.raises(DataError) as refused:
        read_records(place)
    assert "secret" not in str(refused.value) and "me:***@127.0.0.1:1" in str(refused.value)


@pytest.mark.parametrize(("candidates", "seeds"), [(2, 3), (2, 5), (4, 5)])
def test_equal_candidates_are_rarely_called_different(candidates: int, seeds: int) -> None:
    rng = np.random.default_rng([candidates, seeds])
    about = Circumstances("acc")
    erred = 0
    for _ in range(300):
        drawn = rng.normal(size=(candidates, seeds))
        runs = [Runs.of_seeds(f"c{n}", {s: {VALUE: float(v)} for s, v in enumerate(of)}) for n, of in enumerate(drawn)]
        found = TableVerdict("", runs, about).answer()
        assert found.table is not None
        erred += any(row["verdict"] in ("better", "worse") for row in found.table.to_dict()["rows"])
    assert erred / 300 <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 300)


def test_a_rate_of_success_is_a_metric_and_a_learning_rate_is_none(line: CommandLine) -> None:
    table = [{**row, "learning_rate": 0.1} for row in rows("success_rate", ours=B, baseline=A)]
    assert "ours beats baseline by 1.38 success rate" in answer(line, write("t.csv", table))["headline"]
