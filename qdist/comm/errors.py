"""What communication raises when it cannot go on."""

__all__ = ["CollectiveMismatch", "CommError"]


class CommError(RuntimeError):
    """A communication failed, or the ranks could not be brought together."""


class CollectiveMismatch(CommError):
    """Ranks entered different collectives, or the same one with shapes, dtypes or roots that do not fit."""
