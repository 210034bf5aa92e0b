"""What travels between the stages of a pipeline: activations down, gradients up.

Every pair of neighbours has one communicator for each direction. Messages of one are taken in the order sent, without
tags, and never wait for those of another: on a transport that runs the messages of a communicator one after the other,
as NCCL does, a rank that sends down while its neighbour sends up would otherwise wait for ever.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from qdist.comm import Communicator, Message, Work
from qdist.tensor import Tensor
from qdist.tensor.arrays import Array, as_dtype, is_inexact, to_device

__all__ = ["Channels", "Spec", "channels_of"]

DOWN, UP = "down", "up"


class Spec(NamedTuple):
    """What a receiver has to know of a tensor before it comes."""

    shape: tuple[int, ...]
    dtype: str
    device: str
    """ "cpu" or "cuda"."""
    differentiable: bool
    """Whether a gradient comes back for it."""

    @staticmethod
    def of(tensor: Tensor) -> Spec:
        differentiable = tensor.requires_grad and is_inexact(tensor.dtype)
        return Spec(tensor.shape, tensor.dtype.name, tensor.device.partition(":")[0], differentiable)

    def room(self) -> Array:
        """An array that such a tensor fits into."""
        return to_device(np.empty(self.shape, as_dtype(self.dtype)), self.device)


class Channels:
    """This rank's communicators with its neighbours in a ring of ranks, each named by the rank on its upper end."""

    def __init__(self) -> None:
        self._pairs: dict[tuple[str, int], Communicator] = {}
        self._connected: set[int] = set()
        self._sent: list[Work] = []

    def connect(self, comm: Communicator, ring: bool) -> None:
        """Make what is missing. ring: also between the last rank and the first. Collective over the communicator."""
        size = comm.size
        uppers = [a for a in range(size if ring else size - 1) if a not in self._connected and size > 1]
        for direction in (DOWN, UP):
            for upper in uppers:
                pair = [upper, (upper + 1) % size]
                channel = comm.new_group(pair, name=f"{comm.name}: {direction} {pair[0]}-{pair[1]}")
                if channel is not None:
                    self._pairs[direction, upper] = channel
        self._connected.update(uppers)

    @contextmanager
    def recording(self) -> Iterator[list[Message]]:
        """Within it, what this rank sends to neighbours and receives is noted; the list is complete at the end."""
        messages: list[Message] = []
        with ExitStack() as stack:
            lists = [stack.enter_context(channel.recording()) for channel in self._pairs.values()]
            yield messages
            messages += [message for noted in lists for message in noted]

    def send(self, direction: str, upper: int, arrays: Iterable[Array]) -> None:
        """Start sending to the other end of a channel."""
        channel = self._pairs[direction, upper]
        self._sent += [channel.isend(array, 1 - channel.rank) for array in arrays]
        # Asked, also so that they start: over NCCL nothing does before.
        self._sent = [work for work in self._sent if not work.is_completed()]

    def receive(self, direction: str, upper: int, specs: Sequence[Spec]) -> list[Work]:
        """Start receiving from the other end."""
        channel = self._pairs[direction, upper]
        return [channel.irecv(spec.room(), 1 - channel.rank) for spec in specs]

    def may_receive_ahead(self, direction: str, upper: int, specs: Sequence[Spec]) -> bool:
        """Whether a receive may be under way while this rank computes.

        NCCL's is a kernel that waits on the GPU. Computing loads kernels and allocates memory, either of which may
        synchronise the device and so wait for that kernel; where the neighbour's computing waits for this rank's next
        message in the same way, neither ends.
        """
        return self._pairs[direction, upper].backend != "nccl" or all(spec.device == "cpu" for spec in specs)

    def announce(self, upper: int, specs: Sequence[Spec], drawn: int, noted: list[Any]) -> None:
        """Tell the stage below what will come down. drawn: how many random draws have been made for it; noted: what
        the stages so far let it know besides, lists and plain values."""
        text = np.frombuffer(json.dumps([specs, drawn, noted]).encode(), np.uint8)
        self.send(DOWN, upper, [np.array([text.size]), text])

    def learn(self, upper: int) -> tuple[list[Spec], int, list[Any]]:
        """What the stage above announced."""
        channel = self._pairs[DOWN, upper]
        length = channel.recv(np.empty(1, np.int64), 1 - channel.rank)
        text = channel.recv(np.empty(int(length[0]), np.uint8), 1 - channel.rank)
        specs, drawn, noted = json.loads(text.tobytes())
        return [Spec(tuple(shape), *rest) for shape, *rest in specs], drawn, noted

    def finish(self) -> None:
        """Wait until everything has been sent."""
        for work in self._sent:
            work.wait()
        self._sent = []


_channels: WeakKeyDictionary[Communicator, Channels] = WeakKeyDictionary()


def channels_of(comm: Communicator, ring: bool) -> Channels:
    """The channels over a communicator: pipelines that share it share them. Collective when called first."""
    if comm not in _channels:
        _channels[comm] = Channels()
    channels = _channels[comm]
    channels.connect(comm, ring)
    return channels
