"""``python -m tests.proofs`` runs proofs that take too long for every run of CI: those that the newest commit touches.

A proof is a test marked ``soak``. CI runs, after the tests, the proofs of the files in ``PROOFS`` that are about what
the commit changed. The commit's own hash says which proof comes first, and no proof begins after half a minute, so that
CI has a bounded time and every proof its turn. A commit that touches no proof runs none: whoever sees CI fail is to be
the one whose change did it. ``make proof`` runs all of them.
"""

import subprocess
import time
from collections.abc import Collection
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

PROOFS = {
    "tests/faults/test_drivers.py": ("orchestrator/journal/", "orchestrator/search/", "orchestrator/storage/"),
    "tests/faults/test_killed_population.py": ("orchestrator/studies/",),
    "tests/faults/test_nodes.py": ("orchestrator/tuner/failures.py",),
    "tests/faults/test_trials.py": ("orchestrator/tuner/failures.py", "orchestrator/tuner/callback.py"),
    "tests/faults/test_engines.py": ("orchestrator/tuner/engines.py", "orchestrator/tuner/lockstep.py"),
    "tests/faults/test_spot_machines.py": ("orchestrator/tuner/failures.py",),
    "tests/faults/test_lost_ray.py": ("orchestrator/tuner/ray_watch.py", "orchestrator/tuner/runtime.py"),
    "tests/faults/test_killed_extraction.py": ("trainables/data/pictures/", "orchestrator/extraction/"),
    "tests/faults/test_restarted_head.py": (),
    "tests/faults/test_tracking_server.py": ("orchestrator/tracking/",),
    "tests/orchestrator/extraction/test_extraction.py": ("orchestrator/extraction/",),
    "tests/integration/test_search.py": ("orchestrator/tuner/", "orchestrator/machines/sigterm.py"),
    "tests/integration/test_confirm.py": ("orchestrator/winners/", "orchestrator/studies/planned.py"),
    "tests/integration/test_regress.py": ("orchestrator/regression/rerun.py",),
    "tests/integration/test_cluster_search.py": ("orchestrator/storage/", "orchestrator/machines/cluster.py"),
    "tests/integration/test_plugin_search.py": ("orchestrator/experiment/plugins.py", "trainables/plugins/"),
    "tests/integration/test_choice.py": ("orchestrator/studies/study.py",),
    "tests/benchmarks/test_command.py": ("tests/benchmarks/",),
    "tests/benchmarks/test_memory.py": ("trainables/data/", "trainables/trial.py"),
    "tests/benchmarks/test_tracking.py": ("orchestrator/tracking/",),
    "tests/benchmarks/test_throughput.py": ("tests/benchmarks/throughput.py",),
    "tests/faults/test_damage.py": ("orchestrator/storage/", "orchestrator/doctor/experiment.py"),
    "tests/trainables/test_fused.py": ("trainables/fused/",),
    "tests/trainables/losses/test_losses.py": ("trainables/losses/",),
    "tests/deploy/test_real_slurm.py": (),
    "tests/deploy/test_real_aws.py": ("deploy/ray/aws.yaml",),
    "tests/deploy/test_real_cron.py": ("deploy/schedules/regress.cron",),
    "tests/deploy/test_real_systemd.py": ("deploy/schedules/icr-regress.service", "deploy/schedules/icr-regress.timer"),
    "tests/deploy/test_real_ray_up.py": ("deploy/ray/on-premise.yaml",),
    "tests/deploy/test_real_autoscaler.py": ("orchestrator/tuner/first_machine.py", "orchestrator/machines/cluster.py"),
    "tests/faults/test_lost_ray_extraction.py": (),
    "tests/browser/test_exports_in_browser.py": ("orchestrator/exports/", "orchestrator/studies/export.py"),
    "tests/browser/test_report_in_browser.py": ("orchestrator/report/",),
    "tests/test_site.py": ("docs/",),
    "tests/integration/test_own_loss.py": (),
    "tests/integration/test_begun_before.py": ("orchestrator/tuner/actor.py",),
    "tests/integration/test_fusion.py": ("orchestrator/tuner/engines.py", "trainables/fused/"),
    "tests/integration/test_tune_places.py": ("orchestrator/tuner/tune_places.py",),
    "tests/integration/test_two_hosts.py": ("orchestrator/tuner/failures.py", "orchestrator/machines/cluster.py"),
    "tests/integration/test_stack.py": ("deploy/compose/", "deploy/image/"),
    "tests/faults/test_old_actor.py": ("orchestrator/tuner/actor.py", "orchestrator/storage/"),
    "tests/integration/test_gpu_share.py": ("orchestrator/tuner/allocation.py",),
    "tests/integration/test_ui.py": (
        "orchestrator/commands/ui.py",
        "orchestrator/tracking/server.py",
        "orchestrator/machines/bound_process.py",
    ),
    "tests/integration/test_notebook.py": ("orchestrator/tuner/interruption.py", "orchestrator/search/__init__.py"),
    "tests/integration/test_light_core.py": ("pyproject.toml", "trainables/extras.py"),
    "tests/integration/test_examples.py": (),
}
"""File with proofs -> folders and files that they are about; those of many minutes are about none, and never in CI."""

SECONDS = 30.0
"""So long after the first proof another one begins."""


def touched(changed: Collection[str]) -> list[str]:
    """Return the files with proofs that are about changed files."""
    return [
        proof
        for proof, about in PROOFS.items()
        if about and any(file == proof or file.startswith(about) for file in changed)
    ]


class InTurn:
    """A plugin of pytest: begins with another test each time, and begins none that is late."""

    def __init__(self, turn: int) -> None:
        self._turn = turn
        self._began = time.monotonic()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Put the tests that come before the turn behind the others."""
        first = self._turn % max(1, len(items))
        items[:] = items[first:] + items[:first]

    def pytest_collection_finish(self) -> None:
        """Begin to count: before, modules were imported."""
        self._began = time.monotonic()

    def pytest_runtest_setup(self) -> None:
        """Leave out what would begin too late."""
        if time.monotonic() > self._began + SECONDS:
            pytest.skip("left for another commit, or for `make proof`")


def git(*arguments: str) -> str:
    """Return what git prints; nothing outside a repository."""
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False).stdout


def main() -> None:
    """Run what the newest commit touches, or what is not committed yet; end with 1 where a proof fails."""
    changed = {*git("diff", "--name-only", "HEAD^1").split(), *git("ls-files", "-o", "--exclude-standard").split()}
    chosen = touched(changed)
    print(f"files with proofs that the change touches: {', '.join(chosen) or 'none'}", flush=True)
    if chosen:
        turn = int(git("rev-parse", "HEAD")[:8], 16)
        raise SystemExit(pytest.main(["-n0", "-m", "soak", *chosen], plugins=[InTurn(turn)]))


if __name__ == "__main__":
    main()
