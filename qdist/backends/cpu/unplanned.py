"""Circuits that run one time on few qubits: from gates to kernels in one call, without a plan.

Rewriting gates and comparing schedules saves passes over the state, but takes some ten microseconds a gate, in which a
small state has been passed over already. Here gates go to stages and blocks as they come (native/src/bind/forms.cpp):
the same search for stages, the same blocks, the same kernels.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from qdist.backends.in_tile import Factors, factors_of
from qdist.circuit import GATES, Gate
from qdist.circuit.channels import LinearGate
from qdist.circuit.instruction import Instruction
from qdist.native import kernels
from qdist.plan.fuse import KINDS, Block, block_kind
from qdist.plan.operations import Operation, as_rotation, gate_operation
from qdist.plan.precision import most_roundings_of_values
from qdist.plan.rewrites.pairs import PASSES, Pass, as_matrices, pass_of
from qdist.plan.stages.cpu_target import arithmetic_share, cpu_target
from qdist.plan.stages.target import Target

__all__ = ["MOST_QUBITS", "UnplannedGates"]

MOST_QUBITS = 26
"""Larger states are worth a plan, whatever the circuit is."""
_CORES = len(os.sched_getaffinity(0))
_SECONDS_A_BYTE = 1.2e-10
"""What a core takes for a byte of the state in a sweep, and in blocks of as much arithmetic: 0.3 to 2.8 times that on
two cores of a Xeon, for twenty families of circuits on 20 and 22 qubits, where much of the state is zero at first."""
_PLANNING, _PLANNING_A_GATE = 0.03, 4e-5
"""Seconds that planning takes there, at least."""
_WORTH = 1.5
"""How many times that a run without a plan may take: a planned one takes time too."""


class UnplannedGates:
    """Gates on qubits, by their forms, as ``kernels.add_gates`` takes them."""

    def __init__(self, target: Target, num_qubits: int) -> None:
        self._target, self._num_qubits = target, num_qubits
        (self._level,) = target.levels(num_qubits)
        self._forms: list[Any] = []
        self._qubits: list[int] = []
        self.which: list[int] = []

    @staticmethod
    def of(body: Sequence[Instruction], num_qubits: int, dtype: np.dtype[Any]) -> UnplannedGates | None:
        """None if one is no gate, or mixes more qubits than a tile has room for."""
        gates = UnplannedGates(cpu_target(dtype), num_qubits)
        numbers: dict[int, int] = {}
        for gate, qubits, _, _, condition in body:
            number = numbers.get(id(gate))
            if number is None:
                if gate.is_directive or (gate.base.is_identity and not gate.num_params and not condition):
                    continue
                form = None if condition else _form_of(gate)
                if form is None:
                    return None
                number = numbers[id(gate)] = len(gates._forms)
                gates._forms.append(form)
            elif condition:
                return None
            gates.which.append(number)
            gates._qubits += qubits
        level = gates._level
        room = num_qubits if level.close == num_qubits else level.close - level.contiguous
        return gates if all(form.num_mixed <= room for form in gates._forms) else None

    def program(self, has_parameters: bool) -> Any:
        """None where planning takes less time than is spent without."""
        dtype = self._target.dtype
        program, (stages, blocks, roundings) = self._lowered(
            kernels.Program64 if dtype == np.complex64 else kernels.Program128
        )
        most = most_roundings_of_values(self._target, self._num_qubits, has_parameters)
        in_double = dtype == np.complex64 and roundings > most
        nbytes = dtype.itemsize << self._num_qubits
        passes = (stages + arithmetic_share(nbytes) * blocks) * (2 if in_double else 1)
        if nbytes * passes * _SECONDS_A_BYTE / _CORES > _WORTH * (_PLANNING + _PLANNING_A_GATE * len(self.which)):
            return None
        return self._lowered(kernels.Program128)[0] if in_double else program

    def _lowered(self, kind: Any) -> tuple[Any, tuple[int, int, int]]:
        """A program of these gates, and its stages, its blocks, and how often they round an amplitude."""
        program = kind(self._num_qubits)
        which, qubits = np.array(self.which, np.int32), np.array(self._qubits, np.int32)
        sizes = self._level.close, self._level.contiguous, self._target.parities
        return program, kernels.add_gates(program, self._forms, which, qubits, *sizes)


_NOTHING = Operation("diagonal", 0, 0, 0)
_ROWS: dict[str, Any] = {}
"""Forms of rows of the gate table, by name."""


def _form_of(gate: Gate) -> Any:
    """None for what is no gate on amplitudes alone, or keeps no norm."""
    if GATES.get(gate.name) is not gate:
        return _new_form(gate)
    if gate.name not in _ROWS:
        _ROWS[gate.name] = _new_form(gate)
    return _ROWS[gate.name]


def _new_form(gate: Gate) -> Any:
    if not gate.is_unitary or isinstance(gate.base, LinearGate):
        return None
    # An identity with angles counts as they do; those without are left out.
    identity = gate.base.is_identity
    found = _NOTHING if identity else gate_operation(gate, range(gate.num_qubits), range(gate.num_params))
    rotation = as_rotation(found)
    own_pass, factors = pass_of(found), Factors()
    if found.all.bit_count() > 2:
        own_pass = Pass(PASSES.index("apart"))
    elif own_pass.kind != PASSES.index("apart") and (found.kind != "dense" or found.controls):
        factors = factors_of(Block("dense", list(as_matrices(found))), range(gate.num_qubits))
    matrix = [] if found.matrix is None or found.kind == "permute" else np.asarray(found.matrix).ravel().tolist()
    return kernels.GateForm(
        KINDS.index(block_kind(found)),
        found.kind == "swap",
        gate.num_qubits,
        gate.num_params,
        found.mixes,
        found.x_like,
        found.z_like,
        found.targets,
        found.controls,
        found.formula,
        found.slots,
        matrix,
        np.asarray(found.matrix).tolist() if found.kind == "permute" else [],
        [(product, constant, terms) for product, (constant, terms) in found.terms],
        [(conditions, constant, terms) for conditions, (constant, terms) in found.wide],
        "" if rotation is None else rotation.letters,
        found.sign,
        found.gate is not None and found.gate.is_real,
        found.gate is not None and found.gate.is_pure,
        own_pass,
        factors,
    )
