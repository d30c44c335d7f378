"""What other programs get of an experiment: tables with every trial, and a storage that Optuna reads."""

import errno
import json
import os
import resource
import shlex
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from itertools import product
from pathlib import Path

import optuna
import pandas
import pytest

from orchestrator.experiment.experiment import load_experiment, shipped_experiments
from orchestrator.journal.directory import read_history
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import TrialState
from tests.support.commands import CommandLine
from tests.support.experiments import add_trial, begun
from tests.support.exported import add_one_in_each_state
from tests.support.precomputed_folder import write_precomputed
from trainables import extras


@pytest.fixture
def runs(here: Path) -> Path:
    with begun(here / "runs" / "tiny") as ledger:
        add_one_in_each_state(ledger)
    return here / "runs"


READERS = {
    ".csv": pandas.read_csv,
    ".parquet": pandas.read_parquet,
    ".jsonl": lambda path: pandas.DataFrame(map(json.loads, path.read_text().splitlines())),
}


@pytest.mark.parametrize("ending", READERS)
@pytest.mark.usefixtures("runs")
def test_every_trial_and_every_epoch_is_in_a_table(cli: CommandLine, ending: str) -> None:
    cli.shows("export", "tiny", "--to", f"trials{ending}")
    cli.shows("export", "tiny", "--epochs", "--to", f"epochs{ending}")
    trials, epochs = READERS[ending](Path(f"trials{ending}")), READERS[ending](Path(f"epochs{ending}"))
    assert list(trials["state"]) == ["finished", "stopped_early", "diverged", "running"]
    assert list(trials["val/rsum"]) == [3.0, 0.5, 0.5, 1.5]
    assert trials["param.temperature"].count() == 3
    assert list(zip(epochs["trial"].str[-4:], epochs["epoch"], epochs["val/rsum"], strict=True))[:3] == [
        ("0000", 1, 1.0),
        ("0000", 2, 3.0),
        ("0000", 3, 2.0),
    ]
    assert len(epochs) == 7


@pytest.mark.parametrize("ending", READERS)
def test_a_table_has_every_digit(runs: Path, cli: CommandLine, ending: str) -> None:
    values = [0.1 + 0.2, 1.23456789012345e-7]
    with closing(Ledger(runs / "tiny" / "journal.jsonl")) as ledger:
        for value in values:
            add_trial(ledger, [value])
    cli.shows("export", "tiny", "--to", f"trials{ending}")
    assert list(READERS[ending](Path(f"trials{ending}"))["val/rsum"])[-2:] == values


def test_optuna_reads_distributions_curves_values_and_states(cli: CommandLine, runs: Path) -> None:
    cli.shows("export", "tiny", "--to", "search.db")
    names = [one.study_name for one in optuna.get_all_study_summaries("sqlite:///search.db")]
    assert names == ["tiny/pets-vsepp-nt_xent", "tiny/pets-vsepp-triplet_sh"]
    study = optuna.load_study(study_name=names[0], storage="sqlite:///search.db")
    good, pruned, failed = study.trials
    assert (study.best_value, study.metric_names) == (3.0, ["val/rsum"])
    assert [one.state.name for one in study.trials] == ["COMPLETE", "PRUNED", "FAIL"]
    assert good.intermediate_values == {1: 1.0, 2: 3.0, 3: 2.0} and pruned.intermediate_values == {1: 0.5, 2: 0.25}
    space = optuna.distributions.FloatDistribution(0.005, 1.0, log=True)
    # What Optuna itself makes of a pruned trial.
    assert (pruned.value, failed.value) == (0.25, None)
    assert good.distributions == {"temperature": space} and good.params == {"temperature": 0.1}
    assert failed.user_attrs["error"] == "train/loss is nan" and failed.user_attrs["trial"] == "pets-vsepp-nt_xent-0002"
    assert good.datetime_start <= good.datetime_complete
    (diverged,) = (trial for trial in read_history(runs / "tiny").trials.values() if trial.error)
    assert failed.datetime_complete == datetime.fromtimestamp(diverged.ended)
    (running,) = optuna.load_study(study_name=names[1], storage="sqlite:///search.db").trials
    assert running.state.name == "RUNNING" and running.intermediate_values == {1: 1.5}


def test_a_storage_is_written_and_named_in_a_folder_of_any_name(cli: CommandLine, runs: Path) -> None:
    folder = Path("50% of b?c")
    folder.mkdir()
    said = cli.shows("export", "tiny", "--to", folder / "search.db")
    assert [path.name for path in folder.iterdir()] == ["search.db"]
    address = shlex.split(said.partition("`")[2].partition("`")[0])[1]
    assert len(optuna.get_all_study_summaries(address)) == 2


