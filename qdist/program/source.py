"""Source: the circuit a program is compiled from, and the options it is compiled for. Never changed."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.backends import Backend, StateError, backend_on, chosen_device
from qdist.circuit import AffineMap, Circuit, Parameter, lowered
from qdist.circuit.circuit import checked_circuit
from qdist.circuit.functions import Functions
from qdist.circuit.instruction import Instruction
from qdist.circuit.measurements import is_random, split_final_measurements, without_idle_resets
from qdist.comm import Communicator
from qdist.plan.layout import Layout
from qdist.plan.levels import Level, inside_bits
from qdist.plan.planner import check_schedule, make_plan
from qdist.program.compiled import Compiled
from qdist.progress import Progress, is_shown
from qdist.state.checking import checks, same
from qdist.state.given import checked_communicator
from qdist.state.threads import share_cores

__all__ = ["FEWEST_CLOSE", "Source"]

_log = logging.getLogger("qdist.program")

FEWEST_CLOSE = 5
"""Least index bits of a shard: it must hold a few SIMD vectors."""


@dataclass(frozen=True, slots=True)
class Source:
    """A frozen copy of a circuit, and the ranks, dtype and device it runs on."""

    circuit: Circuit
    comm: Communicator | None
    dtype: np.dtype[Any]
    backend: Backend
    levels: Sequence[Level] | None
    schedule: str
    far: int
    inside: int
    """How many far positions number the shards of one node."""
    body: list[Instruction]
    """The circuit without the measurements at its end."""
    readings: Mapping[int, int]
    """{classical bit: qubit} of the measurements at the end."""
    affine: AffineMap
    parameters: Sequence[Parameter]
    functions: Functions | None
    """Products and functions of parameters: their values follow those of the parameters in what executors bind."""

    @staticmethod
    def of(
        circuit: Circuit,
        comm: Communicator | None,
        device: str,
        dtype: Any,
        levels: Sequence[Level] | None,
        schedule: str,
    ) -> Source:
        """All ranks of ``comm`` call. Raises StateError and ValueError for what cannot be."""
        circuit = checked_circuit(circuit)
        check_schedule(schedule)
        if comm is not None:
            checked_communicator(comm)
        share_cores(comm)
        far = 0 if comm is None else (comm.size - 1).bit_length()
        if comm is not None and far and circuit.num_qubits - far < FEWEST_CLOSE:
            most = 1 << max(0, circuit.num_qubits - FEWEST_CLOSE)
            way_out = f"use at most {most} ranks, or leave comm out" if most > 1 else "leave comm out"
            raise StateError(
                f"{circuit.num_qubits} qubits on {comm.size} ranks leave each fewer than {FEWEST_CLOSE}: {way_out}"
            )
        own, kind = lowered(circuit).frozen(), checks.checked_dtype(dtype)
        same.circuit(comm, own, kind.name, schedule, str(device).partition(":")[0])
        backend = backend_on(chosen_device(device, circuit.num_qubits, kind, comm))
        _log.info("device %s (asked for: %s), %d qubits, %s", backend.device, device, circuit.num_qubits, kind)
        inside = far if comm is None else _inside_bits(comm)
        split = split_final_measurements(own.instructions)
        return Source(
            own, comm, kind, backend, levels, schedule, far, inside, *split, own.affine(), own.parameters, own.functions
        )

    @property
    def resets(self) -> bool:
        """Whether any instruction acts differently on |0...0> and on another state."""
        return any(i.gate.kind in ("reset", "initialize") for i in self.body)

    @property
    def draws(self) -> bool:
        """Whether a run needs random numbers."""
        return bool(self.readings) or self.resets or any(i.gate.kind == "measure" for i in self.body)

    def extended(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """What executors bind, for values of the parameters or for rows of them: those of ``functions`` follow."""
        return theta if self.functions is None else self.functions.extended(theta)

    def pulled_back(self, theta: NDArray[np.float64], gradient: NDArray[np.float64]) -> NDArray[np.float64]:
        """Derivatives by the parameters, given those by what executors bind; for rows, or for one set of values."""
        return gradient if self.functions is None else self.functions.pulled_back(theta, gradient)

    def compiled(self, start: Layout | None, gradients: bool = False, once: bool = False) -> Compiled:
        """Planned and lowered for |0...0>, or for a state with this layout; gradients: as precisely as they need it;
        once: to run one time."""
        body = without_idle_resets(self.body) if start is None else self.body
        with Progress(f"planning {len(body)} operations", shown=is_shown(self.comm)):
            started = perf_counter()
            plan = make_plan(
                self.circuit.with_instructions(body),
                self.dtype,
                self.levels,
                self.far,
                target=self.backend.target(self.dtype),
                inside=self.inside,
                schedule=self.schedule,
                start=start,
                gradients=gradients,
                once=once,
            )
            same.plan(self.comm, plan)
            random = is_random(body, self.circuit.num_qubits, start is None)
            made = Compiled(plan, self.affine, self.backend, random, support=0 if start is None else -1)
        if _log.isEnabledFor(logging.INFO):
            _log.info(
                "plan on %s in %.3g s: %s",
                self.backend.device,
                perf_counter() - started,
                plan.summary().splitlines()[0],
            )
        return made


def _inside_bits(comm: Communicator) -> int:
    """How many far positions number the shards of one node: all of them if there is one node."""
    nodes = [0] * comm.size if comm.num_nodes == 1 else comm.all_gather_object(comm.node)
    return inside_bits(comm.size, (rank for rank in range(1, comm.size) if nodes[rank] != nodes[rank - 1]))
