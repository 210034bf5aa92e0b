"""What the terminal can show."""

from __future__ import annotations

import sys

__all__ = ["stdout_writes"]


def stdout_writes(letters: str) -> bool:
    """Whether stdout's encoding has all of these letters: ASCII, as of some batch systems, has none beyond it."""
    encoding = getattr(sys.stdout, "encoding", None)
    if encoding is None:  # No stdout, or memory that takes any text.
        return True
    try:
        letters.encode(encoding)
    except (LookupError, UnicodeEncodeError):
        return False
    return True
