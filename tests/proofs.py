"""``python -m tests.proofs`` runs proofs: tests that need Ray, servers, browsers or minutes, and are marked ``proof``.

Without an option it runs the proofs of what changed since the newest commit of main, none of which begins after
``SECONDS``: CI has a bounded time. The commit's own hash says which proof comes first, so that each has its turn. A
change that touches no proof runs none: whoever sees CI fail is to be the one whose change did it.

``--all`` is ``make proof``: all proofs one after the other, then every property with ten times the examples, then every
known mistake of ``tests.mutations``. What passed is written to ``STATE`` with the tree of files that it passed for, so
that a run that was interrupted goes on where it was.

A proof that fails runs once more, alone, when the others are over. Where it passes then, the run says so and goes on.
"""

import argparse
import ast
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pytest

from tests.mutations.mutation import list_mutations
from tests.mutations.runner import RefusedError, run_mutations

ROOT = Path(__file__).parent.parent
FOLDER = Path(os.environ.get("PROOFS_FOLDER", ROOT / "build"))
STATE = FOLDER / "proofs.jsonl"
"""A line for each proof that ended, with the tree of files that it ended for."""
RUN = FOLDER / "proofs.run.json"
"""What a run of pytest with ``-p tests.proofs`` is to do, as ``Run`` has it."""

PROOFS = {
    "tests/faults/test_drivers.py": (
        *("orchestrator/journal/", "orchestrator/searches/", "orchestrator/storage/"),
        "orchestrator/machines/processes.py",
    ),
    "tests/faults/test_every_record.py": ("orchestrator/journal/", "orchestrator/studies/", "orchestrator/searches/"),
    "tests/faults/test_trials.py": ("orchestrator/tuner/callback.py", "orchestrator/tuner/allocation.py"),
    "tests/faults/test_engines.py": ("orchestrator/tuner/engines.py", "orchestrator/tuner/lockstep.py"),
    "tests/faults/test_spot_machines.py": ("orchestrator/tuner/callback.py",),
    "tests/faults/test_lost_ray.py": ("orchestrator/tuner/runtime.py",),
    "tests/faults/test_tracking_server.py": ("orchestrator/tracking/",),
    "tests/integration/test_search.py": ("orchestrator/tuner/", "orchestrator/studies/study.py"),
    "tests/integration/test_confirm.py": ("orchestrator/winners/", "orchestrator/tuner/source.py"),
    "tests/integration/test_regress.py": ("orchestrator/regression/rerun.py",),
    "tests/integration/test_claims_rerun.py": ("orchestrator/claims/reruns.py", "orchestrator/claims/"),
    "tests/integration/test_plugin_search.py": ("orchestrator/experiment/plugins.py", "trainables/plugins/"),
    "tests/integration/test_graph_models_search.py": (
        *("trainables/models/gsmn.py", "trainables/models/block_products.py", "trainables/models/hgr.py"),
    ),
    "tests/integration/test_clip_search.py": ("trainables/models/clip.py", "trainables/encoders/"),
    "tests/integration/test_registry.py": ("orchestrator/tracking/", "orchestrator/winners/"),
    "tests/integration/test_secrets.py": ("orchestrator/tracking/address.py",),
    "tests/integration/test_tour.py": ("README.md", "orchestrator/commands/"),
    "tests/integration/test_tune_memory.py": ("orchestrator/tuner/tune_patches.py",),
    "tests/integration/test_sample_package.py": ("docs/examples/",),
    "tests/benchmarks/test_command.py": ("tests/benchmarks/",),
    "tests/benchmarks/test_throughput.py": ("tests/benchmarks/throughput.py",),
    "tests/faults/test_damage.py": ("orchestrator/storage/", "orchestrator/doctor/experiment.py"),
    "tests/deploy/test_image.py": ("deploy/image/",),
    "tests/deploy/test_kubectl.py": ("deploy/kubernetes/",),
    "tests/deploy/test_scripts.py": ("deploy/",),
    "tests/deploy/test_slurm.py": ("deploy/slurm/",),
    "tests/deploy/test_stop_searches.py": ("deploy/",),
    "tests/servers/test_fault_proxy.py": ("tests/servers/",),
    "tests/deploy/test_real_slurm.py": (),
    "tests/deploy/test_real_aws.py": ("deploy/ray/aws.yaml",),
    "tests/deploy/test_real_cron.py": ("deploy/schedules/regress.cron",),
    "tests/deploy/test_real_s3.py": ("deploy/",),
    "tests/deploy/test_real_systemd.py": ("deploy/schedules/icr-regress.service", "deploy/schedules/icr-regress.timer"),
    "tests/deploy/test_real_ray_up.py": ("deploy/ray/on-premise.yaml",),
    "tests/deploy/test_real_autoscaler.py": ("orchestrator/tuner/allocation.py", "orchestrator/machines/cluster.py"),
    "tests/browser/test_exports_in_browser.py": ("orchestrator/exports/", "orchestrator/studies/export.py"),
    "tests/browser/test_report_in_browser.py": ("orchestrator/report/",),
    "tests/browser/test_live_pages_in_browser.py": ("orchestrator/watch/",),
    "tests/browser/test_mlflow_pages.py": ("orchestrator/tracking/", "orchestrator/commands/mlflow_store.py"),
    "tests/browser/test_regression_page.py": ("orchestrator/regression/",),
    "tests/mutations/test_mutations.py": ("tests/mutations/",),
    "tests/test_site.py": ("docs/",),
    "tests/test_guard.py": ("tests/guard.py", "tests/conftest.py"),
    "tests/test_proofs.py": ("tests/proofs.py",),
    "tests/integration/test_fusion.py": ("orchestrator/tuner/engines.py", "trainables/fused.py"),
    "tests/integration/test_tune_places.py": ("orchestrator/tuner/tune_patches.py",),
    "tests/integration/test_two_hosts.py": ("orchestrator/tuner/callback.py", "orchestrator/machines/cluster.py"),
    "tests/integration/test_stack.py": (
        "deploy/compose/",
        "deploy/image/",
        "orchestrator/storage/",
        "orchestrator/tracking/",
    ),
    "tests/integration/test_gpu_share.py": ("orchestrator/tuner/allocation.py",),
    "tests/integration/test_ui.py": (
        "orchestrator/commands/mlflow_store.py",
        "orchestrator/tracking/server.py",
        "orchestrator/machines/processes.py",
    ),
    "tests/integration/test_notebook.py": ("orchestrator/tuner/run.py", "orchestrator/searches/begin.py"),
    "tests/integration/test_light_core.py": ("pyproject.toml", "trainables/extras.py"),
    "tests/test_release.py": ("MANIFEST.in", "tests/release.py"),
    "tests/faults/test_repeated_searches.py": ("orchestrator/tuner/source.py", "orchestrator/results/confirmation.py"),
    "tests/integration/test_lasting_search.py": ("orchestrator/text/terminal.py", "orchestrator/searches/display.py"),
    "tests/integration/test_open_ports.py": ("orchestrator/tuner/runtime.py", "deploy/README.md"),
    "tests/integration/test_private_files.py": ("orchestrator/environment.py",),
    "tests/test_satellites.py": ("orchestrator/cli.py",),
    "tests/test_walks.py": ("docs/architecture.md",),
    "tests/test_remedies_run.py": ("tests/test_remedies_run.py", "orchestrator/text/terminal.py"),
    "tests/integration/test_examples.py": (),
}
"""File with proofs -> folders and files that they are about; those of many minutes are about none, and never in CI.

A file whose place is that of a folder of the packages is about that folder, and needs no line (``about``).
"""

