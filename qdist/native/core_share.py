"""The cores that others of its job leave to this process: told by who starts ranks, asked by who starts threads."""

from __future__ import annotations

__all__ = ["core_share", "set_core_share"]

_share: int | None = None


def set_core_share(cores: int | None) -> None:
    """This process's share of its node's cores; None where it has them alone."""
    global _share
    _share = cores


def core_share() -> int | None:
    """What was last told."""
    return _share