LACKS = "error: --to NAME{} needs {}, which is not installed: pip install 'icr-orchestrator[{}]'\n"

REFUSED = {
    "ending": (["--to", "trials.xlsx"], "--to trials.xlsx: must end in .csv, .parquet, .jsonl, .db"),
    "no package for W&B": (["--to", "a.wandb"], LACKS.format(".wandb", "wandb", "wandb")),
    "no package for Parquet": (["--to", "a.parquet"], LACKS.format(".parquet", "pyarrow", "search")),
    "no package for Optuna": (["--to", "a.db"], LACKS.format(".db", "optuna", "search")),
    "a folder of something else": (["--to", "mine.tensorboard", "--force"], "mine.tensorboard: holds old.csv"),
    "there already": (["--to", "old.csv"], "--to old.csv: is there already"),
    "epochs of a storage": (["--to", "a.db", "--epochs"], "--epochs: an Optuna storage has the epochs of every trial"),
    "no such folder": (["--to", "no/trials.csv"], "--to no/trials.csv: no such folder: no"),
    "a folder": (["--to", "folder.csv", "--force"], "--to folder.csv: is a folder; choose another name for a table"),
}


@pytest.mark.parametrize(("arguments", "message"), REFUSED.values(), ids=REFUSED)
@pytest.mark.usefixtures("runs")
def test_what_cannot_be_written_is_refused(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    Path("old.csv").write_text("mine")
    Path("folder.csv").mkdir()
    Path("mine.tensorboard").mkdir()
    Path("mine.tensorboard/old.csv").write_text("mine")
    before = sorted(Path().rglob("*"))
    monkeypatch.setattr(extras, "_is_installed", lambda module: module not in ("wandb", "pyarrow", "optuna"))
    assert message in cli.refuses("export", "tiny", *arguments)
    assert Path("old.csv").read_text() == Path("mine.tensorboard/old.csv").read_text() == "mine"
    assert sorted(Path().rglob("*")) == before


@pytest.mark.parametrize("leads_to", ["a file or folder", "nothing"])
@pytest.mark.parametrize("ending", [".csv", ".db", ".tensorboard", ".wandb"])
@pytest.mark.usefixtures("runs")
def test_a_link_is_refused_and_what_it_leads_to_is_left_alone(cli: CommandLine, ending: str, leads_to: str) -> None:
    target, link = Path("target"), Path(f"link{ending}")
    if leads_to != "nothing":
        target.mkdir() if ending in (".tensorboard", ".wandb") else target.write_text("mine")
    link.symlink_to(target)
    message = cli.refuses("export", "tiny", "--to", link, "--force")
    assert f"--to {link}: is a link to target; name that file or folder, or choose another name" in message
    assert link.is_symlink() and target.exists() == (leads_to != "nothing")


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size in bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(
    ("ending", "size"), [*product((".csv", ".jsonl", ".db", ".tensorboard"), (0, 30, 200)), (".db", 8192)]
)
@pytest.mark.usefixtures("runs")
def test_a_full_disk_ends_an_export_with_a_message_and_leaves_nothing(cli: CommandLine, ending: str, size: int) -> None:
    with full_disk(size):
        code, _, message = cli.run("export", "tiny", "--to", f"trials{ending}")
    reason = "disk I/O error" if ending == ".db" else os.strerror(errno.EFBIG)
    assert code == 1 and message.startswith(f"error: trials{ending}: {reason}; files written before are whole")
    assert [path.name for path in Path().iterdir()] == ["runs"]


def test_cells_that_begin_like_formulas_are_texts_and_numbers_stay_numbers(runs: Path, cli: CommandLine) -> None:
    ledger = Ledger(runs / "tiny" / "journal.jsonl")
    starts = ["=1+1", "+1", "-1+cmd", "@SUM(A1)", "\t=1", "\r=1", " =1"]
    for start_of_formula in starts:
        add_trial(ledger, [-1.5], state=TrialState.DIVERGED, error=start_of_formula)
    ledger.close()
    cli.shows("export", "tiny", "--to", "trials.csv")
    read = pandas.read_csv("trials.csv").iloc[-len(starts) :]
    assert list(read["val/rsum"]) == [-1.5] * len(starts)
    assert [cell[0] for cell in read["error"]] == ["'"] * len(starts)
    cli.shows("export", "tiny", "--to", "trials.jsonl")
    lines = [json.loads(line) for line in Path("trials.jsonl").read_text().splitlines()]
    assert [line["error"] for line in lines[-len(starts) :]] == starts


@pytest.mark.parametrize("source", shipped_experiments())
@pytest.mark.usefixtures("here")
def test_a_file_that_is_begun_is_the_experiment_under_another_name(cli: CommandLine, source: str) -> None:
    cli.shows("init", "my-search.yaml", "--from", source)
    mine, theirs = load_experiment("my-search.yaml").to_dict(), load_experiment(source).to_dict()
    assert mine.pop("name") == "my-search" and theirs.pop("name") == source
    assert mine == theirs
    text = Path("my-search.yaml").read_text()
    assert "orchestrator search my-search.yaml" in text and "# budget.plateau: null  # Ended trials in a row" in text


def test_a_file_that_cannot_be_begun_is_refused_and_none_is_replaced(here: Path, cli: CommandLine) -> None:
    Path("mine.yaml").write_text("name: mine")
    write_precomputed(here / "data" / "pets")
    for arguments, said in (
        (["mine.yaml"], "mine.yaml: is there already"),
        (["other.yaml", "--from", "scenes-smok"], "did you mean 'scenes-smoke'?"),
        (["other.yaml", "--from", "nope"], "has this name; experiments that ship: coco-baselines, "),
        (["other.txt"], "must be a .yaml file"),
        (["other.yaml", "--dataset", "pet"], "it holds pets"),
    ):
        assert said in cli.refuses("init", *arguments)
    assert not Path("other.yaml").exists()
    assert Path("mine.yaml").read_text() == "name: mine"


@pytest.mark.parametrize("name", ["my search.yaml", "Übung.yaml", "a\\1.yaml"])
def test_a_file_whose_name_is_no_name_of_an_experiment_is_refused_and_not_written(
    here: Path, cli: CommandLine, name: str
) -> None:
    assert "name: must be 1 to 100 letters" in cli.refuses("init", name)
    assert not (here / name).exists()


QUICK, LANGUAGES = ["--from", "flickr8k-quick"], ["--from", "flickr8k-languages"]


@pytest.mark.parametrize(
    ("folders", "arguments", "wanted"),
    [
        pytest.param([], [], ("scenes-smoke", ["scenes"]), id="no data"),
        pytest.param(["scenes"], [], ("scenes-smoke", ["scenes"]), id="those that can be generated"),
        pytest.param(["pets", "scenes"], [], ("flickr8k-losses", ["pets"]), id="data of one's own first"),
        pytest.param(["birds", "pets"], ["--dataset", "pets"], ("flickr8k-losses", ["pets"]), id="named data"),
        pytest.param([], QUICK, ("flickr8k-quick", ["flickr8k"]), id="a named start without data"),
        pytest.param(["pets"], QUICK, ("flickr8k-quick", ["pets"]), id="a named start"),
        pytest.param(
            ["birds", "flickr8k"], QUICK, ("flickr8k-quick", ["flickr8k"]), id="a named start on its own data"
        ),
        pytest.param(["flickr8k_zh"], LANGUAGES, ("flickr8k-languages", ["flickr8k_zh"]), id="one of several datasets"),
        pytest.param(["pets"], [*QUICK, "--dataset", "pets"], ("flickr8k-quick", ["pets"]), id="both are named"),
    ],
)
def test_an_experiment_file_begins_with_what_suits_the_data(
    here: Path, cli: CommandLine, folders: list[str], arguments: list[str], wanted: tuple[str, list[str]]
) -> None:
    for name in folders:
        write_precomputed(here / "my data" / name)
    (here / "my data" / "notes").mkdir(parents=True)
    said = cli.shows("init", "mine.yaml", "--data-root", "my data", *arguments)
    source, datasets = wanted
    missing = not {*datasets} <= {*folders}
    assert ("my data has no " in said) == missing
    if not missing and "flickr8k" not in datasets:
        text = Path("mine.yaml").read_text().replace(source, "").replace("flickr8k-", "").replace("flickr8k_zh", "")
        assert "flickr8k" not in text.lower().partition("# all other keys")[0], "nothing speaks of another dataset"
    mine, theirs = load_experiment("mine.yaml").to_dict(), load_experiment(source).to_dict()
    assert (mine.pop("name"), mine.pop("datasets")) == ("mine", datasets)
    kept = [part for part in theirs["overrides"] if {*(part["datasets"] or datasets)} <= {*datasets}]
    theirs |= {"overrides": kept, "description": mine["description"]}
    assert mine == {key: value for key, value in theirs.items() if key not in ("name", "datasets")}
