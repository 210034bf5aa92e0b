"""Commands of the command line, a file each; `qdist.cli` puts them together."""

__all__: list[str] = []
