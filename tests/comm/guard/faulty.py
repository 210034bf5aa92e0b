"""Programs that go wrong on purpose: ``python faulty.py WHAT``, run by test_faults.py on several ranks."""

import os
import signal
import sys
import time

import numpy as np

import qdist.comm as qc


def main(what: str) -> None:
    # Ranks that wait in vain need not wait long; in the other cases the fault itself has to be told in time.
    comm = qc.init(timeout=1.5 if what in ("sleep", "sleep-unheard", "sleep-in-group", "async", "recv") else 3)
    last = comm.rank == comm.size - 1
    x = np.zeros(4, np.float32)
    comm.all_reduce(x)
    match what:
        case "raise" if last:
            raise ValueError("this rank cannot go on")
        case "raise-unheard" if last:
            sys.stdout = open("/dev/full", "w")  # noqa: SIM115 - what cannot be written stays in it
            print("lost")
            sys.stderr.close()
            raise ValueError("this rank cannot go on")
        case "sleep-unheard" if last:
            time.sleep(60)
        case "sleep-unheard":
            sys.stdout = None
            sys.stderr.close()
        case "kill" if last:
            os.kill(os.getpid(), signal.SIGKILL)
        case "sleep" if last:
            time.sleep(60)
        case "exit" if last:
            sys.exit(3)
        case "exit-first" if comm.rank == 0:
            sys.exit(3)
        case "sleep-in-group" if last:
            comm.split([list(range(comm.size))], name="team")
            time.sleep(60)
        case "sleep-in-group":
            comm.split([list(range(comm.size))], name="team").barrier()
        case "recv":
            if comm.rank == 0:
                comm.recv(x, comm.size - 1)
            time.sleep(60)
        case "shape":
            comm.all_reduce(np.zeros(4 + last, np.float32))
        case "dtype":
            comm.all_reduce(np.zeros(4, np.float64 if last else np.float32))
        case "root":
            comm.broadcast(x, root=int(last))
        case "reduction":
            comm.all_reduce(x, "max" if last else "sum")
        case "direct":
            comm.all_reduce(np.ones(4, np.int64 if last else np.float64), out=np.empty(4, np.int64 if last else float))
        case "direct-shape":
            comm.all_to_all(np.zeros((comm.size, 2 + last)), out=np.empty((comm.size, 2 + last)))
        case "split":
            comm.split([[0], [1]] if last else [[0, 1]])
        case "caught":
            others = range(comm.size - 1)
            while last and any(comm._agreement.table.calls(r)[-1][0] < 2 for r in others):
                pass  # Until all others wait in their call.
            try:
                comm.barrier() if last else comm.all_reduce(x)
            except qc.CollectiveMismatch:
                try:
                    comm.all_reduce(x)
                except qc.CollectiveMismatch as error:
                    print(f"again: {error}", flush=True)
                time.sleep(60)
        case "op":
            comm.barrier() if last else comm.all_reduce(x)
        case "async":
            if not last:
                comm.all_reduce(x, async_op=True).wait()
            time.sleep(60)
    comm.all_reduce(x)
    print("went through")


main(sys.argv[1])
