"""Data movement: exchanges of amplitudes between ranks, changes of layout, gathering on one rank."""

__all__: list[str] = []
