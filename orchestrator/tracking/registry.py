"""Winners in MLflow's model registry: models ``icr-<dataset>`` with the alias ``champion``.

A version is a pyfunc with its loader, ``trainables.serving.retriever``: tensors as safetensors, all else as JSON, no
pickle. This product itself reads only the tensors and the JSON from a registry, and runs no code of a registry.

The alias points to the best version. Only versions with the metric and the data of the champion compete: other data, or
another metric, never move the alias. A person moves it to such a version, or deletes it. Without an alias the oldest
version decides. A version whose test rsum is not above chance competes for nothing. From the
oldest to the newest, every version challenges the champion among those before it. A confirmed version beats every
unconfirmed version. Between two confirmed versions Welch's test at the level of verdicts decides: the later version
wins only where its mean is significantly higher. Without both deviations the higher value decides, and after a tie the
champion stays.

MLflow has neither a lock on a model nor a conditional change of an alias. Processes that share an output folder take
turns. Machines that share a server may write between two requests of another machine, so each machine reads again
after it has written. A machine that finds an equal, earlier version removes its own version. A machine that finds the
alias not at the best version moves the alias. The machine that writes last also reads last, after all writes.
"""

import re
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import trainables
from orchestrator.results.comparison import compare
from orchestrator.results.question import Question, Verdict
from orchestrator.results.runs import Runs
from orchestrator.results.statistics import Measure
from orchestrator.results.verdict import LEVEL
from orchestrator.text.addresses import without_password
from orchestrator.text.values import markdown
from orchestrator.text.wording import metric_text
from orchestrator.tracking.address import choose_uri
from orchestrator.tracking.connection import (
    DATABASE,
    StoreMovedError,
    ask_once,
    count_experiments,
    find_experiment,
    find_run,
)
from orchestrator.tracking.failures import failure_of, store_failures
from orchestrator.winners.winners import MODEL, Champion, packed_champions
from trainables.errors import UserError
from trainables.extras import require
from trainables.files import alone
from trainables.metric_table import TEST, in_section

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion


COMPARED = {"data_digest", "metric", "confirmed", "value"}
"""Tags of versions that decide which version is the champion."""

STD, SD, SEEDS = "std", "sd", "seeds"
"""Tags with deviations of the value over the seeds, where they are known, and with the number of seeds.

``std`` (``ddof=0``) is compared, because versions of older releases have it alone; ``sd`` is that of the sample.
"""

ABOVE_CHANCE = "above_chance"
"""Tag: whether the test rsum is above chance, ``true`` or ``false``; no tag where that is not known."""


def number_of(version: "ModelVersion") -> int:
    """Return the number of a version, from 1."""
    return int(version.version)


def best_version(versions: Sequence["ModelVersion"], current: int | None = None) -> "ModelVersion | None":
    """Return the version that the alias is to point to, given its number now; ``None`` where no version may have it."""
    kind = itemgetter("data_digest", "metric")
    good = [version for version in versions if version.tags.get(ABOVE_CHANCE) != "false"]
    ours = sorted((version for version in good if version.tags.keys() >= COMPARED), key=number_of)
    holder = next((version for version in versions if number_of(version) == current), None)
    if holder is not None and not holder.tags.keys() >= COMPARED:
        # A person gave the alias to a version that is not ours.
        return holder
    if holder is None and not ours:
        return None
    held = kind((holder or ours[0]).tags)
    competing = [version for version in ours if kind(version.tags) == held]
    if not competing:
        return None
    champion, *challengers = competing
    for challenger in challengers:
        if _beats(challenger, champion):
            champion = challenger
    return champion


def _beats(challenger: "ModelVersion", champion: "ModelVersion") -> bool:
    confirmed = [version.tags["confirmed"] == "true" for version in (challenger, champion)]
    if confirmed[0] != confirmed[1]:
        return confirmed[0]
    metric = champion.tags["metric"]
    (pair,) = Question(LEVEL).ask([compare(_runs(challenger), _runs(champion), metric)])
    if pair.verdict is Verdict.UNTESTED:
        return pair.difference > 0
    return pair.verdict is Verdict.BETTER


def _runs(version: "ModelVersion") -> Runs:
    """Return the mean of a version, with its deviation over the seeds where that is known."""
    std = version.tags.get(STD)
    known = Measure(float(version.tags["value"]), None if std is None else float(std), int(version.tags.get(SEEDS, 1)))
    return Runs(str(version.version), means={version.tags["metric"]: known})


def save_model(packed: Path, folder: Path) -> None:
    """Write a packed model, with the code that loads it, as an MLflow model into a folder that does not exist yet."""
    import mlflow.pyfunc
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema

    from trainables.serving.packed import requirements_of

    # A query is a caption or an image of the gallery, with a number of answers.
    query = Schema([ColSpec("string", name, required=False) for name in ("caption", "image")])
    signature = ModelSignature(inputs=query, params=ParamSchema([ParamSpec("top", "long", 10)]))
    code = [str(Path(trainables.__file__ or "").parent)]
    with warnings.catch_warnings():
        # MLflow asks for an example of the input, which would have to be run through the model.
        warnings.simplefilter("ignore", UserWarning)
        mlflow.pyfunc.save_model(
            str(folder),
            loader_module="trainables.serving.retriever",
            data_path=str(packed),
            code_paths=code,
            pip_requirements=requirements_of(packed),
            signature=signature,
        )


