"""Each command that a message proposes is run as it is printed, in the situation in which the message is printed.

A message is not helpful because its command can be parsed: *make them with data extract p* may be answered by *is there
already; remove it*. ``SITUATIONS`` makes the situation of each message; what stands for a name of the user's is typed
in its place. ``NOT_RUN`` names the others, each with the reason.
"""

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from orchestrator.journal.lock import hold
from tests.support.commands import CommandLine
from tests.support.in_process import without_ray
from tests.support.precomputed_folder import write_precomputed
from tests.test_remedies import texts

ROOT = Path(__file__).parents[1]

EXPERIMENT = """
name: tiny
datasets: [pets]
models: [wsabie]
losses: [nt_xent]
training: {epochs: 3, batch_size: 32, embedding_size: 8}
search: {sampler: random, trials: 2, training: {learning_rate: [0.0001, 1.0]}}
scheduler: {name: none}
resources: {cpus: 1, gpus: 0}
"""

SUITE = """
name: nightly
seeds: 2
max_seeds: 2
matters: 5
training: {epochs: 1, batch_size: 32, embedding_size: 8}
cells: [{dataset: pets, model: wsabie, loss: nt_xent}]
"""


class Shell:
    """The folder of a user with a small dataset, in which commands are typed; a search takes a second."""

    def __init__(self, root: Path, cli: CommandLine, patch: pytest.MonkeyPatch) -> None:
        self.root, self._cli, self.patch, self.tracked = root, cli, patch, False
        write_precomputed(root / "data" / "pets")
        (root / "tiny.yaml").write_text(EXPERIMENT)
        (root / "nightly.yaml").write_text(SUITE)

    def type(self, line: str) -> tuple[int, str]:
        """Return the exit code of a command and all that it says."""
        program, *words = shlex.split(line)
        assert program == "orchestrator"
        if words[0] == "sync":
            # MLflow keeps in a process what it has opened.
            done = subprocess.run([sys.executable, "-m", "orchestrator", *words], capture_output=True, text=True)
            code, out, err = done.returncode, done.stdout, done.stderr
        else:
            with without_ray(tracked=self.tracked):
                code, out, err = self._cli.run(*words)
        assert "Traceback" not in out + err
        # A process of its own names the program by its path.
        return code, re.sub(r"`[^`\s]*/orchestrator ", "`orchestrator ", out + err)

    def does(self, line: str) -> str:
        code, said = self.type(line)
        assert code == 0, said
        return said


@dataclass(frozen=True)
class Situation:
    """A message and what is typed after it.

    Attributes:
        make: Makes the situation.
        shows: The command whose message proposes another.
        fills: What a user types in place of what the message leaves to the user; the empty name is appended.
        before: What the message asks the user to do before the command.
        next: Part of the words of ``shows`` in the next step, where another problem is left; else it succeeds.
        ends: Exit code of the proposed command.
    """

    make: Callable[[Shell], object]
    shows: str
    fills: Mapping[str, str] = field(default_factory=dict)
    before: Callable[[Shell], object] = lambda shell: None
    next: str | None = None
    ends: int = 0


def nothing(shell: Shell) -> None:
    """Leave the folder as it is."""


def searched(shell: Shell) -> None:
    shell.does("orchestrator search tiny.yaml")


def tracked(shell: Shell) -> None:
    shell.tracked = True
    searched(shell)


def rerun(shell: Shell) -> None:
    shell.does("orchestrator regress nightly.yaml")


def regressed(shell: Shell) -> None:
    """A rerun whose accepted results are much better."""
    rerun(shell)
    shell.does("orchestrator regress accept nightly.yaml --why first")
    path = shell.root / "nightly.accepted.json"
    path.write_text(re.sub(r'("val/rsum": )[\d.]+', r"\g<1>590.0", path.read_text()))
    assert shell.type("orchestrator regress nightly.yaml")[0] == 5


def empty_journal(shell: Shell) -> None:
    (shell.root / "runs" / "tiny").mkdir(parents=True)
    (shell.root / "runs" / "tiny" / "journal.jsonl").touch()


