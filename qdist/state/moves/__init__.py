"""Amplitudes that travel: between ranks, to another layout, and together on one rank."""

__all__: list[str] = []
