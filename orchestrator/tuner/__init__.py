"""How trials run on Ray. The only package that imports Ray, beside ``orchestrator.extraction.workers``."""

import os

# Read by Ray when it is imported: no statistics are sent, and what we don't use is not written or printed.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ |= {
    # By itself Ray lets a process that asked for no GPU see all of them.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",
    "RAY_AIR_NEW_OUTPUT": "0",
    # Work that is left behind when Ray dies is to start no other Ray.
    "RAY_ENABLE_AUTO_CONNECT": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    # That there are many for few CPUs is what is meant where trials are fused, or share a GPU.
    # What a raylet that died had last written says nothing to who searches.
    "RAY_DEDUP_LOGS_SKIP_REGEX": "worker processes have been started|Raylet is terminated",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "86400",
    # How many is the issuer's business.
    "TUNE_MAX_PENDING_TRIALS_PG": "1000000",
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S": "86400",
}
