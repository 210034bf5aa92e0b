"""A plan's stages as tables that the tile kernels interpret: phases, records, and the numbers that angles become."""

__all__: list[str] = []