MIRRORED = ("tests/orchestrator/", "tests/trainables/", "tests/search_spaces/")
SECONDS = 120.0
"""So long after the first proof of a change another one begins."""
STAGES = {
    "proofs": "tests that need Ray, servers, browsers, other processes or minutes",
    "examples": "every property, with ten times the examples",
    "mutations": "every known mistake is noticed by its tests",
}
EXAMPLE = re.compile(r"Falsifying example: \w+\(\s*(.*?),?\s*\)\s*$", re.S | re.M)


@dataclass(frozen=True)
class End:
    """How a test or a mutation ended for a tree of files, as git names it: ``passed``, ``skipped`` or ``failed``."""

    tree: str
    stage: str
    proof: str
    outcome: str
    seconds: float
    example: str = ""

    def repeat(self) -> str:
        """Return the command that repeats this proof alone."""
        if self.stage == "mutations":
            return f"python -m tests.mutations --only {shlex.quote(self.proof)}"
        profile = "HYPOTHESIS_PROFILE=proof " if self.stage == "examples" else ""
        return f"OMP_NUM_THREADS=1 {profile}python -m pytest -n0 -m '' {shlex.quote(self.proof)}"


@dataclass(frozen=True)
class Run:
    """What a run of pytest leaves out, how many tests it puts last, and after how many seconds it begins none."""

    tree: str
    stage: str
    passed: Sequence[str] = ()
    turn: int = 0
    limit: float | None = None


def read_ends(tree: str) -> dict[tuple[str, str], End]:
    """Return how proofs ended for a tree of files, by stage and name, each as it ended last."""
    lines = STATE.read_text(encoding="utf-8").splitlines() if STATE.exists() else []
    # A line that was cut short is that of the proof which an interruption costs.
    ends = [End(**json.loads(line)) for line in lines if line.endswith("}")]
    return {(end.stage, end.proof): end for end in ends if end.tree == tree}


