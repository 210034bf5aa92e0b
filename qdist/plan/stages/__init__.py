"""Stages: which operations run in which sweep (pass over memory), within a target's limits, forwards and backwards."""

__all__: list[str] = []
