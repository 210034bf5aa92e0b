"""`qdist run --verbose` runs this on all ranks first: every rank talks to its neighbour, rank 0 prints how well."""

import time

import numpy as np

from qdist.comm.bootstrap.initialize import init
from qdist.comm.communicator import Communicator


def round_trip(comm: Communicator, nbytes: int, repeats: int) -> float:
    """Median seconds that passing ``nbytes`` on to the next rank takes when all do it at once."""
    x, out = np.zeros(nbytes, np.uint8), np.empty(nbytes, np.uint8)
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    times = []
    for _ in range(repeats):
        comm.barrier()
        start = time.perf_counter()
        comm.sendrecv(x, right, out, left)
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def main() -> None:
    comm = init()
    small, large = round_trip(comm, 8, 20), round_trip(comm, 1 << 22, 5)
    table = comm.gather_object((comm.host, comm.node, small * 1e6, (1 << 22) / large / 1e9))
    if table is not None:
        for rank, (host, node, latency, bandwidth) in enumerate(table):
            print(
                f"qdist run: rank {rank} (node {node}, {host}) to rank {(rank + 1) % comm.size}: "
                f"{latency:.0f} us, {bandwidth:.2f} GB/s"
            )


if __name__ == "__main__":
    main()