def journal_without_a_start(shell: Shell) -> None:
    searched(shell)
    path = shell.root / "runs" / "tiny" / "journal.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if '"experiment_started"' not in line and '"trial' not in line))
    shutil.rmtree(path.with_name("trials"))


def damaged_journal(shell: Shell) -> None:
    searched(shell)
    path = shell.root / "runs" / "tiny" / "journal.jsonl"
    first, second, *rest = path.read_text().splitlines(keepends=True)
    path.write_text("".join([first, second[:20] + "\n", *rest]))


def unsearched(shell: Shell) -> None:
    """An experiment whose only trial has failed."""
    (shell.root / "plug.py").write_text(
        "from trainables.plugins import loss\n\n@loss(space={})\ndef breaks(similarity, positives, ignore):\n"
        "    return 1 / 0 * similarity.sum()\n"
    )
    code, said = shell.type("orchestrator search tiny.yaml --set losses=[breaks] --plugin plug.py")
    assert code == 1, said


def with_a_plug_in_that_changed(shell: Shell) -> None:
    text = (
        "from trainables.plugins import loss\n\n@loss(space={})\ndef simple(similarity, positives, ignore):\n"
        "    return -similarity[positives].mean()\n"
    )
    (shell.root / "plug.py").write_text(text)
    shell.does("orchestrator search tiny.yaml --set losses=[simple] --plugin plug.py")
    (shell.root / "plug.py").write_text(text + "\n# Another.\n")


def moved(shell: Shell) -> None:
    tracked(shell)
    shell.does("orchestrator sync --output runs")
    shutil.copytree(shell.root / "runs", shell.root / "my runs")


def without_a_database(shell: Shell) -> None:
    (shell.root / "runs" / "mlflow.db").unlink()
    shell.tracked = True


def rename_database(shell: Shell) -> None:
    folder = next(path for path in (shell.root / "my runs", shell.root / "runs") if path.exists())
    (folder / "mlflow.db").rename(folder / "former.db")


def damaged_database(shell: Shell) -> None:
    searched(shell)
    (shell.root / "runs" / "mlflow.db").write_bytes(b"no database " * 1000)


def photos(shell: Shell) -> None:
    """A dataset of pictures without features, and torchvision's weights, untrained here, where it keeps them."""
    shell.does("orchestrator data generate scenes --images 20 --out data/photos")
    for path in (shell.root / "data" / "photos").glob("features_*"):
        path.unlink()
    import torch
    from torchvision.models import ResNet50_Weights, resnet50

    place = shell.root / "torch" / "hub" / "checkpoints" / Path(ResNet50_Weights.DEFAULT.url).name
    place.parent.mkdir(parents=True)
    torch.save(resnet50(weights=None).state_dict(), place)
    shell.patch.setenv("TORCH_HOME", str(shell.root / "torch"))


def features_of_other_captions(shell: Shell) -> None:
    shell.does("orchestrator data extract pets --text tfidf-svd --dimensions 8")
    path = shell.root / "data" / "pets" / "train_caps.txt"
    path.write_text(path.read_text().replace("dog", "hound"))


def features_of_other_tokens(shell: Shell) -> None:
    shell.does("orchestrator data extract pets --text tfidf-svd --dimensions 8 --tokenizer characters")


def remove_features(shell: Shell) -> None:
    (shell.root / "data" / "pets" / "features_text.npy").unlink()


def annotations_without_splits(shell: Shell) -> None:
    folder = shell.root / "data" / "pics" / "annotations"
    folder.mkdir(parents=True)
    images = [{"id": number, "file_name": f"{number}.jpg"} for number in range(30)]
    captions = [{"id": number, "image_id": number, "caption": f"a dog {number} runs"} for number in range(30)]
    (folder / "captions_all.json").write_text(json.dumps({"images": images, "annotations": captions}))


