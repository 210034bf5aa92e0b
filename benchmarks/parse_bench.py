"""How fast OpenQASM is read, beside other readers, on the same generated program and in the same run.

    python benchmarks/parse_bench.py              # 1 MB of OpenQASM 2, beside qiskit.qasm2 (written in Rust)
    python benchmarks/parse_bench.py --version 3  # OpenQASM 3; --openqasm3 adds the reference parser, slowly

Each reader makes its own object of the text (a circuit, or for openqasm3 a syntax tree): that is what its
users wait for. Readers take turns, and the median of their times is printed.
"""

from __future__ import annotations

import argparse
import gc
import importlib.metadata
import json
import os
import platform
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from qdist.circuit import qasm
from qdist.circuit.qasm.errors import Source
from qdist.circuit.qasm.reader import Reader

ANGLES = ("pi/2", "-pi/4", "3*pi/8", "pi")


HEADERS = {
    2: 'OPENQASM 2.0;\ninclude "qelib1.inc";\nqreg q[{0}];\ncreg c[{0}];\n',
    3: 'OPENQASM 3.0;\ninclude "stdgates.inc";\nqubit[{0}] q;\nbit[{0}] c;\n',
}


def generate(size: int, num_qubits: int, version: int, seed: int) -> str:
    """A program of about `size` bytes: one- and two-qubit gates, half of the angles unlike any other."""
    rng = random.Random(seed)
    lines = [HEADERS[version].format(num_qubits)]
    written = 0
    while written < size:
        a, b = rng.sample(range(num_qubits), 2)
        angle = rng.choice((repr(rng.uniform(-3, 3)), rng.choice(ANGLES)))
        gates = (f"rz({angle}) q[{a}]", f"ry({angle}) q[{a}]", f"h q[{a}]", f"cx q[{a}],q[{b}]")
        lines.append(f"{rng.choice(gates)};\n")
        written += len(lines[-1])
    return "".join(lines) + "measure q -> c;\n"


def readers(version: int, with_openqasm3: bool) -> dict[str, Callable[[str], Any]]:
    """The readers that are installed, by name."""
    found: dict[str, Callable[[str], Any]] = {
        "qdist": qasm.loads,
        "qdist, parser only": lambda text: Reader(Source(text), None, fast=False).read(),
    }
    if version == 2:
        try:
            from qiskit import qasm2
        except ImportError:
            print("qiskit is not installed; nothing to compare with")
        else:
            found[f"qiskit.qasm2 {_version('qiskit')}"] = qasm2.loads
    if with_openqasm3:
        import openqasm3

        found[f"openqasm3 {_version('openqasm3')} (syntax tree only)"] = openqasm3.parse
    return found


def _version(package: str) -> str:
    return importlib.metadata.version(package)


def machine() -> dict[str, str]:
    """What the times were taken on."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        facts = dict(line.split(":", 1) for line in cpuinfo.read_text().splitlines() if ":" in line)
        facts = {key.strip(): value.strip() for key, value in facts.items()}
        # ARM kernels give no name, but the numbers of the implementer and the part.
        part = f"{platform.machine()} {facts.get('CPU implementer', '')} {facts.get('CPU part', '')}".strip()
        model = facts.get("model name", part)
    return {
        "cpu": f"{model} x {os.cpu_count()}",
        "python": platform.python_version(),
        "system": platform.system(),
    }


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = "(default: %(default)s)"
    parser.add_argument("--size", type=int, default=1_000_000, help=f"bytes of the program {default}")
    parser.add_argument("--qubits", type=int, default=30, help=f"qubits of the program {default}")
    parser.add_argument("--version", type=int, choices=(2, 3), default=2, help=f"of OpenQASM {default}")
    parser.add_argument("--repeats", type=int, default=5, help=f"readings by each reader {default}")
    parser.add_argument("--seed", type=int, default=0, help=f"of the random program {default}")
    parser.add_argument("--openqasm3", action="store_true", help="also time the openqasm3 package")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    chosen = parser.parse_args()
    if chosen.openqasm3 and chosen.version != 3:
        parser.error("the openqasm3 package reads version 3 only; add --version 3")
    return chosen


def main() -> None:
    chosen = options()
    text = generate(chosen.size, chosen.qubits, chosen.version, chosen.seed)
    candidates = readers(chosen.version, chosen.openqasm3)
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(chosen.repeats):
        for name, read in candidates.items():
            gc.collect()
            start = time.perf_counter()
            circuit = read(text)
            times[name].append(time.perf_counter() - start)
            del circuit

    here = machine()
    print(", ".join(f"{key}: {value}" for key, value in here.items()))
    megabytes = len(text) / 1e6
    statements = text.count(";")
    print(f"OpenQASM {chosen.version}, {megabytes:.2f} MB, {statements} statements; median of {chosen.repeats}")
    for name, values in times.items():
        median = statistics.median(values)
        spread = f"({min(values):.3f} to {max(values):.3f})"
        print(f"  {name:40} {median:7.3f} s  {spread:18} {megabytes / median:6.2f} MB/s")
    if chosen.json:
        result = {"machine": here, "bytes": len(text), "version": chosen.version, "seconds": times}
        chosen.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
