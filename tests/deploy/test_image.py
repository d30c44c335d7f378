"""The image: its Dockerfile, what may enter it, its locks, and what runs in it."""

import re
import subprocess
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from importlib.metadata import requires
from pathlib import Path
from threading import Thread

import pytest
from packaging.requirements import Requirement

from tests.deploy.files import DEPLOY, ROOT, TOOLS

IMAGE = DEPLOY / "image"
DOCKERFILE = IMAGE / "Dockerfile"


@pytest.mark.proof
def test_dockerfile() -> None:
    found = subprocess.run([TOOLS / "hadolint", "--no-color", DOCKERFILE], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout


def test_what_is_copied_is_there_and_let_in() -> None:
    """And nothing else is: the context is closed but for what the Dockerfile names."""
    first, *lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert first == "*"
    allowed = {line.removeprefix("!") for line in lines if line.startswith("!")}
    sources = set()
    for copied in re.findall(r"^COPY (?!--from)(?:--\S+ )*(.+) \S+$", DOCKERFILE.read_text(), re.MULTILINE):
        sources |= set(copied.split())
    for source in sources:
        assert list(ROOT.glob(source)), source
        assert any(source == entry or source.startswith(f"{entry}/") for entry in allowed), source
    for entry in allowed:
        assert any(source == entry or source.startswith(f"{entry}/") for source in sources), entry


def images() -> set[str]:
    """Return the images of others that any file of deploy/ builds on or runs."""
    found = {f"python:{version}" for version in re.findall(r"^ARG PYTHON=(.*)$", DOCKERFILE.read_text(), re.MULTILINE)}
    for path in DEPLOY.rglob("*.yaml"):
        found |= set(re.findall(r"^\s*image: ([\w./-]+:.*)$", path.read_text(), re.MULTILINE))
    return {image for image in found if not image.startswith("icr-orchestrator:")}


def test_images_of_others_are_named_by_their_content() -> None:
    """A tag can be given to other content later; a digest cannot. One image has one digest in all files."""
    names = {re.sub(r"@sha256:[0-9a-f]{64}$", "", image) for image in images()}
    assert not any("@" in name for name in names)
    assert len(names) == len(images()) == 3 and all("@sha256:" in image for image in images())
    assert all(re.fullmatch(r"[\w/-]+:\d[\w.-]+", name) for name in names)


def locked(path: Path) -> dict[str, str]:
    pins = re.findall(r"^([\w.-]+)(?:\[.*\])?==([^ \\]+)", path.read_text(), re.MULTILINE)
    return {name.lower().replace("_", "-"): version for name, version in pins}


def test_both_locks_agree() -> None:
    main, ours = locked(ROOT / "requirements.lock"), locked(IMAGE / "requirements.lock")
    both = ours.keys() & main.keys()
    assert {name: main[name] for name in both} == {name: ours[name] for name in both}
    lines = (IMAGE / "requirements.in").read_text().splitlines()
    wanted = [Requirement(line) for line in lines if not line.startswith("#")]
    assert {requirement.name for requirement in wanted} <= ours.keys()
    blocks = re.split(r"\n(?=\S)", (IMAGE / "requirements.lock").read_text().strip())
    assert len(blocks) >= len(ours) and all("--hash=sha256:" in block for block in blocks)


def only(requirement: Requirement, extra: str) -> bool:
    """Say whether something is wanted with an extra, and not without."""
    marker = requirement.marker
    return marker is not None and marker.evaluate({"extra": extra}) and not marker.evaluate({"extra": ""})


def test_the_lock_has_what_the_extras_ask_for() -> None:
    ours = locked(IMAGE / "requirements.lock")
    for package, extra in (("ray", "default"), ("mlflow", "auth")):
        names = {
            one.name.lower().replace("_", "-") for one in map(Requirement, requires(package) or []) if only(one, extra)
        }
        assert names and names <= ours.keys(), (package, extra)


def test_versions_of_files_are_those_of_the_lock() -> None:
    versions = locked(ROOT / "requirements.lock")
    for path in DEPLOY.glob("kubernetes/**/*.yaml"):
        for version in re.findall(r"rayVersion: (\S+)", path.read_text()):
            assert version == versions["ray"], path
    project = re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert project is not None
    for path in [*DEPLOY.rglob("*.yaml"), DEPLOY / "README.md", DOCKERFILE]:
        for version in re.findall(r"icr-orchestrator:(?:\$\{TAG:-)?(\d[\w.]*)", path.read_text()):
            assert version == project[1], path


ENTRYPOINT = IMAGE / "entrypoint.sh"


def enter(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    base = {"PATH": "/usr/bin:/bin"}
    return subprocess.run([str(ENTRYPOINT), *command], env=base | environment, capture_output=True, text=True)


@pytest.mark.proof
def test_secrets_come_from_files_and_the_exit_code_is_the_commands(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("pass word\n")
    done = enter("env", PGPASSWORD_FILE=str(secret), SSL_CERT_FILE=str(secret))
    lines = done.stdout.splitlines()
    assert "PGPASSWORD=pass word" in lines and f"SSL_CERT_FILE={secret}" in lines
    assert not any(line.startswith(("PGPASSWORD_FILE=", "SSL_CERT=")) for line in lines)
    assert enter("bash", "-c", "exit 5").returncode == 5


@pytest.mark.proof
@pytest.mark.parametrize("content", [pytest.param("", id="empty"), pytest.param(None, id="missing")])
def test_a_secret_that_is_none_starts_nothing(content: str | None, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    if content is not None:
        secret.write_text(content)
    done = enter("echo", "started", PGPASSWORD_FILE=str(secret))
    assert done.returncode != 0 and "started" not in done.stdout and str(secret) in done.stderr


@pytest.mark.proof
def test_a_driver_joins_before_it_runs(tmp_path: Path) -> None:
    """The script that makes a container a node, with a Ray that writes down what it was told."""
    said = tmp_path / "said"
    ray = tmp_path / "ray"
    ray.write_text(f'#!/bin/sh\necho "$@" >> {said}\n')
    ray.chmod(0o755)
    join = [str(IMAGE / "join-ray.sh"), "bash", "-c", f"echo searched >> {said}; exit 4"]
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    assert subprocess.run(join, env=environment, capture_output=True).returncode != 0 and not said.exists()
    assert subprocess.run(join, env=environment | {"RAY_ADDRESS": "head:6379"}, capture_output=True).returncode == 4
    joined, searched = said.read_text().splitlines()
    assert joined.startswith("start --address=head:6379 --num-cpus=0 --num-gpus=0") and searched == "searched"


def healthy(**environment: str) -> int:
    variables = {"PATH": "/usr/bin:/bin"} | environment
    return subprocess.run([str(IMAGE / "healthy.sh")], env=variables, capture_output=True).returncode


@pytest.mark.proof
def test_a_search_is_healthy_while_it_can_write(tmp_path: Path) -> None:
    assert healthy(ORCHESTRATOR_OUTPUT=str(tmp_path)) == 0
    assert not list(tmp_path.iterdir())
    assert healthy(ORCHESTRATOR_OUTPUT=str(tmp_path / "gone")) != 0


@pytest.mark.proof
def test_a_server_is_healthy_while_it_answers(tmp_path: Path) -> None:
    (tmp_path / "health").touch()
    with HTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=tmp_path)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        answers = healthy(HEALTH_URL=f"{address}/health"), healthy(HEALTH_URL=f"{address}/broken")
        server.shutdown()
    assert answers[0] == 0 and answers[1] != 0
    assert healthy(HEALTH_URL=f"{address}/health") != 0