def table_of_captions(shell: Shell) -> None:
    from PIL import Image

    folder = shell.root / "data" / "photos"
    (folder / "images").mkdir(parents=True)
    for number in range(30):
        Image.new("RGB", (8, 8), (8 * number, 0, 0)).save(folder / "images" / f"{number}.png")
    rows = "".join(f"{n}.png,a dog {n} runs,{('train', 'val', 'test')[n % 3]}\n" for n in range(30))
    (folder / "captions.csv").write_text(f"image,caption,split\n{rows}")


def sampler_that_breaks(shell: Shell) -> None:
    (shell.root / "plug.py").write_text(
        "from trainables.plugins import sampler\n\n@sampler()\ndef breaks(study, seed):\n"
        "    return {'temperature': 0.1 if study.number < 1 else 9.0}\n"
    )


SEARCH = "orchestrator search tiny.yaml"
SYNC = "orchestrator sync"
HEAD = "orchestrator train --set dataset=pets --set loss=nt_xent --set model=head --set training.epochs=1"
PHOTOS = "orchestrator data describe photos"

SITUATIONS: Mapping[str, Situation] = {
    "commands/data.py: orchestrator data extract x": Situation(photos, PHOTOS),
    "commands/judge_experiment.py: orchestrator confirm x": Situation(searched, "orchestrator judge tiny"),
    "commands/keys.py: orchestrator list metrics": Situation(
        nothing, "orchestrator list keys --json", next="list metrics"
    ),
    "commands/list_names.py: orchestrator list x": Situation(
        nothing, "orchestrator list losses zzz", next="is none of the losses"
    ),
    "commands/search.py: orchestrator extend x --set x=x": Situation(
        nothing, f"{SEARCH} --set budget.hours=1e-9", next="budget spent: budget.hours=1e-09 ended", ends=4
    ),
    "commands/regress.py: orchestrator regress accept": Situation(
        regressed, "orchestrator regress nightly.yaml --if-due 1h", {"": "nightly.yaml --why right"}, next="not due"
    ),
    "experiment/first_experiment.py: orchestrator data extract x": Situation(
        photos, "orchestrator init first.yaml --dataset photos"
    ),
    "journal/directory.py: orchestrator search": Situation(
        empty_journal, "orchestrator summarise tiny", {"": "tiny.yaml"}
    ),
    "journal/journal.py: orchestrator doctor x": Situation(
        damaged_journal, "orchestrator status tiny", next="damaged", ends=1
    ),
    "journal/lock.py: orchestrator status x": Situation(searched, "orchestrator resume tiny", next="already running"),
    "regression/accepted.py: orchestrator regress accept x --why REASON": Situation(
        rerun, "orchestrator regress nightly.yaml --require-accepted", {"REASON": "'as it should be'"}
    ),
    "regression/rerun.py: orchestrator regress x": Situation(
        nothing, "orchestrator regress accept nightly.yaml --why first"
    ),
    "regression/verdict.py: orchestrator regress accept": Situation(
        nothing, "orchestrator regress nightly.yaml", {"": "nightly.yaml --why first"}
    ),
    "results/tables.py: orchestrator status x": Situation(
        unsearched, "orchestrator summarise tiny", next="nothing to compare"
    ),
    "results/trial_comparison.py: orchestrator confirm": Situation(
        searched,
        "orchestrator compare pets-wsabie-nt_xent-0000 pets-wsabie-nt_xent-0001",
        {"": "tiny --seeds 2"},
        next="with fresh seeds",
    ),
    "results/trial_comparison.py: orchestrator status EXPERIMENT --all": Situation(
        searched, "orchestrator compare zzz pets-wsabie-nt_xent-0000", {"EXPERIMENT": "tiny"}, next="no such trial"
    ),
    "searches/preparation.py: orchestrator resume x": Situation(
        searched, f"{SEARCH} --set search.seed=9", next="other settings"
    ),
    "searches/preparation.py: orchestrator resume x (2)": Situation(
        with_a_plug_in_that_changed, f"{SEARCH} --set losses=[simple] --plugin plug.py", next="other plug-ins"
    ),
    "searches/resuming.py: orchestrator search": Situation(
        journal_without_a_start, "orchestrator resume tiny", {"": "tiny.yaml"}
    ),
    "studies/past_searches.py: orchestrator status x": Situation(
        damaged_journal, f"{SEARCH} --set name=new --set search.prior=auto --dry-run", next="is left out", ends=2
    ),
    "tracking/connection.py: orchestrator sync --output x": Situation(
        moved, "orchestrator sync --output 'my runs'", before=rename_database
    ),
    "tracking/failures.py: orchestrator sync": Situation(damaged_database, SYNC, before=rename_database),
    "tracking/registry.py: orchestrator search": Situation(
        without_a_database,
        "orchestrator retrieve 'a red dog' --dataset pets",
        {"": "tiny.yaml"},
        next="no version has the alias champion: none is above chance",
    ),
    "tuner/run.py: orchestrator summarise x": Situation(
        sampler_that_breaks, f"{SEARCH} --set search.sampler=breaks --plugin plug.py", next="gets no further trial"
    ),
    "data/dataset.py: orchestrator data extract x --text tfidf-svd --tokenizer x": Situation(
        features_of_other_tokens, f"{HEAD} --set tokenizer=words", before=remove_features
    ),
    "data/features.py: orchestrator data extract x --text tfidf-svd": Situation(
        features_of_other_captions, HEAD, before=remove_features
    ),
    "formats/coco.py: orchestrator data import FOLDER --split 80/10/10 --out NEW": Situation(
        annotations_without_splits,
        "orchestrator data describe pics",
        {"FOLDER": "data/pics", "NEW": "data/new"},
        next="no splits",
    ),
    "data/source.py: orchestrator data generate scenes --images 2000 --seed 0 --out x": Situation(
        nothing, "orchestrator data describe scenes"
    ),
    "commands/init.py: orchestrator data generate scenes --out x": Situation(
        lambda shell: shutil.rmtree(shell.root / "data" / "pets"),
        "orchestrator init first.yaml",
        next="is there already",
    ),
    "data/source.py: orchestrator data extract xx": Situation(nothing, HEAD),
    "data/source.py: orchestrator data import x --out NEW": Situation(
        table_of_captions, PHOTOS, {"NEW": "data/new"}, next="makes a dataset of it"
    ),
}
"""End of the module and command of a message -> its situation."""

