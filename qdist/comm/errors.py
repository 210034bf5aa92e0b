"""What communication raises when it cannot go on."""

__all__ = ["CollectiveMismatch", "CommError", "explained"]


class CommError(RuntimeError):
    """A communication failed, or the ranks could not be brought together."""


class CollectiveMismatch(CommError):
    """Ranks entered different collectives, or the same one with shapes, dtypes or roots that do not fit."""


def explained(what: str, error: RuntimeError) -> CommError:
    """The error of a transport, with what was called and how to find the rank that differs."""
    if isinstance(error, CommError):
        return error
    return CommError(
        f"{what} failed: {error}. If the ranks disagree on what they send, init(debug=True) or QDIST_DEBUG=comm names "
        "the one that differs."
    )
