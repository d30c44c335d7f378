"""Trials of an Optuna study that any program wrote, as records."""

from collections.abc import Sequence
from typing import Any

import optuna

from orchestrator.text.addresses import without_password
from trainables.errors import DataError, reason_of


def trials_of_study(storage: str, name: str) -> list[dict[str, Any]]:
    """Return a record for each trial that has ended: its parameters, user attributes, state and value.

    A study with several objectives has ``value_0``, ``value_1``, ... The name of a value that is minimised says
    so. A user attribute with the name of a parameter is called ``user_attrs.NAME``.

    Raises:
        DataError: If the storage cannot be read, or has no such study.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    shown = f"optuna:{without_password(storage)}"
    try:
        # By an address alone Optuna would make its tables in any database that it opens.
        opened = optuna.storages.RDBStorage(storage, skip_table_creation=True)
        study = optuna.load_study(study_name=name, storage=opened)
    except KeyError:
        known = ", ".join(optuna.get_all_study_names(storage=opened)[:20])
        raise DataError(f"{shown}: has no study {name!r}; there are {known or 'none'}") from None
    except Exception as error:  # noqa: BLE001  # SQLAlchemy and drivers raise errors of their own
        raise DataError(f"{shown}: cannot be read: {without_password(reason_of(error))}") from None
    minimised = optuna.study.StudyDirection.MINIMIZE
    names = ["value"] if len(study.directions) == 1 else [f"value_{place}" for place in range(len(study.directions))]
    names = [
        f"{name} (minimised)" if way is minimised else name for name, way in zip(names, study.directions, strict=True)
    ]
    return [_record(trial, names) for trial in study.get_trials(deepcopy=False) if trial.state.is_finished()]


def _record(trial: optuna.trial.FrozenTrial, names: Sequence[str]) -> dict[str, Any]:
    numbers = dict(zip(names, trial.values or [None] * len(names), strict=True))
    attributes = {f"user_attrs.{key}" if key in trial.params else key: value for key, value in trial.user_attrs.items()}
    return {"state": trial.state.name, **trial.params, **attributes, **numbers}
