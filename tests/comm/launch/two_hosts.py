"""Hosts on one machine, made of Linux namespaces: own name, address, processes and /dev/shm each, a cable, an sshd.

Nothing of the machine itself is changed: the cables lie between the hosts' own network namespaces, and files in /etc
are replaced in their mount namespaces alone. Each host lives as long as its first process, which dies with the tests.
The first host is also the switch that the others' cables lead to.
"""

import contextlib
import ctypes
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAMES = ("qdhost0", "qdhost1", "qdhost2", "qdhost3")
ADDRESSES = ("10.213.77.1", "10.213.77.2", "10.213.77.3", "10.213.77.4")
SILENT = "10.213.77.99"
"""An address in the hosts' network that swallows what is sent to it."""

_NAMESPACES = ("--net", "--uts", "--ipc", "--mount", "--pid")


def why_not() -> str | None:
    """The reason why there can be no hosts here, or None."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return "hosts out of namespaces need Linux and root"
    for tool, package in (("ip", "iproute2"), ("sshd", "openssh-server"), ("ssh", "openssh-client")):
        if _tool(tool) is None:
            return f"hosts out of namespaces need {tool}, which {package} brings"
    for tool in ("unshare", "nsenter", "mount"):
        if _tool(tool) is None:
            return f"hosts out of namespaces need {tool} (util-linux)"
    bridge = ["ip", "link", "add", "switch", "type", "bridge"]
    tried = subprocess.run(["unshare", *_NAMESPACES, "--fork", *bridge], capture_output=True, text=True)
    return f"no namespaces here: {tried.stderr.strip()}" if tried.returncode else None


class Host:
    """One of the hosts."""

    def __init__(self, number: int, folder: Path) -> None:
        self.name, self.address, self._folder = NAMES[number], ADDRESSES[number], folder
        self._ready = folder / f"{self.name}.ready"
        self._holder = subprocess.Popen(
            ["unshare", *_NAMESPACES, "--fork", "--kill-child", "--mount-proc", sys.executable, "-S", __file__]
            + [str(number), str(folder)],
            stderr=(folder / f"{self.name}.log").open("w"),
            preexec_fn=_die_with_parent,
        )

    def await_first_process(self) -> None:
        end = time.monotonic() + 20
        while not self._ready.exists():
            if self._holder.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{self.name} does not start: {(self._folder / f'{self.name}.log').read_text()}")
            time.sleep(0.01)
        children = Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children")
        self.first = int(children.read_text().split()[0])

    def command(self, *arguments: str | Path) -> list[str]:
        """What runs a command on this host."""
        inside = ["nsenter", "-t", str(self.first), *_NAMESPACES, f"--wd={self._folder}", "--"]
        return [*inside, *map(str, arguments)]

    def run(self, *arguments: str | Path, check: bool = True, **options: Any) -> subprocess.CompletedProcess[str]:
        """Runs a command on this host to its end."""
        options = {"capture_output": True, "text": True, "timeout": 60} | options
        return subprocess.run(self.command(*arguments), check=check, **options)

    def processes(self) -> dict[int, str]:
        """What runs here besides the first process and sshd: numbers, as the machine sees them, and commands."""
        inside = os.stat(f"/proc/{self.first}/ns/pid").st_ino
        found = {}
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if int(name) != self.first and os.stat(f"/proc/{name}/ns/pid").st_ino == inside:
                    command = Path(f"/proc/{name}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    if command and not command.startswith(("sshd", "/usr/sbin/sshd", _tool("sshd") or "sshd")):
                        found[int(name)] = command
        return found

    def shared_memory(self) -> list[str]:
        return os.listdir(f"/proc/{self.first}/root/dev/shm")

    @contextlib.contextmanager
    def replaced(self, path: Path, text: str) -> Iterator[None]:
        """On this host alone, a file has another content."""
        other = self._folder / f"other.{path.name}"
        other.write_text(text)
        self.run("mount", "--bind", other, path)
        try:
            yield
        finally:
            self.run("umount", path)

    def start_sshd(self) -> None:
        self.run(_tool("sshd") or "", "-f", self._folder / "sshd_config")

    def stop_sshd(self) -> None:
        """Ends the server and all its sessions."""
        inside = os.stat(f"/proc/{self.first}/ns/pid").st_ino
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if (
                    os.stat(f"/proc/{name}/ns/pid").st_ino == inside
                    and os.readlink(f"/proc/{name}/exe").find("sshd") >= 0
                ):
                    os.kill(int(name), signal.SIGKILL)

    def stop(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            os.kill(self.first, signal.SIGKILL)  # Without its first process, the kernel ends the others.
        self._holder.kill()
        self._holder.wait()


class TwoHosts:
    """Two hosts, or more, and the cables between them."""

    def __init__(self, folder: Path, count: int = 2) -> None:
        _write_configuration(folder)
        self._hosts: list[Host] = []
        try:
            for number in range(count):
                self._hosts.append(Host(number, folder))
            self.first, self.second = self._hosts[:2]
            for host in self._hosts:
                host.await_first_process()
            self.first.run("ip", "link", "add", "eth0", "type", "bridge")
            for number, host in enumerate(self._hosts[1:], start=1):
                port = f"port{number}"
                # From outside: only there all hosts' first processes have numbers.
                cable = ["ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", str(host.first)]
                subprocess.run(["nsenter", "-t", str(self.first.first), "--net", *cable], check=True)
                self.first.run("ip", "link", "set", port, "master", "eth0", "up")
            for host in self._hosts:
                host.run("ip", "address", "add", f"{host.address}/24", "dev", "eth0")
                host.run("ip", "link", "set", "lo", "up")
                host.run("ip", "link", "set", "eth0", "up")
            self._swallow()
            for host in self._hosts[1:]:
                host.start_sshd()
                self._await_ssh(host)
        except BaseException:
            self.stop()
            raise

    def _swallow(self) -> None:
        hardware = "02:00:00:00:00:99"
        self.first.run(*("ip", "neighbour", "replace", SILENT, "lladdr", hardware, "dev", "eth0", "nud", "permanent"))

    def _await_ssh(self, host: Host) -> None:
        end = time.monotonic() + 20
        while (tried := self.first.run("ssh", host.name, "true", check=False)).returncode != 0:
            if time.monotonic() > end:
                raise RuntimeError(f"no ssh between the hosts: {tried.stderr}")
            time.sleep(0.1)

    def cut(self) -> None:
        """Pulls the second host's cable."""
        self.second.run("ip", "link", "set", "eth0", "down")

    def mend(self) -> None:
        self.second.run("ip", "link", "set", "eth0", "up")
        self._await_ssh(self.second)

    def __getitem__(self, number: int) -> Host:
        return self._hosts[number]

    def stop(self) -> None:
        for host in self._hosts:
            host.stop()


