"""One rank of spawn(): ``python -P spawned.py FOLDER`` runs the job that is there."""

import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # Modules are looked for where the process that called spawn() does, qdist first of all.
    sys.path[:] = json.loads((Path(sys.argv[1]) / "path").read_text())

import cloudpickle

from qdist.comm.bootstrap.initialize import init


def main(folder: Path) -> None:
    fn, arguments = cloudpickle.loads((folder / "job").read_bytes())
    comm = init()
    try:
        result = cloudpickle.dumps(fn(*arguments))
    except BaseException as error:
        _leave(folder / f"error.{comm.rank}", _report(error, comm.rank))
        raise
    _leave(folder / f"result.{comm.rank}", result)


def _report(error: BaseException, rank: int) -> bytes:
    report: dict[str, Any] = {
        "rank": rank,
        "time": time.time(),
        "summary": f"{type(error).__name__}: {error}",
        "traceback": "".join(traceback.format_exception(error)),
        "error": error,
    }
    try:
        payload = cloudpickle.dumps(report)
        cloudpickle.loads(payload)
        return payload
    except Exception:
        # An exception that cannot travel is told by its text.
        return cloudpickle.dumps(report | {"error": None})


def _leave(path: Path, content: bytes) -> None:
    beside = path.with_name("." + path.name)
    beside.write_bytes(content)
    os.replace(beside, path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
