"""Jobs of the primitives: in a thread of their own, or on several ranks at once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from qiskit.primitives import PrimitiveJob

from qdist.comm import Communicator

__all__ = ["in_order", "submitted"]


def submitted(comm: Communicator, function: Callable[..., Any], *args: Any) -> PrimitiveJob:
    """The job of a call. On several ranks it is done when this returns: threads would start the calls of two jobs in
    another order on each rank, and ranks would wait for each other."""
    if comm.size > 1:
        try:
            found = function(*args)
        except Exception as error:
            # A job raises when it is asked for its result.
            job = PrimitiveJob(_raised, error)
        else:
            job = PrimitiveJob(lambda: found)
    else:
        job = PrimitiveJob(function, *args)
    job._submit()
    return job


def in_order(comm: Communicator, job: Any) -> Any:
    """A job that was submitted: on several ranks when it is done."""
    if comm.size > 1:
        # Errors are for whoever asks for the result.
        with suppress(Exception):
            job.result()
    return job


def _raised(error: Exception) -> None:
    raise error
