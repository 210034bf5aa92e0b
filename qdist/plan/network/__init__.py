"""The exchanges of amplitudes between ranks: as few as can be found, and few of them between nodes."""

__all__: list[str] = []