@contextlib.contextmanager
def two_hosts(folder: Path, count: int = 2) -> Iterator[TwoHosts]:
    """The hosts; folder: for their configuration, which all see."""
    hosts = TwoHosts(folder, count)
    try:
        yield hosts
    finally:
        hosts.stop()


def _tool(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin:/usr/local/sbin")


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)


def _write_configuration(folder: Path) -> None:
    for name in ("key", "host_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in zip(NAMES, ADDRESSES))]
    (folder / "hosts").write_text("\n".join([*lines, f"{SILENT} qdsilent", ""]))
    (folder / "ssh_config").write_text(
        f"IdentityFile {folder}/key\nIdentitiesOnly yes\nStrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"
        "GlobalKnownHostsFile /dev/null\nLogLevel ERROR\n"
    )
    (folder / "sshd_config").write_text(
        f"Port 22\nHostKey {folder}/host_key\nAuthorizedKeysFile {folder}/key.pub\nPidFile none\nStrictModes no\n"
        "PermitRootLogin yes\nPasswordAuthentication no\nUseDNS no\n"
    )
    (folder / "empty").mkdir()


def _hold(number: int, folder: Path) -> None:
    """A host's first process: sets it up, and from then on buries the dead."""

    def mount(*arguments: str | Path) -> None:
        subprocess.run(["mount", *map(str, arguments)], check=True)

    socket.sethostname(NAMES[number])
    mount("--make-rprivate", "/")
    for place in ("/dev/shm", "/run"):
        mount("-t", "tmpfs", "none", place)
    os.mkdir("/run/sshd", 0o755)
    mount("--bind", folder / "hosts", "/etc/hosts")
    mount("--bind", folder / "ssh_config", "/etc/ssh/ssh_config")
    own = Path(pwd.getpwuid(os.geteuid()).pw_dir) / ".ssh"
    if own.is_dir():
        mount("--bind", folder / "empty", own)
    (folder / f"{NAMES[number]}.ready").touch()
    while True:
        try:
            os.wait()
        except ChildProcessError:
            time.sleep(0.05)


if __name__ == "__main__":
    _hold(int(sys.argv[1]), Path(sys.argv[2]))
