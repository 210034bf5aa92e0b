"""The secret that the ranks of a job share when no MPI launcher brought them together."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from qdist.comm.errors import CommError

__all__ = ["HOW_TO_SET", "job_secret"]

_SHORTEST = 16
_LONGEST = 4096
HOW_TO_SET = (
    f"set QDIST_SECRET to the same text of at least {_SHORTEST} characters on every rank "
    '(`python -c "import secrets; print(secrets.token_hex())"` makes one), or QDIST_SECRET_FILE to a file with it '
    "that only its owner can read"
)


def job_secret(environ: Mapping[str, str]) -> str | None:
    """What QDIST_SECRET holds, or the file that QDIST_SECRET_FILE names; None when neither is set.

    Raises CommError for a secret that is too short to be one, and for a file that others can read or own. No message
    holds the secret.
    """
    text, path = environ.get("QDIST_SECRET"), environ.get("QDIST_SECRET_FILE")
    if text is not None and path is not None:
        raise CommError("QDIST_SECRET and QDIST_SECRET_FILE are both set: unset one of them")
    source = "QDIST_SECRET" if path is None else f"QDIST_SECRET_FILE={path}"
    if path is not None:
        text = _read(path, source)
    if text is None:
        return None
    text = text.strip()
    if not _SHORTEST <= len(text) <= _LONGEST:
        raise CommError(
            f"{source}: a secret of {len(text)} characters; it must have {_SHORTEST} to {_LONGEST}, best random ones: "
            + HOW_TO_SET
        )
    return text


def _read(path: str, source: str) -> str:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise CommError(f"{source} is not a file")
            if status.st_uid != os.geteuid():
                raise CommError(f"{source} belongs to user {status.st_uid}, not to user {os.geteuid()}, who runs this")
            if status.st_mode & 0o077:
                raise CommError(f"{source} can be read or written by others than its owner: `chmod 600 {path}`")
            return file.read(_LONGEST + 2).decode()
    except OSError as error:
        raise CommError(f"{source} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise CommError(f"{source} does not hold text") from None
