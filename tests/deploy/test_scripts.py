"""Shell scripts and systemd units, as their checkers see them; the secrets that one of the scripts makes."""

import configparser
import json
import shutil
import ssl
import stat
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.deploy.files import DEPLOY, SCRIPTS, TOOLS, named

UNITS = sorted(path for path in DEPLOY.glob("schedules/icr-regress.*"))


def shellcheck(text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([TOOLS / "shellcheck", "--color=never", "-"], input=text, capture_output=True, text=True)


@pytest.mark.proof
@pytest.mark.parametrize("path", SCRIPTS, ids=named)
def test_scripts(path: Path) -> None:
    found = shellcheck(path.read_text())
    assert found.returncode == 0, found.stdout
    assert "set -euo pipefail" in path.read_text() and path.stat().st_mode & stat.S_IXUSR


@pytest.mark.proof
def test_the_crontab() -> None:
    """A line for /etc/cron.d: five fields, the user, and a command that a shell takes."""
    lines = (DEPLOY / "schedules" / "regress.cron").read_text().splitlines()
    [line] = [line for line in lines if not line.startswith("#") and "=" not in line.split()[0]]
    *_, user, command = line.split(maxsplit=6)
    assert (len(line.split(maxsplit=6)), user) == (7, "icr")
    # cron makes a new line of every percent sign.
    assert "%" not in command
    found = shellcheck(f"#!/bin/bash\n# shellcheck disable=SC1091\n{command}\n")
    assert found.returncode == 0, found.stdout


@pytest.mark.proof
def test_units(tmp_path: Path) -> None:
    """By systemd, given a program and a user that there are on this machine."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze here; on Debian: apt-get install systemd")
    files = [tmp_path / unit.name for unit in UNITS]
    for unit, file in zip(UNITS, files, strict=True):
        text = unit.read_text().replace("/opt/icr/.venv/bin/orchestrator", "/bin/true")
        file.write_text(text.replace("=icr\n", "=root\n"))
    found = subprocess.run(["systemd-analyze", "verify", "--man=no", *files], capture_output=True, text=True)
    assert (found.returncode, found.stderr) == (0, "")


def test_the_timer_starts_the_service_which_runs_without_the_users_home_and_stops_well() -> None:
    assert [unit.suffix for unit in UNITS] == [".service", ".timer"]
    service, timer = (configparser.ConfigParser(strict=False) for _ in UNITS)
    service.optionxform = str
    service.read(UNITS[0])
    timer.read(UNITS[1])
    assert timer["Install"]["wantedby"] == "timers.target" and "unit" not in timer["Timer"]
    options = service["Service"]
    assert options["ProtectHome"] == "yes"
    assert options["Environment"] == f"HOME=/var/lib/{options['StateDirectory']}"
    # An interrupted rerun ends with 130, another driver's with 3; a slip must stay a failure of the unit.
    assert options["SuccessExitStatus"].split() == ["3", "130"]


def make_secrets(folder: Path) -> str:
    script = DEPLOY / "compose" / "make-secrets.sh"
    return subprocess.run([str(script), str(folder)], check=True, capture_output=True, text=True).stdout


@pytest.mark.proof
def test_the_secrets_that_compose_reads_are_made_once(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    made = make_secrets(folder)
    contents = {path.name: path.read_text() for path in folder.iterdir()}
    assert len(contents) == len(made.splitlines()) == 14 and len(set(contents.values())) == 14
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o444}
    identities = {one["name"]: one for one in json.loads(contents["s3_identities.json"])["identities"]}
    for name, start in (("buckets", "s3"), ("mlflow", "s3_mlflow"), ("searches", "s3_searches")):
        keys = {"accessKey": contents[f"{start}_access_key"], "secretKey": contents[f"{start}_secret_key"]}
        assert identities.pop(name)["credentials"] == [keys]
    assert identities == {}
    assert all(len(text) == 48 for name, text in contents.items() if not name.endswith((".json", ".pem")))
    certificate = folder / "s3_grpc_cert.pem"
    ssl.create_default_context().load_cert_chain(certificate, folder / "s3_grpc_key.pem")
    wanted = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())["secrets"]
    assert {entry["file"] for entry in wanted.values()} == {f"secrets/{name}" for name in contents}
    (folder / "ray_token").unlink()
    assert make_secrets(folder) == f"made {folder}/ray_token\n"
    again = {path.name: path.read_text() for path in folder.iterdir()}
    assert again.pop("ray_token") != contents.pop("ray_token") and again == contents
