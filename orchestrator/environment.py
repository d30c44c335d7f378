"""The environment variables that this software sets for what it runs on, each with its reason.

Most are read when a package is imported, so that a room calls its function here before that import. A variable that a
user has set stays, except where this software would not work with it. Values that only one run knows are set where they
are known: a tracking server's account, our server's stores, an engine's GPUs. ``trainables.seeding`` has cuBLAS's.
"""

import os
from collections.abc import MutableMapping


def set_for_ray() -> None:
    """Let Ray send no statistics, and neither write nor print what this software does not use."""
    os.environ |= {
        "RAY_USAGE_STATS_ENABLED": "0",
        # By default, a process that asked Ray for no GPU sees all GPUs.
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",
        # Ray's newer output prints a path and a final table even where ``verbose`` is 0.
        "RAY_AIR_NEW_OUTPUT": "0",
        # Work that still runs when Ray dies must not start another Ray.
        "RAY_ENABLE_AUTO_CONNECT": "0",
        # On this machine, an actor stays in the search's directory, to which relative paths in an experiment refer.
        "RAY_CHDIR_TO_TRIAL_DIR": "0",
        # Ray warns of many worker processes for few CPUs, which trials that are fused or share a GPU need. It also
        # prints the last output of a raylet that died and guesses at the cause, which does not help users.
        "RAY_DEDUP_LOGS_SKIP_REGEX": "worker processes have been started|Raylet is terminated|has been marked dead",
        # The journal has the metrics that Tune would write as CSV, as JSON and for TensorBoard.
        "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
        # ``tuner.run.Interruption`` handles signals.
        "TUNE_DISABLE_SIGINT_HANDLER": "1",
        # A result has a ``tuner.actor.Step`` instead of metrics by name; the actor checks the metrics itself.
        "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
        # Nobody reads the state that Tune would save every 10 s or more; the journal replaces it.
        "TUNE_GLOBAL_CHECKPOINT_S": "86400",
        # The issuer alone limits how many trials wait.
        "TUNE_MAX_PENDING_TRIALS_PG": "1000000",
        # ``tuner.callback`` keeps the traceback of each failure in a file, and its reason in the journal.
        "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
        # ``machines.cluster.check_fits`` refuses at once the trials of which Tune warns after a minute.
        "TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S": "86400",
    }
    # Ray ends a process whose raylet is gone, without a message and with exit code 1. A driver takes its own parent for
    # the raylet, and a parent with the number 1 for a dead raylet. A process started by systemd or a container has such
    # a parent. The variable names a process that lives as long as the driver. ``tuner.runtime`` ends a driver whose Ray
    # has died.
    os.environ.setdefault("RAY_RAYLET_PID", str(os.getpid()))


def set_for_cluster(has_token: bool, environ: MutableMapping[str, str] = os.environ) -> None:
    """Let a driver join a cluster: with the token if there is one, and without asking for minutes."""
    # A head that answers but refuses us is asked five times instead of twenty, a second apart.
    environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "5")
    if has_token:
        # For an address by name, Ray itself never turns authentication on.
        environ.setdefault("RAY_AUTH_MODE", "token")


def set_for_mlflow() -> None:
    """Let MLflow be silent about itself, and leave retries to the tracker."""
    # Its messages are about its own migrations and retries.
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    # Commands and the search show their own progress, through which MLflow would draw a bar for each download.
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    # Commands may print JSON, which messages of MLflow would break.
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    # The tracker retries, after it has read the store again, because the store may have carried out a request whose
    # answer was lost. A retry by MLflow could make a second run of a trial. The timeout leaves time for slow answers.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "60")


def set_for_mlflow_server() -> None:
    """Let MLflow's server send no statistics and start no jobs."""
    os.environ |= {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}


def set_for_wandb() -> None:
    """Forbid Weights & Biases to report its own crashes over the network."""
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")


def set_for_answers() -> None:
    """Let NumPy start one thread: the matrices of a surface are small, and threads on them wait for each other."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
