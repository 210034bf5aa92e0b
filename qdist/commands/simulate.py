"""`qdist simulate`: runs an OpenQASM file, here or on ranks, and prints or writes what was asked for."""

from __future__ import annotations

import argparse
import json
import shutil
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qdist.circuit import Circuit, PauliSum
from qdist.comm import init
from qdist.comm.bootstrap.environment import launch_of_this_process
from qdist.comm.launch import spawn
from qdist.commands.checks import check_can_be_written, check_ranks, program_in
from qdist.commands.given_values import observable, with_values
from qdist.histogram import amplitude_table, histogram, largest_amplitudes
from qdist.options import whole
from qdist.program.program import Program
from qdist.progress import is_shown
from qdist.state.measuring.expectation import as_pauli_sum
from qdist.terminal import stdout_writes
from qdist.threads import set_num_threads

__all__ = ["add_simulate_command"]

_DEFAULT_SHOTS = 1000
_TOP = 20
_FORMATS = (".json", ".npy")

_EXAMPLES = """\
examples:
  qdist simulate bell.qasm --shots 1000 --seed 7
  qdist simulate ansatz.qasm --param theta=pi/3 --param phi=0.1,0.2,0.3 --state
  qdist simulate ansatz.qasm --param phi=@angles.npy --observable "Z0 Z1 + 0.5*X0" --observable Z2
  qdist simulate large.qasm --ranks 4 --device cpu --state --output state.npy
  mpirun -n 4 qdist simulate large.qasm --json

With --output FILE.npy, numpy.load gives the amplitudes (--state), the values, with standard errors as a second row
where --shots is given (--observable), or a structured array with the fields outcome and count."""


class Result(NamedTuple):
    """What a run gave: an object for JSON, text for the terminal, and an array for a file."""

    numbers: dict[str, Any]
    text: str
    array: NDArray[Any] | None


