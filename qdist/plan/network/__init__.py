"""When amplitudes travel between ranks: few exchanges, and few of them between nodes."""

__all__: list[str] = []
