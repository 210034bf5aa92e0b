"""Names of vectors of input parameters: `theta[2]` is the input `_theta_2_`, as Qiskit writes it.

OpenQASM 3 has arrays of inputs, but few readers know them. So a vector is written as one input for each element, and
a run of inputs with such names, from 0 on, is read as the vector.
"""

from __future__ import annotations

import re

ELEMENT = re.compile(r"_(?P<vector>\w+)_(?P<index>0|[1-9][0-9]{0,6})_")


def element_name(vector: str, index: int) -> str:
    """The input that stands for an element of a vector."""
    return f"_{vector}_{index}_"


def vector_length(text: str, start: int, vector: str) -> int:
    """How many elements of a vector are declared in a row, where `text[start:]` comes behind that of element 0."""
    count = 1
    while found := _DECLARATION.match(text, start):
        if found["name"] != element_name(vector, count):
            break
        count += 1
        start = found.end()
    return count


_DECLARATION = re.compile(r"\s*+input\s++float(?:\s*+\[\s*+64\s*+\])?+\s*+(?P<name>\w++)\s*+;")