def note(end: End) -> None:
    """Write down how a proof ended, at once."""
    STATE.parent.mkdir(exist_ok=True)
    with STATE.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(end)) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    """Be the plug-in of a run of pytest that this module has started."""
    run = Run(**json.loads(RUN.read_text(encoding="utf-8")))
    config.pluginmanager.register(InTurn(run))
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(run))


class InTurn:
    """A plug-in of pytest: leaves out what has passed, begins with another test each time, and begins none late."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._began = time.monotonic()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Drop the tests that have passed, and put those that come before the turn behind the others."""
        passed = set(self._run.passed)
        if left_out := [item for item in items if item.nodeid in passed]:
            config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item.nodeid not in passed]
        first = self._run.turn % max(1, len(items))
        items[:] = items[first:] + items[:first]

    def pytest_collection_finish(self) -> None:
        """Begin to count: before, modules were imported."""
        self._began = time.monotonic()

    def pytest_runtest_setup(self) -> None:
        """Leave out what would begin too late."""
        if self._run.limit is not None and time.monotonic() > self._began + self._run.limit:
            pytest.skip("left for another commit, or for `make proof`")


class Recorder:
    """A plug-in of pytest: writes down how each test ended as soon as its last fixture is gone."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._reports: defaultdict[str, list[pytest.TestReport]] = defaultdict(list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the report of a phase; a test whose process died has no phases."""
        reports = self._reports[report.nodeid]
        reports.append(report)
        if report.when in ("setup", "call"):
            return
        outcome = next((name for name in ("failed", "skipped") if any(r.outcome == name for r in reports)), "passed")
        example = next((found for phase in reports if (found := example_in(phase.longreprtext))), "")
        seconds = round(sum(phase.duration for phase in reports), 1)
        note(End(self._run.tree, self._run.stage, report.nodeid, outcome, seconds, example))


def example_in(text: str) -> str:
    """Return the arguments of the example in a report of Hypothesis, as ``@example(...)`` takes them; or nothing."""
    lines = [re.sub(r"^E\s{0,3}", "", line) for line in text.splitlines()]
    found = EXAMPLE.search("\n".join(lines))
    return re.sub(r"\s*\n\s*", " ", found[1]) if found else ""


def run_pytest(run: Run, arguments: Sequence[str]) -> int:
    """Run pytest as a process with this module as its plug-in, and return its exit status."""
    RUN.parent.mkdir(exist_ok=True)
    RUN.write_text(json.dumps(asdict(run)), encoding="utf-8")
    changes = {"HYPOTHESIS_PROFILE": "proof"} if run.stage == "examples" else {}
    environment = {"OMP_NUM_THREADS": "1", **os.environ, "PROOFS_FOLDER": str(RUN.parent), **changes}
    command = [sys.executable, "-m", "pytest", "-p", "tests.proofs", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


COLLECTED = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)


def run_stage(run: Run, arguments: Sequence[str]) -> list[End]:
    """Run the tests of a stage, those that fail once more alone, and return how all of them ended."""
    status = run_pytest(replace(run, passed=passed(run) if run.limit is None else ()), arguments)
    if status not in COLLECTED:
        raise SystemExit(f"pytest ended with {status}; the same command goes on where it was")
    failed = [end.proof for end in ends_of(run) if end.outcome == "failed"]
    for proof in failed:
        print(f"once more, alone: {proof}", flush=True)
        run_pytest(replace(run, limit=None, turn=0), ["-n0", "-m", "", proof])
        if read_ends(run.tree)[run.stage, proof].outcome == "passed":
            print(f"passed at the second try: {proof}", flush=True)
    return ends_of(run)


def ends_of(run: Run) -> list[End]:
    """Return how the proofs of a stage ended last."""
    return [end for (stage, _), end in read_ends(run.tree).items() if stage == run.stage]


def passed(run: Run) -> list[str]:
    return [end.proof for end in ends_of(run) if end.outcome == "passed"]


def plant_mutations(tree: str) -> list[End]:
    """Plant the mutations that were not killed yet, and return how all of them ended."""
    run = Run(tree, "mutations")
    killed = {*passed(run)}
    try:
        if left := [mutation for mutation in list_mutations() if mutation.name not in killed]:
            for result in run_mutations(left, ROOT):
                print(f"{result.verdict:9} {result.seconds:5.0f} s  {result.mutation.name}", flush=True)
                outcome = "passed" if result.verdict == "killed" else "failed"
                note(End(tree, run.stage, result.mutation.name, outcome, round(result.seconds, 1)))
    except RefusedError as error:
        raise SystemExit(str(error)) from error
    return ends_of(run)


