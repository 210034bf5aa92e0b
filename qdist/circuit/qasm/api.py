"""The functions that users call."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from ..circuit import Circuit
from .errors import QasmError, Source
from .reader import Reader
from .writer import Writer
from .writer2 import Writer2
from .writer3 import Writer3


def loads(text: str) -> Circuit:
    """The circuit that an OpenQASM program describes; the program says whether it is version 2 or 3.

    Qubits and classical bits are numbered in the order of their declarations. Gates that the program defines
    are expanded, except those that are a gate of the table under the same name. Input parameters become
    Parameters. Global phases are those of the specification: where they differ from the table's (OpenQASM 3's
    U is e^{i theta/2} times the table's u), the circuit ends with one gphase for the difference.

    Raises QasmError, with line and column, for a program that is wrong or that uses what is not supported.
    """
    return Reader(Source(text), None).read()


def load(path: str | PathLike[str]) -> Circuit:
    """The circuit in an OpenQASM file (UTF-8), which may include other files of its own folder and below.

    Raises QasmError as `loads` does, and OSError for a file that cannot be opened.
    """
    file = Path(path).resolve()
    data = file.read_bytes()
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
    program; where a name is taken (`x` is a gate), an underscore is appended.

    Raises QasmError for what the version cannot say, and names the way out.
    """
    writers: dict[int, type[Writer]] = {2: Writer2, 3: Writer3}
    if version not in writers:
        raise QasmError(f"OpenQASM is written in version 2 or 3; got version {version!r}")
    return writers[version](circuit).write()
