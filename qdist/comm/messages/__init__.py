"""What ranks say to each other: arrays, reductions and small Python values, checked, and the record of each call."""

from qdist.comm.messages.call import Call
from qdist.comm.messages.reduction import ReduceOp
from qdist.comm.messages.traffic import Message

__all__ = ["Call", "Message", "ReduceOp"]
