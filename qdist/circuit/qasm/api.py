"""The functions that users call."""

from __future__ import annotations

import os
from os import PathLike
from pathlib import Path

from ..channels import Channel
from ..circuit import Circuit
from ..functions import Elementary
from ..lowered import lowered
from .errors import QasmError, Source
from .reader import Reader
from .writer import Writer
from .writer2 import Writer2
from .writer3 import Writer3

# A program of ten million gates; reading it takes a minute and several GiB.
_MAX_BYTES = 1 << 28


def loads(text: str) -> Circuit:
    """The circuit that an OpenQASM program describes; the program says whether it is version 2 or 3.

    One that does not say so is read as version 2. What loops, registers and definitions expand to is limited to about
    2.5 million instructions; what the program spells out is not.

    Qubits and classical bits are numbered in the order of their declarations. Gates that the program defines
    are expanded, except those that are a gate of the table under the same name. Input parameters become
    Parameters. Global phases are those of the specification: where they differ from the table's (OpenQASM 3's
    U is e^{i theta/2} times the table's u), the circuit ends with one gphase for the difference.

    Raises QasmError, with line and column, for a program that is wrong or that uses what is not supported.
    """
    return Reader(Source(text), None).read()


def load(path: str | PathLike[str]) -> Circuit:
    """The circuit in an OpenQASM file (UTF-8), which may include other files of its own folder and below.

    Raises QasmError as `loads` does, also for a file of more than 256 MiB, and OSError for one that cannot be read.
    """
    file = Path(os.path.realpath(path))  # Path.resolve raises RuntimeError for links in a circle
    if not file.exists():
        file = Path(path)  # What links such as /dev/stdin say of a pipe is no path.
    with open(file, "rb") as stream:
        # Pipes have no size.
        size = os.fstat(stream.fileno()).st_size or _MAX_BYTES
        data = stream.read(min(size, _MAX_BYTES) + 1)
    if len(data) > _MAX_BYTES:
        raise QasmError(f"the file has more than {_MAX_BYTES >> 20} MiB", line=1, column=1, filename=str(file))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        raise QasmError(
            f"byte 0x{data[error.start]:02x} is not UTF-8 text",
            line=before.count(b"\n") + 1,
            column=error.start - before.rfind(b"\n"),
            filename=str(file),
        ) from None
    return Reader(Source(text, str(file)), file.parent).read()


def dumps(circuit: Circuit, version: int = 3) -> str:
    """A circuit as an OpenQASM program, version 2 or 3, that `loads` reads back.

    Angles are written so that they read back as the same numbers. Circuits of the table's gates, with any
    controls in version 3, read back equal; gates that carry data (unitary, diagonal, permutation, Pauli
    rotation, initialize) are written out as gates that do the same. Parameters are inputs of a version 3
    program; where a name is taken (`x` is a gate), an underscore is appended, and element 2 of a vector `theta` is the
    input `_theta_2_`, which is read back as the vector. Other readers (Qiskit's, `openqasm3`) find the same matrix.

    Raises QasmError for what the version cannot say, and names the way out.
    """
    writers: dict[int, type[Writer]] = {2: Writer2, 3: Writer3}
    if version not in writers:
        raise QasmError(f"OpenQASM is written in version 2 or 3; got version {version!r}")
    for gate, qubits, *_ in circuit:
        if isinstance(gate, Channel):
            raise QasmError(
                f"OpenQASM has no noise, and the circuit has {gate.symbol} of qubit {', '.join(map(str, qubits))}: "
                "write the circuit without channels, and add them with a noise.NoiseModel where it is read"
            )
    plain = lowered(circuit)
    functions = plain.functions
    for symbol in functions.symbols if functions is not None else ():
        if not isinstance(symbol.call[0], Elementary):
            names = ", ".join(p.name for p in symbol.parameters)
            raise QasmError(f"a gate given by its matrix depends on {names}; bind them first, circuit.bind(...)")
    if functions is not None and "tanh" in functions.names:
        raise QasmError("an angle has a tanh, which OpenQASM has not: tanh(x) is 1 - 2/(exp(2*x) + 1)")
    return writers[version](plain).write()