NAMED = "names a command in a sentence and proposes none"
ARGUMENTS = "asks for files of the user's, and proposes no arguments"
ANOTHER_SEARCH = "needs a second process that changes the store meanwhile; the command is run after a damaged database"

NOT_RUN: Mapping[str, str] = {
    "commands/doctor.py: orchestrator doctor EXPERIMENT": NAMED,
    "commands/evaluate_files.py: orchestrator evaluate": ARGUMENTS,
    "commands/evaluate_files.py: orchestrator evaluate (2)": ARGUMENTS,
    "commands/gate.py: orchestrator gate": NAMED,
    "commands/judge_table.py: orchestrator judge": NAMED,
    "commands/mcp.py: orchestrator mcp": NAMED,
    "commands/results.py: orchestrator summarise": NAMED,
    "commands/results.py: orchestrator report": NAMED,
    "commands/results.py: orchestrator compare": NAMED,
    "commands/search.py: orchestrator search --dry-run": NAMED,
    "commands/status.py: orchestrator status": NAMED,
    "commands/status.py: orchestrator regress": "the suite is the user's; tests/integration/test_regress.py resumes it",
    "commands/watch.py: orchestrator watch": NAMED,
    "doctor/machine.py: orchestrator ui": NAMED,
    "doctor/machine.py: orchestrator ui (2)": NAMED,
    "experiment/first_experiment.py: orchestrator data import": ARGUMENTS,
    "extraction/extraction.py: orchestrator data extract": NAMED,
    "extraction/parses.py: orchestrator data parse --pipeline": NAMED,
    "journal/journal.py: orchestrator search": "the journal must vanish between two readings of one command",
    "searches/status.py: orchestrator search": "the journal must vanish between two readings of one command",
    "claims/reruns.py: orchestrator certify": ARGUMENTS,
    "regression/rerun.py: orchestrator regress accept": NAMED,
    "tracking/failures.py: orchestrator sync (2)": "a full disk; the command is run after a damaged database",
    "tracking/failures.py: orchestrator sync (3)": ANOTHER_SEARCH,
    "tracking/failures.py: orchestrator sync (4)": "a server; tests/faults/test_tracking_server.py delivers afterwards",
    "tracking/registry.py: orchestrator sync": ANOTHER_SEARCH,
    "tracking/registry.py: orchestrator sync (2)": ANOTHER_SEARCH,
    "tracking/registry.py: orchestrator sync (3)": ANOTHER_SEARCH,
    "tracking/server.py: orchestrator ui": "an address in a browser; tests/integration/test_ui.py opens it",
    "tracking/sync.py: orchestrator sync": NAMED,
    "tracking/sync.py: orchestrator sync (2)": NAMED,
    "plugins/in_use.py: orchestrator mcp": NAMED,
    "trainables/ranks.py: orchestrator evaluate CHECKPOINT --ranks x": "from Python alone: commands open it first",
}
"""End of the module and command of a text -> why it is not run here."""


