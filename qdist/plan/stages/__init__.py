"""Which operations run in which sweep, on what a target's tiles have room for, forwards and backwards."""

__all__: list[str] = []
