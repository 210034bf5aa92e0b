"""Two hosts out of Linux namespaces for storm.py, where this is root and has the tools; else a reason why not."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests" / "comm" / "launch"))

import two_hosts

__all__ = ["Hosts", "why_not"]

why_not = two_hosts.why_not


class Hosts:
    """Hosts with a cable that can be pulled, made when first asked for."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._made: two_hosts.TwoHosts | None = None

    def _hosts(self) -> two_hosts.TwoHosts:
        if self._made is None:
            folder = Path(tempfile.mkdtemp(prefix="storm-hosts-"))
            self._made = self._stack.enter_context(two_hosts.two_hosts(folder))
        return self._made

    def names(self, ranks: int) -> str:
        """The hosts and their ranks, as `qdist run -H` takes them."""
        return f"{two_hosts.NAMES[0]}:{ranks - ranks // 2},{two_hosts.NAMES[1]}:{ranks // 2}"

    def command(self, command: list[str]) -> list[str]:
        return self._hosts().first.command(*command)

    def cut(self) -> None:
        self._hosts().cut()

    def power_off(self) -> None:
        """The second host is gone, with all that runs there; `mend` is its reboot."""
        self._hosts().cut()
        for pid in self._hosts().second.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def mend(self) -> None:
        self._hosts().mend()
