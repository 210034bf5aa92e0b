"""Gates as others that take less: each module one rule, from operations to operations that do the same."""

__all__: list[str] = []
