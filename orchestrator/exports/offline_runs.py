"""Trials as offline runs of Weights & Biases, which ``wandb sync`` uploads from a machine with an account.

Writing the runs needs no account and no network.
"""

from pathlib import Path

import wandb

from orchestrator.experiment.experiment import Experiment
from orchestrator.exports.trial_run import TrialRun, replaced_folder, trial_runs
from orchestrator.journal.history import History
from orchestrator.journal.trial import TrialState

OFFLINE_RUNS = "wandb/*"


def write_offline_runs(history: History, experiment: Experiment, folder: Path) -> int:
    """Write an offline run for each trial under ``FOLDER/wandb``; return how many.

    The project has the experiment's name, and a run the name of its trial, by which a second upload finds the run.
    The config holds the settings of ``TrialRun`` and under ``trial_config`` the whole configuration. The history holds
    the metrics of each epoch at the date of the epoch. The summary holds the metrics at the best epoch
    (``best/val/rsum``) and, where the test split was opened, on test. Trainings of one setting share a group. A trial
    that diverged or failed ends with exit code 1. An offline run cannot stay open: a trial that has not ended
    gets exit code 0 as well, and ``state`` says that it is running. The package wandb writes ``_runtime`` itself, which
    is how long the export of the run took.

    Offline runs in the folder are replaced.

    Raises:
        ConfigError: If the folder holds other files.
    """
    runs = list(trial_runs(history))
    with replaced_folder(folder, OFFLINE_RUNS) as partial:
        try:
            for run in runs:
                _write_run(run, experiment, partial)
        finally:
            # A process of wandb writes the files, and has to end before the folder gets its name.
            wandb.teardown()
    return len(runs)


def _write_run(run: TrialRun, experiment: Experiment, folder: Path) -> None:
    trial = run.trial
    # A run holds only the trial, and nothing about the machine of the export.
    settings = wandb.Settings(
        silent=True,
        console="off",
        host="",
        symlink=False,
        disable_git=True,
        disable_code=True,
        disable_job_creation=True,
        x_save_requirements=False,
        x_disable_stats=True,
        x_disable_meta=True,
        x_disable_machine_info=True,
    )
    written = wandb.init(
        mode="offline",
        dir=folder,
        project=experiment.name,
        id=trial.id,
        name=trial.id,
        group=run.group,
        job_type=str(trial.stage),
        tags=[str(run.settings["state"])],
        config={**run.settings, "trial_config": trial.config.to_dict()},
        settings=settings,
    )
    for epoch, metrics in sorted(trial.epochs.items()):
        moment = trial.times.get(epoch, trial.created)
        written.log({**metrics, "epoch": epoch, "_timestamp": moment}, step=epoch)
    about = {"best_epoch": trial.best_epoch, "error": trial.error}
    written.summary.update({**run.best, **{name: value for name, value in about.items() if value is not None}})
    written.finish(exit_code=1 if trial.state in (TrialState.DIVERGED, TrialState.FAILED) else 0)