def proposed() -> dict[str, re.Pattern[str]]:
    """Return module and command of each proposed command -> an expression of the command as it is printed."""
    found: dict[str, re.Pattern[str]] = {}
    for package in ("orchestrator", "trainables", "search_spaces"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for _, text in texts(path, "\0"):
                for command in re.findall(r"`(orchestrator [^`]*)`", text):
                    printed = re.escape(command).replace("\0", "[^`]+?")
                    name = f"{path.relative_to(ROOT)}: {command.replace(chr(0), 'x')}"
                    number = sum(known.partition(" (")[0] == name for known in found) + 1
                    found[name if number == 1 else f"{name} ({number})"] = re.compile(f"`({printed})`")
    return found


PROPOSED = proposed()


def of_table(name: str) -> str:
    """Return the key of ``SITUATIONS`` or ``NOT_RUN`` for a proposed command."""
    fitting = [key for key in (*SITUATIONS, *NOT_RUN) if name.endswith(key)]
    return max(fitting, key=len, default="")


def test_each_proposed_command_is_run_or_has_a_reason() -> None:
    missing = [name for name in PROPOSED if not of_table(name)]
    assert not missing, "give it a situation, or a reason"
    assert not {*SITUATIONS, *NOT_RUN} - {of_table(name) for name in PROPOSED}, "nothing proposes these any more"
    assert not {*SITUATIONS} & {*NOT_RUN}


@pytest.mark.proof
@pytest.mark.parametrize("name", [name for name in PROPOSED if of_table(name) in SITUATIONS])
def test_a_proposed_command_mends_its_situation(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, store_template: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    shell, situation = Shell(tmp_path, CommandLine(capsys), monkeypatch), SITUATIONS[of_table(name)]
    (tmp_path / "runs").mkdir()
    shutil.copy(store_template, tmp_path / "runs" / "mlflow.db")
    situation.make(shell)
    running = tmp_path / "runs" / "tiny"
    with hold(running) if "journal/lock.py" in name else nullcontext():
        _, said = shell.type(situation.shows)
        found = PROPOSED[name].search(" ".join(said.split()))
        assert found is not None, said
        words = [situation.fills.get(word, word) for word in found[1].split(" ")]
        situation.before(shell)
        code, answer = shell.type(" ".join([*words, *filter(None, [situation.fills.get("")])]))
        assert code == situation.ends, answer
        code, said = shell.type(situation.shows)
    if situation.next is None:
        assert code == 0 and PROPOSED[name].search(" ".join(said.split())) is None, said
    else:
        assert situation.next in " ".join(said.split()), said
