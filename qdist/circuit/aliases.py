"""Names that other libraries have for gates, and the answer to a name that no gate has."""

from __future__ import annotations

from difflib import get_close_matches

__all__ = ["ALIASES", "hint"]

ALIASES = {
    "cnot": "cx",
    "cphase": "cp",
    "cu1": "cp",
    "fredkin": "cswap",
    "hadamard": "h",
    "i": "id",
    "mct": "mcx",
    "phase": "p",
    "toffoli": "ccx",
    "u1": "p",
    "u3": "u",
}
"""Methods of Circuit under other names, with the same arguments."""

_ELSEWHERE = {
    "gate": "append(gate, qubits, params), or a method of the gate's name",
    "global_phase_gate": "gphase(angle)",
    "isingxx": "rxx(theta, qubit1, qubit2)",
    "isingyy": "ryy(theta, qubit1, qubit2)",
    "isingzz": "rzz(theta, qubit1, qubit2)",
    "measureall": "measure_all()",
    "pauli": "pauli_rotation(theta, label, qubits), or x, y and z",
    "phaseshift": "p(lam, qubit)",
    "qft": "library.qft(num_qubits) and compose",
    "sqrtx": "sx(qubit)",
    "sqrtxdg": "sxdg(qubit)",
    "sxdag": "sxdg(qubit)",
}
"""What is called something else here and takes other arguments."""


def hint(name: str, methods: list[str]) -> str:
    """What to use in the place of a method that Circuit does not have; empty where nothing comes close."""
    plain = name.lower().replace("_gate", "")
    if plain in methods:
        return f"; it has {plain}"
    if plain in ALIASES:
        return f"; it has {ALIASES[plain]}"
    if plain in _ELSEWHERE:
        return f"; use {_ELSEWHERE[plain]}"
    close = get_close_matches(plain, [*methods, *ALIASES], 1, 0.7)
    return f"; did you mean {close[0]}?" if close else ""
