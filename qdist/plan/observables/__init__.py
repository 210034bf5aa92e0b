"""Observables as Pauli strings, the layouts that serve them, and the gates that they take over from a circuit."""

__all__: list[str] = []
