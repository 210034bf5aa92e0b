"""`qdist run --nnodes N --node-rank I`: one launcher a machine, each of which starts its own machine's ranks.

No launcher reaches the other machines. The ranks find each other by env://, at MASTER_ADDR and MASTER_PORT.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from urllib.parse import urlsplit

from qdist.comm import standalone
from qdist.comm.bootstrap.environment import without_launcher
from qdist.comm.bootstrap.rendezvous_address import rendezvous_address
from qdist.comm.launch.command import check_output, environment_of_ranks, with_python
from qdist.comm.launch.job import Job, Signalled

__all__ = ["run_node"]


def run_node(
    program: Sequence[str],
    ranks_here: int,
    nodes: int,
    node: int,
    master: tuple[str, int],
    *,
    output: str | None = None,
    local_rank_option: str = "",
) -> int:
    """Starts machine ``node``'s ranks of a job on ``nodes`` machines with ``ranks_here`` ranks each; returns their exit
    code: 0, or that of the first to fail, with which the others here are ended.

    master: address and port of the first machine, the same for all launchers. output, local_rank_option: as for run().

    However it ends, no process of this machine's ranks is left. Raises ValueError for wrong arguments, and CommError
    where the machines share no secret (QDIST_SECRET), without which anybody could join the ranks.
    """
    if ranks_here < 1:
        raise ValueError(f"--nproc-per-node {ranks_here}: at least one rank")
    if not 0 <= node < nodes:
        raise ValueError(f"--node-rank {node} of --nnodes {nodes}: from 0 to {nodes - 1}")
    if not 0 < master[1] < 1 << 16:
        raise ValueError(f"--master-port {master[1]}: from 1 to {(1 << 16) - 1}")
    check_output(output)
    program = with_python(program)
    environ = without_launcher(os.environ) | environment_of_ranks(ranks_here, (), output) | {
        "MASTER_ADDR": master[0],
        "MASTER_PORT": str(master[1]),
        "WORLD_SIZE": str(nodes * ranks_here),
        "LOCAL_WORLD_SIZE": str(ranks_here),
        "QDIST_LOCAL_RANK_OPTION": local_rank_option,
    }  # fmt: skip
    rendezvous_address(urlsplit("env://"), environ)
    script = str(standalone.FOLDER / "local_ranks.py")
    command = [sys.executable, "-S", script, str(ranks_here), str(node * ranks_here), json.dumps(program)]
    try:
        with Job(command, environ) as job:
            return job.wait()
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except Signalled as signalled:
        return 128 + signalled.number
