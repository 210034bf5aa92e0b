"""An exchange in the middle of which the last rank is killed, or stops: run by test_exchange.py on several ranks."""

import os
import signal
import sys
import time

import qdist as qd
from qdist.state import StateVector
from qdist.state.moves import exchange


def main(what: str, device: str) -> None:
    comm = qd.comm.init(timeout=3)
    state = StateVector(14, comm=comm, device=device)
    far = range(state.shard_bits, 14)
    exchange.SMALLEST_PIECE = 0  # A small state in pieces, as large ones are.
    put_away, pieces = exchange._put_away, []

    def stop_at_the_third(*piece: object) -> None:
        pieces.append(piece)
        if len(pieces) == 3:
            if what == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)
        put_away(*piece)

    if comm.rank == comm.size - 1:
        exchange._put_away = stop_at_the_third
    exchange.swap_bits(state, list(zip(range(4), far)))
    print("went through")


main(*sys.argv[1:])