def add_simulate_command(commands: Any) -> None:
    """Adds `simulate` to the subparsers of the command line."""
    simulate = commands.add_parser(
        "simulate",
        help="run an OpenQASM file and print outcomes, amplitudes or expectation values",
        description="Runs an OpenQASM 2 or 3 program and prints how often each outcome came: of the classical bits, or "
        "of all qubits where the program measures nothing. A bit string has the highest bit first. Or prints "
        "amplitudes, or expectation values.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    simulate.add_argument("file", help="the OpenQASM program; - for stdin")
    simulate.add_argument(
        "--param",
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="value of an input parameter, a number or an expression as in OpenQASM (pi/2); of a vector a list "
        "(0.1,0.2) or a file (@angles.npy, @angles.json); may be repeated",
    )
    what = simulate.add_mutually_exclusive_group()
    what.add_argument("--state", action="store_true", help="print the largest amplitudes instead of sampling")
    what.add_argument(
        "--observable",
        action="append",
        default=[],
        metavar="SUM",
        help='print the expectation value of a sum of Pauli strings ("0.5*Z0 Z1 - X2", or @FILE with a term a line) '
        "instead of sampling: exact, or from --shots; may be repeated",
    )
    simulate.add_argument(
        "--shots", type=whole(1), metavar="N", help=f"runs to count (default {_DEFAULT_SHOTS}), or to estimate from"
    )
    simulate.add_argument("--seed", type=whole(0), metavar="S", help="makes the outcomes the same every time")
    simulate.add_argument("--device", default="auto", metavar="DEVICE", help="cpu, cuda, cuda:N or auto (default auto)")
    simulate.add_argument("--ranks", type=whole(1), metavar="N", help="split the state over N processes, started here")
    simulate.add_argument("--dtype", choices=("complex64", "complex128"), default="complex64", help="(complex64)")
    simulate.add_argument("--threads", type=whole(1), metavar="N", help="threads (default: all cores)")
    simulate.add_argument("--top", type=whole(1), metavar="N", help=f"outcomes to show (default {_TOP})")
    simulate.add_argument("--plan", action="store_true", help="print also how the circuit is run")
    simulate.add_argument("--json", action="store_true", help="print one JSON object, with all outcomes")
    simulate.add_argument("--output", "-o", metavar="FILE", help="write the result too, by its name as .json or .npy")
    simulate.add_argument("--progress", action="store_true", help="show progress even if stderr is not a terminal")
    simulate.set_defaults(command=_simulate)


def _simulate(options: argparse.Namespace) -> int:
    _check_output(options.output)
    _check_all_used(options)
    circuit = with_values(program_in(options.file), options.param)
    observables = [observable(text) for text in options.observable]
    launch = launch_of_this_process()
    if launch is not None and launch.size > 1:
        if options.ranks not in (None, launch.size):
            raise ValueError(f"--ranks {options.ranks}: {launch.by} started {launch.size} ranks; leave it out")
        result = _on_this_rank(circuit, observables, options)
    elif (options.ranks or 1) > 1:
        # What one process can tell: as many ranks would each say it, with a traceback.
        check_ranks(circuit.num_qubits, options.ranks)
        for asked in observables:
            as_pauli_sum(asked, circuit.num_qubits)
        options.progress = is_shown(wanted=options.progress or None)
        plain = argparse.Namespace(**{name: value for name, value in vars(options).items() if name != "command"})
        result = spawn(_on_this_rank, options.ranks, (circuit, observables, plain))[0]
    else:
        result = _computed(Program(circuit, device=options.device, dtype=options.dtype), observables, options)
    if result is not None:
        _deliver(result, circuit, options)
    return 0


def _on_this_rank(circuit: Circuit, observables: list[PauliSum], options: argparse.Namespace) -> Result | None:
    """As one of several ranks, of which the first has the result."""
    comm = init()
    program = Program(circuit, comm=comm, device=options.device, dtype=options.dtype)
    return _computed(program, observables, options)


def _computed(program: Program, observables: list[PauliSum], options: argparse.Namespace) -> Result | None:
    if options.threads:
        set_num_threads(options.threads)
    if program.is_random and (options.state or (observables and options.shots is None)):
        option, way_out = ("--state", "count shots") if options.state else ("--observable", "estimate it with --shots")
        raise ValueError(
            f"{option}: the circuit measures before its end, or resets qubits in use, so its state is random; {way_out}"
        )
    numbers: dict[str, Any] = {"file": options.file, "num_qubits": program.num_qubits, "dtype": options.dtype}
    numbers |= {"device": program.device, "ranks": 1 if program.comm is None else program.comm.size}
    started = time.perf_counter()
    if options.state:
        found = _amplitudes(program, options)
    elif observables:
        found = _values(program, observables, options)
    else:
        found = _counts(program, options)
    if found is None or (program.comm is not None and program.comm.rank != 0):
        return None
    numbers |= found.numbers | {"seconds": time.perf_counter() - started}
    if options.plan:
        numbers["plan"] = program.plan.summary()
    return Result(numbers, found.text, found.array if (options.output or "").endswith(".npy") else None)


def _amplitudes(program: Program, options: argparse.Namespace) -> Result | None:
    state = program.run(progress=options.progress or None).gather()
    if state is None:
        return None
    pairs = largest_amplitudes(state, options.top or _TOP)
    listed = [{"state": bits, "real": float(a.real), "imag": float(a.imag)} for bits, a in pairs]
    return Result({"amplitudes": listed}, amplitude_table(pairs), state)


def _values(program: Program, observables: list[PauliSum], options: argparse.Namespace) -> Result:
    shots = options.shots
    found = program.expectations(observables, shots=shots, seed=options.seed, progress=options.progress or None)
    errors = None if shots is None else found.standard_error  # type: ignore[attr-defined]
    numbers: dict[str, Any] = {"observables": options.observable, "values": [float(value) for value in found]}
    if errors is not None:
        numbers |= {"standard_errors": errors.tolist(), "shots": shots, "seed": options.seed}
    width = max(map(len, options.observable))
    lines = [
        f"{text:<{width}}  {value:+.8g}" + ("" if errors is None else f" +- {errors[k]:.2g}")
        for k, (text, value) in enumerate(zip(options.observable, numbers["values"]))
    ]
    array = np.asarray(found) if errors is None else np.stack([np.asarray(found), errors])
    return Result(numbers, "\n".join(lines), array)


def _counts(program: Program, options: argparse.Namespace) -> Result:
    shots = options.shots or _DEFAULT_SHOTS
    counts = program.counts(shots, seed=options.seed, progress=options.progress or None)
    columns = shutil.get_terminal_size().columns
    text = histogram(counts, top=options.top or _TOP, width=columns, ascii_only=not stdout_writes("▏█"))
    longest = max(map(len, counts), default=1)
    array = np.array(list(counts.items()), [("outcome", f"U{longest}"), ("count", np.int64)])
    return Result({"shots": shots, "seed": options.seed, "counts": counts}, text, array)


def _check_all_used(options: argparse.Namespace) -> None:
    """Raises ValueError for an option that what is asked for has no use for."""
    if options.state and options.shots is not None:
        raise ValueError(f"--shots {options.shots}: --state prints amplitudes, which are exact; give one of the two")
    if options.state and options.seed is not None:
        raise ValueError(f"--seed {options.seed}: --state prints amplitudes, for which nothing is drawn; leave it out")
    if options.observable and options.shots is None and options.seed is not None:
        raise ValueError(f"--seed {options.seed}: without --shots the values are exact and nothing is drawn")
    if options.observable and options.top is not None:
        raise ValueError(f"--top {options.top}: --observable prints all of its values; leave it out")
    if options.json and not options.state and options.top is not None:
        raise ValueError(f"--top {options.top}: --json prints all outcomes; leave it out")


def _check_output(name: str | None) -> None:
    """Raises ValueError before anything is computed for a file that cannot be written."""
    if name is None:
        return
    path = Path(name)
    if path.suffix not in _FORMATS:
        raise ValueError(f"--output {name}: a name that ends in {' or '.join(_FORMATS)}")
    check_can_be_written(name)


def _deliver(result: Result, circuit: Circuit, options: argparse.Namespace) -> None:
    numbers, text, array = result
    if array is not None:
        np.save(options.output, array)
    elif options.output:
        Path(options.output).write_text(json.dumps(numbers) + "\n")
    if options.json:
        print(json.dumps(numbers))
        return
    shots = _counted(numbers["shots"], "shot") if "shots" in numbers else "expectation values"
    ranks = f" on {numbers['ranks']} ranks" if numbers["ranks"] > 1 else ""
    size = f"{_counted(circuit.num_qubits, 'qubit')}, {_counted(circuit.size, 'operation')}"
    print(f"{size}, {'state' if options.state else shots} in {numbers['seconds']:.3g} s{ranks}")
    print(*([numbers["plan"]] if options.plan else []), text, sep="\n")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"
