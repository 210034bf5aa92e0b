"""Hosts that a job runs on: what the command line, a host file and Python may name, checked by one rule.

Names end up on the command lines of mpirun and ssh. One that begins with ``-`` would be an option there, such as
``-oProxyCommand=...``, which runs a command.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from qdist.comm.errors import CommError

__all__ = [
    "Host",
    "check_hosts",
    "check_reachable",
    "host_of_rank",
    "other_machines",
    "parse_hostfile",
    "parse_hosts",
    "reachable",
    "widened",
]

Host = tuple[str, int]
"""A host's name and how many ranks it takes."""

_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?")
_RULE = (
    "a host is a name or an IPv4 address of ASCII letters, digits, '.', '-' and '_', and begins and ends with a letter "
    "or digit (IPv6: give it a name in /etc/hosts; another user or port: in ~/.ssh/config)"
)
_MOST_RANKS = 1 << 20


def check_hosts(hosts: Sequence[Host]) -> list[Host]:
    """The hosts as they are. Raises ValueError for a name that is none and for slots that are not 1 or more."""
    for host in hosts:
        if not (isinstance(host, tuple | list) and len(host) == 2):
            raise ValueError(f"host {host!r}: expected (name, ranks), as in ('node0', 4)")
        name, slots = host
        if not (isinstance(name, str) and _NAME.fullmatch(name)):
            raise ValueError(f"host {name!r}: {_RULE}")
        if isinstance(slots, bool) or not (isinstance(slots, int) and 1 <= slots <= _MOST_RANKS):
            raise ValueError(f"host {name!r} with {slots!r} ranks: from 1 to {_MOST_RANKS}")
    return [(name, slots) for name, slots in hosts]


def parse_hosts(text: str) -> list[Host]:
    """``node0:2,node1:2`` as hosts; a host without a number takes one rank. Raises ValueError with what is wrong."""
    hosts: list[Host] = []
    for item in text.split(","):
        match = re.fullmatch(r"([^:]+)(?::([0-9]{1,9}))?", item.strip())
        if match is None:
            raise ValueError(f"--hosts: {item.strip()!r} is not name or name:ranks, as in node0:2,node1:2")
        hosts += _checked(f"--hosts {item.strip()!r}", match[1], match[2])
    return hosts


def parse_hostfile(path: str) -> list[Host]:
    """Lines ``name slots=N`` (or ``name:N``, or ``name`` for one); # begins a comment. Raises ValueError."""
    hosts: list[Host] = []
    try:
        lines = Path(path).read_text().splitlines()
    except OSError as error:
        raise ValueError(f"--hostfile {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"--hostfile {path}: this is no text file") from error
    for number, line in enumerate(lines, 1):
        line = line.partition("#")[0].strip()
        if not line:
            continue
        match = re.fullmatch(r"([^\s:]+)(?:\s+slots\s*=\s*([0-9]{1,9})|:([0-9]{1,9}))?", line)
        if match is None:
            raise ValueError(f"{path}, line {number}: {line!r} is not of the form `host slots=N`")
        hosts += _checked(f"{path}, line {number}", match[1], match[2] or match[3])
    if not hosts:
        raise ValueError(f"{path} names no host")
    return hosts


def _checked(where: str, name: str, slots: str | None) -> list[Host]:
    try:
        return check_hosts([(name, int(slots or 1))])
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def widened(hosts: Sequence[Host], ranks: int) -> list[Host]:
    """The hosts with room for so many ranks, more than their slots: in proportion to them, whole ranks, in order."""
    slots = sum(n for _, n in hosts)
    ends = [0]
    for _, n in hosts:
        ends.append(ends[-1] + n)
    # Rounded up, so that the first hosts have no fewer than their share.
    bounds = [-(-ranks * end // slots) for end in ends]
    return [(name, b - a) for (name, _), a, b in zip(hosts, bounds, bounds[1:])]


def host_of_rank(hosts: Sequence[Host], rank: int) -> str | None:
    """The host that mpirun gives this rank to: hosts are filled in order. None without hosts."""
    for name, slots in hosts:
        if rank < slots:
            return name
        rank -= slots
    return None


def other_machines(hosts: Sequence[Host]) -> list[str]:
    """Those hosts that are not, by their name, this machine."""
    local = {"localhost", "127.0.0.1", os.uname().nodename}
    return [name for name, _ in hosts if name not in local]


def check_reachable(hosts: Sequence[Host], timeout: float) -> None:
    """Each other host must be reachable by ssh without a password. Raises CommError with those that are not."""
    others = other_machines(hosts)
    if others and shutil.which("ssh") is None:
        raise CommError(f"other hosts ({', '.join(others)}) need ssh, which is not installed here")
    failed = _silent(others, timeout)
    for name in others:
        print(f"qdist run: ssh {name}: {'no' if name in failed else 'ok'}", file=sys.stderr)
    if failed:
        raise CommError(f"no ssh without a password to {', '.join(failed)}: see the README on several machines")


def reachable(hosts: Sequence[Host], timeout: float) -> list[Host]:
    """Those of the hosts that are this machine, or answer by ssh within `timeout` seconds."""
    others = other_machines(hosts)
    silent = others if others and shutil.which("ssh") is None else _silent(others, timeout)
    return [host for host in hosts if host[0] not in silent]


def _silent(others: Sequence[str], timeout: float) -> list[str]:
    """Those hosts that do not answer by ssh without a password."""
    options = ["-o", "BatchMode=yes", "-o", f"ConnectTimeout={max(1, int(timeout))}"]
    probes: dict[str, subprocess.Popen[bytes]] = {}
    failed = []
    end = time.monotonic() + timeout
    try:
        for name in others:
            probes[name] = subprocess.Popen(["ssh", *options, "--", name, "true"])
        for name, probe in probes.items():
            try:
                if probe.wait(max(0, end - time.monotonic())) != 0:
                    failed.append(name)
            except subprocess.TimeoutExpired:
                failed.append(name)
    finally:
        for probe in probes.values():
            probe.kill()
            probe.wait()
    return failed