ALIAS = "champion"
ARTIFACT = "champion"
"""Folder of the model among the artifacts of its run."""

LOCK = ".registry.lock"
"""Lock file in the output folder; the process that holds it may register."""

ATTEMPTS = 5
"""Attempts to find the alias where it was set; if all fail, another program moves the alias by other rules."""

USAGE = """A table with a column `caption` gets images, with a column `image` captions, a row for each answer:
    model = mlflow.pyfunc.load_model("{model}")
    model.predict(pandas.DataFrame({{"caption": ["two dogs run"]}}), params={{"top": 5}})"""
"""How to query a version, in Markdown."""


class RegistryError(UserError):
    """A registry that does not answer, or does not have the wanted model."""


@dataclass(frozen=True)
class Registered:
    """A version, from 1, of a model ``icr-<dataset>`` in the registry; the alias points to it if it is the champion.

    ``reason`` says why a version cannot be the champion, empty where it can, or is it.
    """

    name: str
    version: int
    is_champion: bool
    reason: str = ""


def model_name(dataset: str) -> str:
    """Return the registered name of a dataset's winner, without characters that MLflow refuses."""
    return "icr-" + re.sub(r"[^A-Za-z0-9._-]", "-", Path(dataset).name)


def register(uri: str, packed: Path, champion: Champion) -> Registered:
    """Register a packed model as a new version, unless it is registered, and point the alias to the best version.

    Raises:
        RegistryError: If the store does not answer, or does not have the run of the champion's trial.
    """
    name = model_name(champion.dataset)
    try:
        client = client_of(uri)
        version = _find_version(client, name, champion) or _create_version(client, name, packed, champion)
        holder = _move_alias(client, name)
        reason = "" if holder == version else _why_not(client, name, version, holder)
        return Registered(name, version, holder == version, reason)
    except store_failures() as error:
        raise RegistryError(f"{without_password(uri)}: {name} is not registered: {failure_of(error, uri)}") from None


def register_all(uri: str, directory: Path, unreachable: str | None = None) -> tuple[list[Registered], list[str]]:
    """Register the packed models of an experiment; return the versions, and a sentence about each model that failed.

    ``unreachable`` is why the store is known not to answer; such a store is not asked again.
    """
    registered: list[Registered] = []
    problems: list[str] = []
    with alone(directory.resolve().parent / LOCK):
        for packed, champion in packed_champions(directory).items():
            if unreachable is not None:
                problems.append(f"{model_name(champion.dataset)} is not registered; `orchestrator sync` does it")
                continue
            try:
                registered.append(register(uri, packed, champion))
            except RegistryError as error:
                problems.append(str(error))
    return registered, problems


def client_of(uri: str) -> "MlflowClient":
    """Return a client of a store that has runs and models."""
    from mlflow import MlflowClient

    ask_once(uri)
    return MlflowClient(tracking_uri=uri, registry_uri=uri)


def _versions(client: "MlflowClient", name: str) -> list["ModelVersion"]:
    return list(client.search_model_versions(f"name='{name}'", max_results=10_000))


def _find_version(client: "MlflowClient", name: str, champion: Champion) -> int | None:
    """Return the first version of the same model, or ``None``."""
    wanted = _tags(champion)
    numbers = [number_of(version) for version in _versions(client, name) if wanted.items() <= version.tags.items()]
    return min(numbers, default=None)


def _create_version(client: "MlflowClient", name: str, packed: Path, champion: Champion) -> int:
    """Send the model as an artifact of its trial's run, and register it, once."""
    experiment = find_experiment(client, champion.experiment)
    run = None if experiment is None else find_run(client, experiment.experiment_id, champion.trial)
    if run is None:
        raise RegistryError(
            f"{champion.trial} has no run in MLflow yet; `orchestrator sync` brings it, and registers it"
        )
    with tempfile.TemporaryDirectory() as scratch:
        save_model(packed, Path(scratch) / ARTIFACT)
        client.log_artifacts(run.info.run_id, str(Path(scratch) / ARTIFACT), ARTIFACT)
    with _tolerating("RESOURCE_ALREADY_EXISTS"):
        client.create_registered_model(name, description=f"Answers a caption with images of {champion.dataset}.")
    source = f"{run.info.artifact_uri}/{ARTIFACT}"
    sd = Measure(champion.value, champion.std, champion.seeds).sample_std
    spread = {} if sd is None else {STD: str(champion.std), SD: str(sd), SEEDS: str(champion.seeds)}
    known = {} if champion.above_chance is None else {ABOVE_CHANCE: str(champion.above_chance).lower()}
    tags, about = _tags(champion) | spread | known, about_version(champion)
    version = client.create_model_version(name, source, run.info.run_id, tags=tags, description=about)
    made = number_of(version)
    first = _find_version(client, name, champion) or made
    if first != made:
        # Another machine has registered the same model meanwhile.
        client.delete_model_version(name, str(made))
    return first


