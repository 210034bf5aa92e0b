"""Starts the ranks of one machine: ``local_ranks.py RANKS FIRST PROGRAM``, of which FIRST is the first one's number.

Run by path, not imported, under keeper.py, which ends all ranks when this process ends with a code other than 0. Uses
the standard library alone so that it starts at once.
"""

import os
import subprocess
import sys

START = os.path.join(os.path.dirname(os.path.abspath(__file__)), "start.py")


def main() -> int:
    ranks, first, program = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    rank_of = {}
    for local in range(ranks):
        numbers = {"RANK": str(first + local), "LOCAL_RANK": str(local)}
        process = subprocess.Popen([sys.executable, "-S", START, program], env={**os.environ, **numbers})
        rank_of[process.pid] = first + local
    while rank_of:
        pid, status = os.wait()
        if pid not in rank_of:
            continue
        rank, code = rank_of.pop(pid), os.waitstatus_to_exitcode(status)
        if code != 0:
            how = f"by signal {-code}" if code < 0 else f"with code {code}"
            print(f"qdist run: rank {rank} (pid {pid}) ended {how}; the others here are ended", file=sys.stderr)
            return code if code > 0 else 128 - code
    return 0


if __name__ == "__main__":
    sys.exit(main())
