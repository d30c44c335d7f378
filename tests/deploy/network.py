"""Hosts in namespaces of this machine that are joined by a bridge, with names, and with folders of their own."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import pytest

from tests.support.hosts import ROOT, Host, missing


def needed() -> list[Path]:
    """Return the folders without which the programs of the tests do not start: the code, Python and its packages."""
    folders = [Path(folder) for folder in (ROOT, sys.prefix, sys.base_prefix)]
    return list(dict.fromkeys([*folders, *(folder.resolve() for folder in folders)]))


class Network:
    """Hosts that know each other by name; the bridge is on the first.

    The test is skipped where hosts cannot be made. ``shared`` is a folder that all have under the same path. ``empty``
    are folders that each has for itself, beside ``/run``, ``/tmp`` and ``/dev/shm``; of the files ``replaced`` (path ->
    text) all have another.
    """

    def __init__(
        self,
        shared: Path,
        names: Sequence[str],
        *,
        empty: Sequence[str] = (),
        replaced: Mapping[str, str] | None = None,
    ) -> None:
        if reason := missing():
            pytest.skip(reason)
        self.shared = shared
        self.hosts = {name: Host(name) for name in names}
        for number, host in enumerate(self.hosts.values(), start=1):
            host.address = f"10.231.9.{number}"
        self._lay_cables()
        for name in names:
            self._furnish(name, empty, replaced or {})

    def _lay_cables(self) -> None:
        (_, first), *others = self.hosts.items()
        first.run("ip", "link", "add", "bridge", "type", "bridge")
        first.run("ip", "link", "set", "bridge", "up")
        for name, host in others:
            # In this machine's process namespace, where the number of the first host's first process means something.
            cable = ["ip", "link", "add", "cable", "type", "veth", "peer", "name", name, "netns", str(first.pid)]
            enter = ["nsenter", "--target", str(host.pid), "--net"]
            subprocess.run([*enter, *cable], check=True, capture_output=True, text=True)
            first.run("ip", "link", "set", name, "master", "bridge", "up")
        for host in self.hosts.values():
            device = "bridge" if host is first else "cable"
            host.run("ip", "address", "add", f"{host.address}/24", "dev", device)
            host.run("ip", "link", "set", device, "up")

    def _furnish(self, name: str, empty: Sequence[str], replaced: Mapping[str, str]) -> None:
        """Give a host folders of its own, and the names of the others; its own name is 127.0.1.1, as on Debian."""
        others = [f"{host.address} {other}" for other, host in self.hosts.items() if other != name]
        replaced = {**replaced, "/etc/hosts": "\n".join(["127.0.0.1 localhost", f"127.0.1.1 {name}", *others]) + "\n"}
        hidden = ("/run", "/tmp", "/dev/shm", *empty)
        kept = [self.shared, *(folder for folder in needed() if any(folder.is_relative_to(part) for part in hidden))]
        lines = ["set -e", *(f"mkdir -p {folder}" for folder in empty), "mount -t tmpfs tmpfs /run"]
        for number, (path, text) in enumerate(replaced.items()):
            file = self.shared / f"{name}.{number}.{Path(path).name}"
            file.write_text(text)
            lines.append(f"mount --bind {file} {path}")
        lines += [f"mkdir -p /run/kept/{n}; mount --bind {folder} /run/kept/{n}" for n, folder in enumerate(kept)]
        lines += [f"mount -t tmpfs tmpfs {folder}" for folder in ("/tmp", "/dev/shm", *empty)]
        lines += ["chmod 1777 /tmp /dev/shm"]
        lines += [f"mkdir -p {folder}; mount --bind /run/kept/{n} {folder}" for n, folder in enumerate(kept)]
        self.hosts[name].run("bash", "-c", "\n".join(lines))

    def try_run(self, name: str, *command: str) -> str | None:
        """Run a command on a host; ``None`` where the command fails."""
        try:
            return self.hosts[name].run(*command)
        except subprocess.CalledProcessError:
            return None

    def processes(self, name: str) -> str:
        """Return the command lines of all living processes of a host, whose first process waits for no dead ones."""
        lines = self.hosts[name].run("ps", "-ewwo", "stat=,args=").splitlines()
        return "\n".join(line for line in lines if not line.startswith("Z"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        for host in self.hosts.values():
            host.kill()
