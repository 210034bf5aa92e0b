"""The one exception of qdist.circuit."""


class CircuitError(ValueError):
    """A circuit, gate, parameter or observable was given something that cannot be right."""
