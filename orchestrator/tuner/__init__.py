"""How trials run on Ray. The only package that imports Ray, beside ``orchestrator.extraction.workers``.

``run.run_trials`` starts Ray, gives Ray Tune the objects below, and waits. Ray Tune calls these methods of ours, which
write these records of the journal:

    event of Ray Tune                method of ours                          record
    there is room for a trial        Issuer.suggest -> TrialSource.next      trial_created (a new trial)
    an actor has its trial           TrialCallback.on_trial_start            trial_started
    an actor has trained an epoch    RecordingScheduler.on_trial_result      epoch, with the verdict on the trial
      the loss was not finite        RecordingScheduler.on_trial_result      trial_ended (diverged)
      the trial cannot run           RecordingScheduler.on_trial_result      trial_ended (failed)
      a checkpoint was damaged       RecordingScheduler.on_trial_result      checkpoint_damaged
      then                           Issuer.on_trial_result                  none: Optuna learns the value
    an actor failed or hung          TrialCallback.on_trial_error            trial_retried or trial_ended (failed)
      for want of memory             Issuer.run_fewer                        concurrency_lowered
    a running actor was preempted    TrialCallback.on_trial_recover          trial_retried (preempted)
    a trial ended                    TrialCallback.on_trial_complete         none: old checkpoints are removed
    an actor is free                 RecordingScheduler.choose_trial_to_run  none: tune_patches chooses the next trial
    a step of Tune ended             TrialCallback.on_step_end               none: the display draws, hung actors end
    Tune asks whether to end         Interruption.stop_all                   none

The order of these calls matters: the scheduler writes an epoch into the journal before the issuer lets Optuna see the
epoch, and the issuer forgets a failed trial before the callback decides whether the trial comes again.
"""

import os

# Ray reads these variables when Ray is imported, so they are set before any module of this package can import Ray: Ray
# sends no statistics, and neither writes nor prints what this software does not use.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ |= {
    # By default, a process that asked Ray for no GPU sees all GPUs.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",
    "RAY_AIR_NEW_OUTPUT": "0",
    # Work that still runs when Ray dies must not start another Ray.
    "RAY_ENABLE_AUTO_CONNECT": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    # Ray warns of many worker processes for few CPUs, which trials that are fused or share a GPU need, and prints the
    # last output of a raylet that died, and guesses why it died, which does not help users.
    "RAY_DEDUP_LOGS_SKIP_REGEX": "worker processes have been started|Raylet is terminated|has been marked dead",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "86400",
    # The issuer alone limits how many trials wait.
    "TUNE_MAX_PENDING_TRIALS_PG": "1000000",
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S": "86400",
}
# Ray ends a process whose raylet is gone, without a message and with exit code 1. A driver takes its own parent for the
# raylet, and a parent with the number 1, which a process started by systemd or a container has, for a dead raylet. The
# variable names a process that lives as long as the driver. `runtime` ends a driver whose Ray has died.
os.environ.setdefault("RAY_RAYLET_PID", str(os.getpid()))
