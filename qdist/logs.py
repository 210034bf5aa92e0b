"""Logging under the name qdist: off until a program sets it up, or the environment variable QDIST_LOG does."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping

__all__ = ["set_up"]

VARIABLE = "QDIST_LOG"
_LEVELS = {"error": logging.ERROR, "warning": logging.WARNING, "info": logging.INFO, "debug": logging.DEBUG}
_RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "SLURM_PROCID", "RANK")


def set_up(environ: Mapping[str, str] = os.environ) -> None:
    """Has what qdist logs written to stderr, from the level that QDIST_LOG names; else nothing is written unless the
    program adds a handler. A value that is no level is told of, and taken for "info"."""
    logger = logging.getLogger("qdist")
    logger.addHandler(logging.NullHandler())
    wanted = environ.get(VARIABLE, "").strip().lower()
    if not wanted:
        return
    level = _LEVELS.get(wanted)
    if level is None:
        print(f"qdist: {VARIABLE}={wanted}: one of {', '.join(_LEVELS)}; taken as info", file=sys.stderr)
        level = logging.INFO
    handler = logging.StreamHandler()
    rank = next((f" rank {environ[name]}" for name in _RANKS if name in environ), "")
    handler.setFormatter(logging.Formatter(f"%(asctime)s{rank} %(levelname)s %(name)s: %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(level)
    # The program's own handlers would say it twice.
    logger.propagate = False


# When this is imported, which is before anything that logs.
set_up()
