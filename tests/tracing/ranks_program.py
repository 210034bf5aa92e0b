"""Traced on 4 ranks: a run, and a gradient for which the others wait for rank 2."""

import json
import sys
import time
from pathlib import Path

import numpy as np

import qdist as qd

comm = qd.comm.init()
circuit = qd.library.hardware_efficient(12, 3)
theta = np.linspace(0.3, 2.9, circuit.num_parameters)
program = qd.compile(circuit, comm=comm, device="cpu")
comm.barrier()
state = program.run(theta)
sent = comm.all_gather_object(state.traffic.bytes_sent)
if comm.rank == 2:
    time.sleep(0.4)
total = comm.all_reduce(np.ones(3), out=np.zeros(3))
if comm.rank == 1:
    time.sleep(0.3)
if comm.rank in (1, 3):
    comm.sendrecv(total, 4 - comm.rank, np.empty(3), 4 - comm.rank)
if comm.rank == 0:
    plan = program.plan
    told = {"bytes_moved": plan.bytes_moved, "flops": plan.flops, "sweeps": plan.sweeps, "exchanges": plan.exchanges}
    told |= {"bytes_sent": 4 * plan.bytes_sent, "sent": sum(sent)}
    Path(sys.argv[1]).write_text(json.dumps(told))
sys.exit(0)
