"""VQNet's functional gates and its measurement: they write on a machine and read from it.

Every gate is called as rx(q_machine=machine, wires=0, params=angle, use_dagger=False). Its params hold one number an
angle, of shape () or (angles,) or (1, angles), or (batch, angles) for values of their own for every state of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ....circuit import GATES, PauliSum
from ....tensor import Tensor
from ..module import Module

if TYPE_CHECKING:
    from ..distributed.qubits_reorder import DistributeQMachine

__all__ = [
    "MeasureAll",
    "cnot",
    "cr",
    "crx",
    "cry",
    "crz",
    "cswap",
    "cy",
    "cz",
    "hadamard",
    "i",
    "iswap",
    "paulix",
    "pauliy",
    "pauliz",
    "rx",
    "rxx",
    "ry",
    "ryy",
    "rz",
    "rzx",
    "rzz",
    "s",
    "swap",
    "t",
    "toffoli",
    "u1",
    "u2",
    "u3",
]


def _gate(name: str) -> Callable[..., None]:
    gate = GATES[name]

    def write(
        q_machine: DistributeQMachine,
        wires: int | Sequence[int],
        params: Any = None,
        use_dagger: bool = False,
    ) -> None:
        q_machine.append(gate, wires, params, use_dagger)

    write.__doc__ = f"Writes the gate {gate.name} ({gate.num_qubits} wires, {gate.num_params} params) on a machine."
    return write


i, hadamard, s, t = _gate("id"), _gate("h"), _gate("s"), _gate("t")
paulix, pauliy, pauliz = _gate("x"), _gate("y"), _gate("z")
rx, ry, rz = _gate("rx"), _gate("ry"), _gate("rz")
u1, u2, u3 = _gate("p"), _gate("u2"), _gate("u")
cnot, cy, cz, cr = _gate("cx"), _gate("cy"), _gate("cz"), _gate("cp")
crx, cry, crz = _gate("crx"), _gate("cry"), _gate("crz")
rxx, ryy, rzz, rzx = _gate("rxx"), _gate("ryy"), _gate("rzz"), _gate("rzx")
swap, iswap, cswap, toffoli = _gate("swap"), _gate("iswap"), _gate("cswap"), _gate("ccx")


class MeasureAll(Module):
    """Expectation values of what was written on a machine.

    Args:
        obs: {"X1 Z2": 4.0, "Z0": 3.0}, a sum of Pauli strings, or a list of such sums.

    measure(q_machine=machine) gives a QTensor of shape (batch, 1), or (batch, sums) for a list.
    """

    def __init__(self, obs: Mapping[Any, complex] | Sequence[Mapping[Any, complex]], name: str = "") -> None:
        super().__init__()
        self.name = name
        self.observables = [PauliSum(terms) for terms in ([obs] if isinstance(obs, Mapping) else obs)]

    def forward(self, q_machine: DistributeQMachine) -> Tensor:
        return q_machine.measure(self.observables)
