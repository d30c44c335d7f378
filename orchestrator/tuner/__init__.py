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

from orchestrator.environment import set_for_ray

# Before any module of this package can import Ray.
set_for_ray()
