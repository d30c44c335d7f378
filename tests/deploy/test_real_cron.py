"""The crontab of the reruns under a real cron, on a host in namespaces of this machine."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.files import DEPLOY, filled_in
from tests.deploy.network import Network
from tests.support.waiting import wait_until

pytestmark = pytest.mark.proof

CRON = "/usr/sbin/cron"
CODES = {"well": 0, "running": 3, "slipped": 5}
"""Name of a schedule -> how its rerun ends."""

ORCHESTRATOR = """#!/bin/bash
echo '{}'; echo "a slip" >&2
# What cron starts a minute later ends at once: it mails nothing, and truncates no file.
echo exit >> ../regress.env
echo "$PWD $(id -un) $ORCHESTRATOR_DATA_ROOT $ORCHESTRATOR_OUTPUT $*" > saying
mv saying said
exit %d
"""


def schedule(shared: Path, name: str, code: int) -> str:
    """Make an installation whose rerun ends with a code, and return the crontab for it that knocks every minute."""
    home, state = shared / name / "opt", shared / name / "state"
    (home / ".venv" / "bin").mkdir(parents=True)
    state.mkdir()
    program = home / ".venv" / "bin" / "orchestrator"
    program.write_text(ORCHESTRATOR % code)
    program.chmod(0o755)
    settings = shared / name / "regress.env"
    shutil.copy(DEPLOY / "schedules" / "regress.env.example", settings)
    changes = {"17 * * * *": "* * * * *", "/opt/icr": str(home), "/var/lib/icr": str(state)}
    changes |= {"/etc/icr/regress.env": str(settings), "MAILTO=ml-platform": f"MAILTO={name}"}
    return filled_in(DEPLOY / "schedules" / "regress.cron", changes)


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    """One host with the user of the crontab, and with a program that keeps what is mailed."""
    if not Path(CRON).exists():
        pytest.skip("no cron here; on Debian: apt-get install cron")
    shared = tmp_path / "shared"
    shared.mkdir()
    # A user that is not root has to get in.
    for folder in (shared, *shared.parents[:3]):
        folder.chmod(folder.stat().st_mode | 0o011)
    users, shadow = (Path(path).read_text() for path in ("/etc/passwd", "/etc/shadow"))
    replaced = {
        "/etc/passwd": f"{users}icr:x:31337:31337::/run/icr:/bin/bash\n",
        "/etc/shadow": f"{shadow}icr:*:20000:0:99999:7:::\n",
        "/etc/crontab": "",
    }
    with Network(shared, ["host"], empty=["/etc/cron.d", "/var/spool/cron/crontabs"], replaced=replaced) as made:
        yield made


def test_each_end_of_a_rerun_is_told_as_it_should_be(network: Network) -> None:
    shared, host = network.shared, network.hosts["host"]
    (shared / "mail").mkdir()
    (shared / "mail").chmod(0o777)
    sendmail = shared / "sendmail"
    sendmail.write_text(f'#!/bin/bash\ncat > "$(mktemp {shared}/mail/XXXXXX)"\n')
    sendmail.chmod(0o755)
    over = "mkdir -p /run/up /run/work; mount -t overlay -o lowerdir=/usr/sbin,upperdir=/run/up,workdir=/run/work"
    host.run("bash", "-c", f"{over} overlay /usr/sbin; cp {sendmail} /usr/sbin/sendmail; mkdir -p /run/icr")
    for name, code in CODES.items():
        (shared / name).mkdir()
        text = schedule(shared, name, code)
        host.run("bash", "-c", f"chown -R 31337 {shared}/{name}; cat > /etc/cron.d/icr-{name} <<'END'\n{text}END")
    host.start([CRON, "-f"], {"PATH": "/usr/bin:/bin:/usr/sbin"}, shared / "cron.log")
    wait_until(lambda: all((shared / name / "opt" / "said").exists() for name in CODES), "cron has knocked")
    for name in CODES:
        said = (shared / name / "opt" / "said").read_text().split()
        assert said[:4] == [f"{shared}/{name}/opt", "icr", "/srv/icr/data", "/var/lib/icr/runs"]
        assert said[4:] == ["regress", "scenes-quick", "--if-due", "24h", "--json"]
        assert (shared / name / "state" / "last.json").read_text() == "{}\n"
    # The file of a mail is there before its last line is.
    wait_until(lambda: any("a slip" in path.read_text() for path in (shared / "mail").iterdir()), "the mail")
    [mail] = [path.read_text() for path in (shared / "mail").iterdir()]
    assert "To: slipped" in mail and f"exit code 5, see {shared}/slipped/state/last.json" in mail
