"""The service and the timer of the reruns under a real systemd, in namespaces of this machine.

Systemd gets targets alone of all that Debian has, so it starts nothing but these two units, and changes nothing here.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.files import DEPLOY
from tests.support.hosts import missing
from tests.support.waiting import wait_until

pytestmark = pytest.mark.proof

SYSTEMD = "/lib/systemd/systemd"
GROUPS = Path("/sys/fs/cgroup/systemd")

ORCHESTRATOR = """#!/bin/bash
code="$(cat /opt/icr/code)"
# Before it says anything, so that no signal finds it without.
[ "$code" != wait ] || trap 'exit 130' INT
{ id -un; echo "$HOME"; echo "$ORCHESTRATOR_OUTPUT"; echo "$*"
  touch /var/lib/icr/mine && echo writes; touch /etc/mine 2> /dev/null || echo protected
  touch "$HOME/.cache-of-mine" && echo home; ls -A /root /home 2> /dev/null | grep -c '^[^/]' ; } > /var/lib/icr/said
[ "$code" != wait ] || { sleep 600 & wait; }
exit "$code"
"""

BEGIN = """set -e
mount -t tmpfs tmpfs /run; mkdir -p /run/lock /run/up /run/work /run/targets /run/given
cp {given}/* /run/given/
mount -t tmpfs tmpfs /sys/fs/cgroup; mkdir /sys/fs/cgroup/systemd
mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd
mount -t overlay -o lowerdir=/etc,upperdir=/run/up,workdir=/run/work overlay /etc
echo icr:x:31337:31337::/home/icr:/bin/bash >> /etc/passwd; echo icr:x:31337: >> /etc/group
rm -rf /etc/systemd/system; mkdir -p /etc/systemd/system /etc/icr
cp /run/given/icr-regress.* /run/given/started.target /etc/systemd/system/; cp /run/given/regress.env /etc/icr/
for folder in /tmp /var/lib /opt; do mount -t tmpfs tmpfs $folder; done
mkdir -p /opt/icr/.venv/bin; cp /run/given/orchestrator /opt/icr/.venv/bin/; chmod 755 /opt/icr/.venv/bin/orchestrator
cp /lib/systemd/system/*.target /run/targets/; mount --bind /run/targets /lib/systemd/system
mount -t tmpfs tmpfs /lib/systemd/system-generators
exec env -i container=other PATH=/usr/bin:/bin:/usr/sbin:/sbin \\
  {systemd} --system --unit=started.target --log-target=console --show-status=no
"""


class Systemd:
    """A systemd that is the first process of its namespaces."""

    def __init__(self, folder: Path) -> None:
        given = folder / "given"
        given.mkdir()
        for unit in DEPLOY.glob("schedules/icr-regress.*"):
            (given / unit.name).write_text(unit.read_text())
        (given / "started.target").write_text("[Unit]\nWants=icr-regress.timer\n")
        (given / "regress.env").write_text((DEPLOY / "schedules" / "regress.env.example").read_text())
        (given / "orchestrator").write_text(ORCHESTRATOR)
        self.group = GROUPS / f"icr-test-{os.getpid()}"
        self.group.mkdir()
        spaces = ["--net", "--mount", "--pid", "--uts", "--ipc", "--cgroup", "--fork", "--kill-child", "--mount-proc"]
        begin = BEGIN.format(given=given, systemd=SYSTEMD)
        enter = f'echo $$ > {self.group}/cgroup.procs; exec setpriv --pdeathsig KILL unshare "$@"'
        with (folder / "log").open("w") as log:
            command = ["bash", "-c", enter, "bash", *spaces, "bash", "-c", begin]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        wait_until(lambda: bool(children.read_text().split()), "the namespaces are made")
        self.pid = int(children.read_text().split()[0])
        wait_until(lambda: self.tell("is-active", "icr-regress.timer") == "active", "the timer waits")

    def inside(self, *command: str) -> str:
        enter = ["nsenter", "--target", str(self.pid), "--mount", "--pid", "--net", "--cgroup"]
        return subprocess.run([*enter, *command], capture_output=True, text=True).stdout.strip()

    def tell(self, *words: str) -> str:
        return self.inside("systemctl", *words)

    def run(self, code: str) -> None:
        self.inside("bash", "-c", f"echo {code} > /opt/icr/code; rm -f /var/lib/icr/said")
        self.tell("reset-failed")
        self.tell("start", *(["--no-block"] if code == "wait" else []), "icr-regress.service")

    def kill(self) -> None:
        """End systemd and all that it started, and remove the control groups of theirs."""
        self.process.kill()
        self.process.wait(120)
        wait_until(self._is_removed, "the control groups can be removed")

    def _is_removed(self) -> bool:
        groups = [self.group, *(path for path in self.group.rglob("*") if path.is_dir())]
        for folder in sorted(groups, reverse=True):
            subprocess.run(["rmdir", str(folder)], capture_output=True)
        return not self.group.exists()


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Systemd]:
    if not Path(SYSTEMD).exists():
        pytest.skip("no systemd here; on Debian: apt-get install systemd")
    if not os.access(GROUPS, os.W_OK):
        pytest.skip(f"no {GROUPS} here that can be written")
    if reason := missing():
        pytest.skip(reason)
    made = Systemd(tmp_path)
    try:
        yield made
    finally:
        made.kill()


def test_the_service_is_fenced_in_and_its_ends_are_told_apart(systemd: Systemd) -> None:
    assert systemd.tell("show", "--property=Unit", "icr-regress.timer") == "Unit=icr-regress.service"
    for code, state in (("0", "inactive"), ("3", "inactive"), ("5", "failed")):
        systemd.run(code)
        assert systemd.tell("is-active", "icr-regress.service") == state, code
        failed = systemd.tell("--failed", "--plain", "--no-legend")
        assert ("icr-regress.service" in failed) == (state == "failed")
    said = systemd.inside("cat", "/var/lib/icr/said").splitlines()
    assert said[:3] == ["icr", "/var/lib/icr", "/var/lib/icr/runs"]
    assert said[3].startswith("regress scenes-quick --if-due 24h ")
    assert said[4:] == ["writes", "protected", "home", "0"], "nothing of people's homes is seen"
    assert systemd.inside("stat", "--format=%a %U", "/var/lib/icr") == "750 icr"


def test_a_rerun_that_is_stopped_is_interrupted_and_no_failure(systemd: Systemd) -> None:
    systemd.run("wait")
    wait_until(lambda: bool(systemd.inside("cat", "/var/lib/icr/said")), "the rerun has begun")
    systemd.tell("stop", "icr-regress.service")
    assert systemd.tell("is-active", "icr-regress.service") == "inactive"
    assert systemd.tell("show", "--property=ExecMainStatus", "icr-regress.service") == "ExecMainStatus=130"
    assert systemd.tell("--failed", "--plain", "--no-legend") == ""
