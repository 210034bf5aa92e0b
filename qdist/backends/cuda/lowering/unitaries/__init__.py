"""Decompositions of two-qubit unitaries into what takes a thread fewer multiplications."""

__all__: list[str] = []
