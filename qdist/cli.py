"""The `qdist` command."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from qdist import __version__
from qdist.circuit import Circuit, CircuitError, qasm
from qdist.circuit.qasm.errors import QasmError
from qdist.comm.errors import CommError
from qdist.demo import add_demo_command
from qdist.histogram import amplitude_table, histogram, largest_amplitudes
from qdist.native import kernels
from qdist.plan_command import add_plan_command
from qdist.program.program import Program
from qdist.progress import Progress
from qdist.run_command import add_run_command

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        return options.command(options)
    except (CommError, OSError, MemoryError, ValueError) as error:
        print(f"qdist {options.name}: {_one_line(error)}", file=sys.stderr)
        return 2


def _one_line(error: Exception) -> str:
    """What an error says; for an OpenQASM program the file, line and column without the excerpt below them."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error).split("\n", 1)[0] if isinstance(error, QasmError) else str(error)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="qdist", description="Distributed quantum-circuit simulation and training.")
    parser.add_argument("--version", action="version", version=f"qdist {__version__}")
    commands = parser.add_subparsers(dest="name", required=True, metavar="command")

    add_demo_command(commands)
    add_run_command(commands)

    simulate = commands.add_parser(
        "simulate",
        help="run an OpenQASM file and print a histogram of what is measured",
        description="Runs an OpenQASM 2 or 3 program and prints how often each outcome came: of the classical bits, or "
        "of all qubits where the program measures nothing. A bit string has the highest bit first.",
        epilog="Examples: `qdist simulate bell.qasm --shots 1000 --seed 7`; "
        "`qdist simulate ansatz.qasm --set theta=pi/3 --state`.",
    )
    simulate.add_argument("file", help="the OpenQASM program")
    simulate.add_argument("--shots", type=_positive, default=1000, metavar="N", help="runs to count (default 1000)")
    simulate.add_argument("--seed", type=int, metavar="S", help="makes the outcomes the same every time")
    simulate.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="value of an input parameter, a number or an expression as in OpenQASM (pi/2); may be repeated",
    )
    simulate.add_argument("--dtype", choices=("complex64", "complex128"), default="complex64", help="(complex64)")
    simulate.add_argument("--threads", type=_positive, metavar="N", help="threads (default: all cores)")
    simulate.add_argument("--top", type=_positive, default=20, metavar="N", help="outcomes to show (default 20)")
    simulate.add_argument("--state", action="store_true", help="print the largest amplitudes instead of sampling")
    simulate.add_argument("--plan", action="store_true", help="print also how the circuit is run")
    simulate.add_argument("--json", action="store_true", help="print one JSON object, with all outcomes")
    simulate.add_argument("--progress", action="store_true", help="show progress even if stderr is not a terminal")
    simulate.set_defaults(command=_simulate)

    add_plan_command(commands)

    info = commands.add_parser("info", help="print what this machine has and what is missing")
    info.set_defaults(command=_info)
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return number


def _simulate(options: argparse.Namespace) -> int:
    circuit = _with_values(Circuit.from_file(options.file), options.set)
    if options.threads:
        kernels.set_threads(options.threads)
    program = Program(circuit, dtype=options.dtype)
    if options.state and program.is_random:
        raise ValueError(
            "--state: the circuit measures before its end, or resets qubits in use, so its state is random; count shots"
        )
    result: dict[str, Any] = {"file": options.file, "num_qubits": circuit.num_qubits, "dtype": options.dtype}
    started = time.perf_counter()
    if options.state:
        pairs = largest_amplitudes(_state(program, options), options.top)
        text = amplitude_table(pairs)
        result["amplitudes"] = [{"state": bits, "real": a.real, "imag": a.imag} for bits, a in pairs]
    else:
        counts = _counts(program, options)
        columns = shutil.get_terminal_size().columns
        unicode = (sys.stdout.encoding or "").lower().startswith("utf")
        text = histogram(counts, top=options.top, width=columns, ascii_only=not unicode)
        result |= {"shots": options.shots, "seed": options.seed, "counts": counts}
    result["seconds"] = time.perf_counter() - started
    if options.plan:
        result["plan"] = program.plan.summary()
    if options.json:
        print(json.dumps(result))
    else:
        work = "state" if options.state else f"{options.shots} shots"
        print(f"{circuit.num_qubits} qubits, {circuit.size} operations, {work} in {result['seconds']:.3g} s")
        print(*([result["plan"]] if options.plan else []), text, sep="\n")
    return 0


def _state(program: Program, options: argparse.Namespace) -> Any:
    return program.run(seed=options.seed, progress=options.progress or sys.stderr.isatty()).amplitudes()


def _counts(program: Program, options: argparse.Namespace) -> dict[str, int]:
    """The counts of ``program.counts``; those of circuits that are run anew for each shot come in pieces, to show
    progress."""
    shown = options.progress or sys.stderr.isatty()
    if not program.is_random:
        with Progress(f"{program.num_qubits} qubits, {program.plan.sweeps} sweeps", shown=shown):
            return program.counts(options.shots, seed=options.seed)
    counts: Counter[str] = Counter()
    rng = np.random.default_rng(options.seed)
    piece = 1
    with Progress("shots", options.shots, shown=shown) as progress:
        while progress.done < options.shots:
            piece = min(piece, options.shots - progress.done)
            started = time.perf_counter()
            counts.update(program.counts(piece, seed=rng))
            progress.advance(piece)
            # Long enough that counting in pieces costs nothing, short enough for a lively bar.
            if time.perf_counter() - started < 0.1:
                piece *= 2
    return dict(counts)


def _with_values(circuit: Circuit, settings: Sequence[str]) -> Circuit:
    """The circuit with the values of ``--set NAME=VALUE`` in the place of its input parameters."""
    by_name = {parameter.name: parameter for parameter in circuit.parameters}
    values = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise ValueError(f"--set {setting}: write it as NAME=VALUE, as in --set theta=0.3")
        if name not in by_name:
            known = ", ".join(by_name) or "none"
            raise ValueError(f"--set {setting}: the circuit has no input parameter {name!r}; it has {known}")
        values[by_name[name]] = _number(setting, text)
    missing = [name for name, parameter in by_name.items() if parameter not in values]
    if missing:
        way_out = " ".join(f"--set {name}=0.3" for name in missing[:3])
        raise ValueError(f"the circuit has input parameters without a value: {', '.join(missing)}; give {way_out}")
    return circuit.bind(values)


def _number(setting: str, text: str) -> float:
    """A number, or an expression of OpenQASM that has a value."""
    try:
        (phase,) = qasm.loads(f"OPENQASM 3.0; qubit q; gphase({text});")
        return float(phase.params[0])  # type: ignore[arg-type]
    except (CircuitError, ValueError, TypeError):
        raise ValueError(f"--set {setting}: {text!r} is not a number; write one as 0.3 or pi/2") from None


def _info(options: argparse.Namespace) -> int:
    from qdist.info import report

    print(report())
    return 0