def prove_all(workers: str) -> int:
    """Run everything that has not passed for this tree of files; return 1 where something fails."""
    tree = tree_of_files()
    ends = run_stage(Run(tree, "proofs"), ["-n1", "-m", "proof"])
    ends += run_stage(Run(tree, "examples"), ["-n", workers, "--dist", "loadfile", "-m", "hypothesis and not proof"])
    ends += plant_mutations(tree)
    print_table(ends)
    return print_failures(ends)


def print_table(ends: Sequence[End]) -> None:
    """Print what was proved: a line for each file with proofs, one for all examples, one for all mutations."""
    rows: defaultdict[str, list[End]] = defaultdict(list)
    for end in ends:
        rows[end.proof.partition("::")[0] if end.stage == "proofs" else end.stage].append(end)
    print(f"\n{'passed':>6} {'failed':>6} {'skipped':>7} {'seconds':>8}  what")
    for name, ended in rows.items():
        count = Counter(end.outcome for end in ended)
        seconds = sum(end.seconds for end in ended)
        numbers = f"{count['passed']:6} {count['failed']:6} {count['skipped']:7} {seconds:8.0f}"
        print(f"{numbers}  {name}: {STAGES.get(name) or subject_of(name)}")


def subject_of(file: str) -> str:
    """Return the first line of what a file of tests says about itself."""
    said = ast.get_docstring(ast.parse((ROOT / file).read_text(encoding="utf-8"))) or ""
    return said.partition("\n")[0]


def print_failures(ends: Sequence[End]) -> int:
    """Print what failed with the commands that repeat it; return the exit status."""
    failed = [end for end in ends if end.outcome == "failed"]
    for end in failed:
        print(f"failed: {end.proof}\n  {end.repeat()}")
        if end.example:
            print(f"  to be kept above the test: @example({end.example})")
    return int(bool(failed))


def prove_change() -> int:
    """Run the proofs of what changed, in a box; return 1 where one fails."""
    base = newest_of_main()
    changed = {*git("diff", "--name-only", base).split(), *git("ls-files", "-o", "--exclude-standard").split()}
    chosen = touched(changed)
    print(f"files with proofs that the change touches: {', '.join(chosen) or 'none'}", flush=True)
    if not chosen:
        return 0
    # What passed for these files before is run again: CI asks whether it passes now.
    tree = f"{tree_of_files()} {time.time_ns()}"
    run = Run(tree, "proofs", turn=int(git("rev-parse", "HEAD")[:8] or "0", 16), limit=SECONDS)
    return print_failures(run_stage(run, ["-n0", "-m", "proof", "--timeout", "1200", *chosen]))


def touched(changed: Collection[str]) -> list[str]:
    """Return the files with proofs that are about changed files."""
    return [
        proof
        for proof in files_with_proofs()
        if any(file == proof or file.startswith(about(proof)) for file in changed)
    ]


def files_with_proofs() -> list[str]:
    """Return the files that have tests with the mark, or a fixture with it."""
    paths = sorted((ROOT / "tests").rglob("test_*.py"))
    words = ("mark.proof", "trials_run: None", "any_searches: ")
    return [
        str(path.relative_to(ROOT)) for path in paths if any(word in path.read_text(encoding="utf-8") for word in words)
    ]


def about(proof: str) -> tuple[str, ...]:
    """Return what the proofs of a file are about: what ``PROOFS`` says, or the folder that it lies beside."""
    if proof in PROOFS:
        return PROOFS[proof]
    return (f"{Path(proof).parent.relative_to('tests')}/",) if proof.startswith(MIRRORED) else ()


def newest_of_main() -> str:
    """Return the newest commit of main that is not the one that is tested, as far as this clone can see."""
    head = git("rev-parse", "HEAD").strip()
    for name in ("origin/main", "main"):
        base = git("merge-base", name, "HEAD").strip()
        if base and base != head:
            return base
    return "HEAD^1"


def tree_of_files() -> str:
    """Return git's name of the files as they are now, also those that are not committed."""
    with tempfile.TemporaryDirectory() as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        git("add", "--all", **index)
        tree = git("write-tree", **index).strip()
    if not tree:
        raise SystemExit(f"{ROOT} is no working tree of git; clone the repository with git")
    return tree


def git(*arguments: str, **variables: str) -> str:
    """Return what git prints; nothing outside a repository."""
    environment = {**os.environ, **variables}
    done = subprocess.run(["git", *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return done.stdout


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what the options ask for; end with 1 where a proof fails."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.proofs", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--all", action="store_true", help="run all proofs, examples and mutations")
    parser.add_argument("--workers", default="4", metavar="N", help="processes that try examples")
    options = parser.parse_args(arguments)
    raise SystemExit(prove_all(options.workers) if options.all else prove_change())


if __name__ == "__main__":
    main()
