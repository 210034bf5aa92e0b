"""Nothing hangs: time-outs that name who is missing, and the comparison of what all ranks call."""

from qdist.comm.guard.call_agreement import CallAgreement
from qdist.comm.guard.watch import Guard

__all__ = ["CallAgreement", "Guard"]
