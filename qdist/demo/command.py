"""The command: runs the parts of the demonstration, and says in words what each of them shows."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
import time
from typing import Any

import numpy as np

from qdist.comm.launch import spawn
from qdist.comm.place import cores
from qdist.commands.checks import check_ranks, most_ranks
from qdist.demo.chart import chart
from qdist.demo.energy import compiled, exact_energy, train
from qdist.demo.speed import measured
from qdist.info import report
from qdist.state import StateError, StateVector
from qdist.terminal import stdout_writes

__all__ = ["add_demo_command"]

_RANKS = 4


def add_demo_command(commands: Any) -> None:
    """Adds `demo` to the subparsers of the command line."""
    demo = commands.add_parser(
        "demo",
        help="show in a minute what qdist does: a training alone and on ranks, its plan, its speed",
        description="Prints what the machine has, trains the ground energy of a ring of spins in one process and, with "
        "the state split, on ranks, shows the plan of the circuit, and how near to the machine's limit it runs.",
        epilog="Example: `qdist demo --spins 16 --ranks 8`. Ends with 1 where ranks and one process differ.",
    )
    demo.add_argument("--spins", type=int, default=12, metavar="N", help="an even number, 4 to 20 (default 12)")
    demo.add_argument("--steps", type=int, default=100, metavar="N", help="of the training (default 100)")
    demo.add_argument(
        "--ranks", type=int, metavar="N", help=f"that the state is split over (default {_RANKS}; fewer for few spins)"
    )
    demo.add_argument("--speed-qubits", type=int, default=22, metavar="N", help="of the circuit timed (default 22)")
    demo.set_defaults(command=_demo)


def _demo(options: argparse.Namespace) -> int:
    if options.spins % 2 or not 4 <= options.spins <= 20:
        raise ValueError(f"--spins {options.spins}: the exact energy is shown for an even number from 4 to 20")
    if options.ranks is None:
        options.ranks = min(_RANKS, most_ranks(options.spins))
    for name in ("steps", "ranks", "speed_qubits"):
        if getattr(options, name) < 1:
            raise ValueError(f"--{name.replace('_', '-')} {getattr(options, name)}: 1 or more")
    check_ranks(options.spins, options.ranks)
    try:
        # Two pieces of memory as large as the state are copied to see how fast that goes.
        StateVector.check_room(options.speed_qubits, device="cpu", states=3)
    except (StateError, MemoryError) as error:
        raise ValueError(f"--speed-qubits {options.speed_qubits}: {error}") from None
    _head("This machine")
    print("\n".join(line for line in report().splitlines() if line.startswith("ok")))
    same = _training(options)
    _head("How that circuit is run")
    print(compiled(options.spins).plan.summary())
    print("A sweep is one pass over the state: many gates work on a tile of it while that is in the cache.")
    _speed(options.speed_qubits)
    _next()
    return 0 if same else 1


def _training(options: argparse.Namespace) -> bool:
    """Whether ranks and one process trained alike."""
    spins, steps = options.spins, options.steps
    _head(f"A training: the ground energy of {spins} spins in a magnetic field")
    alone = train(spins, steps)
    exact = exact_energy(spins)
    columns = shutil.get_terminal_size().columns
    print(chart(alone.energies, exact, min(columns, 100), ascii_only=not stdout_writes("●┄")))
    last = alone.energies[-1]
    print(
        f"Energy {last:.6f} after {steps} step{'s' * (steps != 1)}, exact {exact:.6f}: "
        f"{abs(last / exact - 1):.1e} apart. "
        f"{alone.seconds:.2f} s for energies and gradients by all angles, by the adjoint method."
    )
    start = time.perf_counter()
    split = spawn(train, options.ranks, (spins, steps))[0]
    whole = time.perf_counter() - start
    difference = float(np.abs(np.subtract(split.energies, alone.energies)).max())
    same = difference <= 1e-8 * abs(exact)
    ranks = f"{options.ranks} rank{'s' * (options.ranks != 1)}"
    shared = f", which share {cores()} cores here" if options.ranks > cores() else ""
    print(
        f"The same on {ranks}{shared}, each with 1/{options.ranks} of the state: energies at most "
        f"{difference:.0e} apart, {split.seconds:.2f} s ({whole:.1f} s with the start of the processes)."
    )
    print(
        "A state of this size belongs on one process; ranks are for states that one cannot hold, or for batches."
        if same
        else "These should agree to rounding. Please report it, with what `qdist info` prints."
    )
    return same


def _speed(num_qubits: int) -> None:
    found = measured(num_qubits)
    _head(f"Speed: 8 layers of rotations and CX on {num_qubits} qubits, complex64")
    print(
        f"{found.gates} gates in {1e3 * found.seconds:.1f} ms, {found.sweeps} sweeps over {found.state_mib:.0f} MiB: "
        f"{found.bandwidth:.1f} GB/s of amplitudes read and written, {found.gflops:.0f} GFLOP/s."
    )
    print(
        f"Memory moves {found.copy_bandwidth:.1f} GB/s when all cores copy. A simulator that passes over the state for "
        f"every gate would take {1e3 * found.gate_by_gate:.0f} ms at that speed, "
        f"{found.gate_by_gate / found.seconds:.1f} times as long."
    )


def _next() -> None:
    _head("What next")
    if shutil.which("qdist") is None:
        activate = shlex.quote(os.path.relpath(os.path.join(sys.prefix, "bin", "activate")))
        print(f"{f'source {activate}':<54}once in a shell: finds the commands below")
    print(
        "python circuits/vqe_tfim.py --plot tfim.png           such a training, with a picture (qdist[plot])\n"
        "qdist run -n 4 circuits/mesh_training.py              states and batches split over ranks\n"
        "qdist simulate FILE.qasm --shots 1000                 any OpenQASM 2 or 3 program\n"
        "qdist plan FILE.qasm --ranks 1024 --html plan.html    how it would run on a cluster\n"
        "circuits/README.md                                    programs by task, from a first circuit to GPUs"
    )


def _head(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}", flush=True)
