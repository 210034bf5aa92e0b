"""Programs for ranks on two hosts: ``on_hosts.py WHAT FOLDER``, run by test_two_hosts.py."""

import os
import socket
import sys
import time
from pathlib import Path

import numpy as np

import qdist as qd


def split_state(folder: Path) -> None:
    """A random circuit on a state over all ranks; rank 0 leaves the amplitudes."""
    comm = qd.comm.init(timeout=30)
    assert comm.num_nodes == 2, f"{comm.num_nodes} nodes"
    state = qd.simulate(random_circuit(), comm=comm, dtype="complex128")
    amplitudes = state.amplitudes()
    names = comm.all_gather_object(socket.gethostname())
    if comm.rank == 0:
        assert names == ["qdhost0", "qdhost0", "qdhost1", "qdhost1"], names
        np.save(folder / "amplitudes.npy", amplitudes)


def random_circuit(num_qubits: int = 8, seed: int = 18) -> qd.Circuit:
    """Rotations on every qubit and CNOTs between far ones, so that shards are exchanged between the hosts."""
    rng = np.random.default_rng(seed)
    circuit = qd.Circuit(num_qubits)
    for _ in range(4):
        for q in range(num_qubits):
            circuit.ry(float(rng.uniform(0, 6)), q).rz(float(rng.uniform(0, 6)), q)
        for a, b in rng.permutation(num_qubits).reshape(-1, 2).tolist():
            circuit.cx(a, b)
    return circuit


def for_ever(folder: Path) -> None:
    """Communicates until something happens; says when it has begun."""
    comm = qd.comm.init(timeout=4)
    x = np.zeros(4)
    comm.all_reduce(x)
    (folder / f"up.{comm.rank}").touch()
    while True:
        comm.all_reduce(x)
        time.sleep(0.02)


if __name__ == "__main__":
    {"split-state": split_state, "for-ever": for_ever}[sys.argv[1]](Path(sys.argv[2]))
    sys.stdout.write(f"done {os.getpid()}\n")