def about_version(champion: Champion) -> str:
    """Return the text of a version's page, in Markdown: origin, quality, certainty, and how to query the model."""
    test = in_section(champion.metric, TEST)
    values = [f"{champion.metric} {metric_text(champion.metric, champion.value)}"]
    values += [] if champion.test is None else [f"{test} {metric_text(test, champion.test)}"]
    about = [
        f"{champion.trial} of {champion.experiment}: {champion.parameters or 'defaults'}",
        f"{'confirmed' if champion.confirmed else 'unconfirmed'}: {', '.join(values)}",
        *([champion.verdict] if champion.verdict else []),
    ]
    return "\n\n".join([*map(markdown, about), USAGE.format(model=f"models:/{model_name(champion.dataset)}@{ALIAS}")])


def _why_not(client: "MlflowClient", name: str, version: int, holder: int | None) -> str:
    """Return why a version does not compete with the champion; empty where it does."""
    tags = {number_of(each): each.tags for each in _versions(client, name)}
    own, others = tags.get(version, {}), tags.get(holder or 0, {})
    if own.get(ABOVE_CHANCE) == "false":
        return "its test rsum is not above chance"
    words = {"data_digest": "other data", "metric": "another metric"}
    differs = [word for key, word in words.items() if own.get(key) != others.get(key)]
    if holder is None or not differs or not others.keys() >= COMPARED:
        return ""
    return f"version {holder} has {' and '.join(differs)}; move the alias in MLflow if this one counts"


@contextmanager
def _tolerating(code: str) -> Iterator[None]:
    """Ignore MLflow's error with this code, which says that another process was first."""
    from mlflow.exceptions import MlflowException

    try:
        yield
    except MlflowException as error:
        if error.error_code != code:
            raise


def _move_alias(client: "MlflowClient", name: str) -> int | None:
    """Point the alias to the best version until it is found there; return the version, ``None`` where none may be."""
    for _ in range(ATTEMPTS):
        # Another machine may remove a version between two requests; the next attempt no longer finds that version.
        with _tolerating("RESOURCE_DOES_NOT_EXIST"):
            current = champion_number(client, name)
            best = best_version(_versions(client, name), current)
            if best is None or current == number_of(best):
                return current if best is not None else None
            client.set_registered_model_alias(name, ALIAS, str(number_of(best)))
    raise RegistryError(f"{name}: the alias {ALIAS} does not stay where it is put; `orchestrator sync` tries again")


def champion_number(client: "MlflowClient", name: str) -> int | None:
    """Return the number of the version that the alias points to; ``None`` where there is none."""
    models = client.search_registered_models(f"name='{name}'")
    number = models[0].aliases.get(ALIAS) if models else None
    return None if number is None else int(number)


def _tags(champion: Champion) -> dict[str, str]:
    """Return the tags by which a version is found again; all versions of this product write these tags."""
    values = {field.name: getattr(champion, field.name) for field in fields(champion) if field.compare}
    return {name: str(value).lower() if name == "confirmed" else str(value) for name, value in values.items()}


def find_store(uri: str | None, output: Path) -> str:
    """Return the named store, or the default store of an output directory.

    Raises:
        RegistryError: If there is no store yet.
        ConfigError: If MLflow's default password is in use.
        MissingExtraError: If MLflow is not installed.
    """
    require("tracking", "MLflow's store")
    if uri is None and not (output / DATABASE).is_file():
        raise RegistryError(
            f"--output {output}: holds no mlflow.db; run `orchestrator search` first, or name its --output"
        )
    return choose_uri(uri, output)


def fetch_champion(uri: str, dataset: str, folder: Path) -> tuple[Path, Registered]:
    """Return the packed model of a dataset's champion; a model that does not lie on this machine is downloaded.

    Raises:
        RegistryError: If the store does not answer, or has no champion for the dataset.
    """
    name = model_name(dataset)
    try:
        client = client_of(uri)
        number = champion_number(client, name)
        if number is None:
            there = sorted(model.name for model in client.search_registered_models(max_results=100))
            hint = f"there are: {', '.join(there) or 'none'}. A search registers its winner"
            if name in there:
                hint = f"no version has the alias {ALIAS}: none is above chance, or somebody removed the alias"
            raise RegistryError(f"{without_password(uri)}: no champion {name}; {hint}")
        from mlflow.artifacts import download_artifacts

        # The loader's code, which lies beside the model, is not fetched.
        source = f"{client.get_model_version_download_uri(name, str(number)).rstrip('/')}/data/{MODEL}"
        local = download_artifacts(artifact_uri=source, dst_path=str(folder), tracking_uri=uri)
    except store_failures() as error:
        reason = f"{without_password(uri)}: {name} cannot be fetched: {failure_of(error, uri)}"
        try:
            # Says whether the files are looked for in a folder from which the database was moved.
            count_experiments(uri)
        except StoreMovedError as moved:
            reason = str(moved)
        except ConnectionError:
            pass
        raise RegistryError(reason) from None
    return Path(local), Registered(name, number, True)
