"""Chromium without a window, spoken to over a pipe in the DevTools protocol: enough to open a page and look at it."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
"""The program, or None where there is none."""

_TIMEOUT = 60.0


class Page:
    """One page: what it fetched, and what its scripts say."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = read, write
        self._number, self._buffer = 0, b""
        self._session: str | None = None
        self.requests: list[str] = []
        """Addresses of all that was fetched."""
        self.errors: list[str] = []
        """Exceptions that no script caught, and what was written to the console as an error."""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self._call(f"{domain}.enable")

    def open(self, path: Path, width: int = 1200, height: int = 1000) -> None:
        """Opens a file and waits until it is loaded."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self._loaded = False
        self._call("Page.navigate", url=path.as_uri())
        while not self._loaded:
            self._handle(self._message())

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression. Raises RuntimeError for its exception."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def hover(self, selector: str) -> None:
        """Moves the mouse over the middle of the first element that a CSS selector finds."""
        box = f"document.querySelector({json.dumps(selector)}).getBoundingClientRect()"
        x, y = self.evaluate(f"(b => [b.x + b.width / 2, b.y + b.height / 2])({box})")
        self._call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def screenshot(self, path: Path) -> None:
        """A PNG file of what one sees."""
        path.write_bytes(base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"]))

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        number = self._number
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while (answer := self._message()).get("id") != number:
            self._handle(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def _message(self) -> dict[str, Any]:
        deadline = time.monotonic() + _TIMEOUT
        while b"\0" not in self._buffer:
            try:
                piece = os.read(self._read, 1 << 16)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"Chromium said nothing for {_TIMEOUT:g} s") from None
                time.sleep(0.005)
                continue
            if not piece:
                raise RuntimeError("Chromium has ended")
            self._buffer += piece
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def _handle(self, event: dict[str, Any]) -> None:
        kind, params = event.get("method"), event.get("params", {})
        if kind == "Page.loadEventFired":
            self._loaded = True
        elif kind == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif kind == "Runtime.exceptionThrown":
            self.errors.append(params["exceptionDetails"]["text"])
        elif kind == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])


@contextmanager
def browser(profile: Path) -> Iterator[Page]:
    """A page of a new Chromium. profile: an empty folder of its own."""
    assert CHROMIUM is not None
    # Chromium reads commands from descriptor 3 and writes answers to 4; copies from 10 on do not get in their way.
    pipes = [os.pipe(), os.pipe()]
    theirs = [fcntl.fcntl(pipes[0][0], fcntl.F_DUPFD_CLOEXEC, 10), fcntl.fcntl(pipes[1][1], fcntl.F_DUPFD_CLOEXEC, 10)]
    silent = os.open(os.devnull, os.O_RDWR)
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--user-data-dir={profile}",
        "--remote-debugging-pipe",
    ]
    actions = [(os.POSIX_SPAWN_DUP2, silent, k) for k in range(3)]
    actions += [(os.POSIX_SPAWN_DUP2, theirs[0], 3), (os.POSIX_SPAWN_DUP2, theirs[1], 4)]
    process = os.posix_spawn(CHROMIUM, command, os.environ | {"HOME": str(profile)}, file_actions=actions, setpgroup=0)
    try:
        for descriptor in (*theirs, pipes[0][0], pipes[1][1], silent):
            os.close(descriptor)
        os.set_blocking(pipes[1][0], False)
        yield Page(pipes[1][0], pipes[0][1])
    finally:
        os.killpg(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(pipes[1][0])
        os.close(pipes[0][1])
