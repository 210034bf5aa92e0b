"""Checks before anything is computed: arguments, compatibility of states, agreement of ranks."""

__all__: list[str] = []
