"""Every command of ours, of Ray and of MLflow in deploy/ exists and takes the options that it is given."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.tracking.server import parse
from tests.deploy.commands import CommandError, check, in_markdown, in_shell, in_words, program_of
from tests.deploy.files import DEPLOY, OVERLAYS, RAY_CLUSTERS, SCRIPTS, documents, named, pods, walk
from tests.deploy.kustomize import build
from tests.support.hosts import HEALTH_CHECKS

COMPOSE = DEPLOY / "compose" / "compose.yaml"
SERVER = "orchestrator.tracking.server"
SCHEDULES = {
    "schedules/regress.cron",
    "schedules/icr-regress.service",
    "schedules/ray-job.sh",
    "slurm/regress.sbatch",
    "kubernetes/base/regress.yaml",
    "kubernetes/overlays/raycluster/regress-on-cluster.yaml",
}


def commands_of(path: Path) -> Iterator[list[str]]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield from in_markdown(text)
    elif path.suffix == ".service":
        yield from (
            command for line in re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE) for command in in_shell(line)
        )
    elif path.suffix == ".yaml":
        for document in documents(path):
            yield from _in_document(document)
        yield from in_shell(_first_comment(text))
    else:
        yield from in_shell(text)


def _in_document(document: dict[str, Any]) -> Iterator[list[str]]:
    """Yield the commands in lists of words, as containers have them, in lists of lines, and in a job's entrypoint."""
    for trail, value in walk(document):
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            words = trail[-1] in ("command", "args", "entrypoint")
            yield from in_words(value) if words else in_shell("\n".join(value))
        elif trail and trail[-1] == "entrypoint" and isinstance(value, str):
            yield from in_shell(value)


def _first_comment(text: str) -> str:
    """Return the indented lines of the comment at the top: the commands of a file's manual."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#  ")[1:] if line.startswith("#   ") else "")
    return re.sub(r"\s+\((once|GPUs)[^\n]*", "", "\n".join(lines))


KINDS = {".md", ".service", ".yaml", ".sh", ".sbatch", ".cron"}
FILES = [path for path in sorted(DEPLOY.rglob("*")) if path.suffix in KINDS]


@cache
def everything() -> list[tuple[str, list[str]]]:
    return [(named(path), command) for path in FILES for command in commands_of(path)]


@pytest.mark.parametrize("path", FILES, ids=named)
def test_commands(path: Path) -> None:
    for command in commands_of(path):
        check(command)


def test_all_of_them_are_found() -> None:
    """What is in the files today; a reader that overlooks them would find nothing wrong."""
    expected = {
        **{name: {"orchestrator regress"} for name in SCHEDULES},
        "README.md": {"ray up", *(f"orchestrator {name}" for name in ("search", "status", "sync", "doctor"))},
        "compose/compose.yaml": {"mlflow db", "ray start", "orchestrator status", "orchestrator search"},
        "kubernetes/base/mlflow.yaml": {"mlflow db"},
        "image/join-ray.sh": {"ray start"},
        "kubernetes/overlays/rayjob/rayjob.yaml": {"orchestrator search"},
        "ray/aws.yaml": {"ray start", "ray up"},
        "ray/on-premise.yaml": {"ray start", "orchestrator search"},
        "schedules/ray-job.sh": {"ray job", "orchestrator regress"},
        "slurm/search.sbatch": {"ray start", "ray health-check", "orchestrator search"},
    }
    for name, commands in expected.items():
        assert commands <= {" ".join(command[:2]) for file, command in everything() if file == name}, name
    assert sum(command[:2] == ["ray", "start"] for _, command in everything()) == 8


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("orchestrator serch scenes-smoke", "serch", id="no such command"),
        pytest.param("orchestrator search scenes-smoke --adress auto", "--adress", id="no such option"),
        pytest.param("X=1 ray start --hed", "--hed", id="no such option of Ray"),
        pytest.param('bash -c "sleep 1; exec ray start --head --prt=1"', "--prt", id="in quotes"),
        pytest.param("srun --nodes=1 \\\n  ray start --head \\\n  --pot=1", "--pot", id="in several lines"),
        pytest.param("mlflow server --backend-store sqlite://", "--backend-store", id="no such option of MLflow"),
    ],
)
def test_a_mistake_is_found(text: str, complaint: str) -> None:
    commands = list(in_shell(text))
    with pytest.raises(CommandError, match=complaint):
        for command in commands:
            check(command)


@pytest.mark.parametrize("path", [COMPOSE, DEPLOY / "kubernetes" / "base" / "mlflow.yaml"], ids=named)
def test_the_tracking_server_is_the_reduced_one_and_takes_its_options(path: Path) -> None:
    words = [value for one in documents(path) for _, value in walk(one) if isinstance(value, list) and SERVER in value]
    [command] = words
    options = parse(command[command.index(SERVER) + 1 :])
    assert command[:2] == ["python", "-m"] and options.app_name == "basic-auth" and options.allowed_hosts


@pytest.mark.parametrize("name", sorted(SCHEDULES))
def test_schedules_call_one_command(name: str) -> None:
    [command] = [command for file, command in everything() if file == name and command[0] == "orchestrator"]
    assert command[1] == "regress" and "--if-due" in command and command[command.index("--if-due") + 1] == "24h"
    assert "--require-accepted" in command, "a reference that is lost is no green night"


def start_parameters() -> Iterator[object]:
    for folder in OVERLAYS:
        for document in build(folder):
            for trail, value in walk(document):
                if trail and trail[-1] == "rayStartParams":
                    yield pytest.param(value, id=f"{folder.name}-{trail[-2]}")


@pytest.mark.parametrize("parameters", list(start_parameters()))
def test_parameters_of_kuberay_are_options_of_ray_start(parameters: dict[str, str]) -> None:
    options = {name for option in program_of("ray").commands["start"].params for name in option.opts}
    assert {f"--{name}" for name in parameters} <= options


def _assignments(path: Path) -> dict[str, str]:
    return dict(re.findall(r"(RAY_health_check_\w+)=(\d+)", path.read_text()))


def test_a_head_gives_a_silent_node_up_everywhere() -> None:
    """Wherever a head is started, with what the product says that it wants."""
    heads = [path for path in [*RAY_CLUSTERS, *SCRIPTS] if re.search(r"ray start --head", path.read_text())]
    assert len(heads) == 3
    for path in heads:
        assert _assignments(path) == HEALTH_CHECKS, path
    service = yaml.safe_load(COMPOSE.read_text())["services"]["ray"]["environment"]
    assert HEALTH_CHECKS.items() <= service.items()
    for folder in OVERLAYS:
        containers = [one for document in build(folder) for pod in pods(document) for one in pod["spec"]["containers"]]
        [head] = [one for one in containers if one["name"] == "ray-head"]
        assert HEALTH_CHECKS.items() <= {variable["name"]: variable.get("value") for variable in head["env"]}.items()
