"""Circuits as functions for other frameworks: found again by a handle, for every precision and device.

Operators of a framework take arrays, numbers and strings; the handle is the string by which they find the circuit. It
names one object of one process, so that what a framework has compiled and stored never meets another circuit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from qdist.circuit import Circuit, lowered
from qdist.circuit.binding import resolve_values
from qdist.comm import Communicator
from qdist.nn.quantum_map import CircuitMap
from qdist.nn.quantum_outputs import Columns
from qdist.nn.quantum_parameters import Division, flat
from qdist.program import adjoint
from qdist.program.program import Program, compile
from qdist.state.outputs import Output, Overlap, as_output

__all__ = ["CircuitMaps", "found", "of_program"]

_AMPLITUDES = {np.dtype(np.float32): "complex64", np.dtype(np.float64): "complex128"}


class CircuitMaps:
    """A circuit of features and weights: a CircuitMap for every precision and device that is asked for.

    circuit, observables, inputs, weights, frozen: as for ``nn.QuantumLayer``. comm: the ranks that share amplitudes,
    who all ask for the same precisions and devices in the same order. Never changed.
    """

    def __init__(
        self,
        circuit: Circuit,
        observables: Any,
        inputs: Any = (),
        weights: Any = (),
        comm: Communicator | None = None,
        frozen: Mapping[Any, Any] | None = None,
    ) -> None:
        chosen = flat(circuit, inputs), flat(circuit, weights)
        if frozen:
            fixed = resolve_values(circuit.parameters, frozen, partial=True)
            circuit = circuit.bind(frozen, partial=True)
            chosen = chosen[0], [symbol for symbol in chosen[1] if symbol not in fixed]
        self.circuit, self.comm = lowered(circuit).frozen(), comm
        self._chosen = chosen
        self.division = Division(self.circuit, *chosen)
        n = self.circuit.num_qubits
        given = observables if isinstance(observables, list | tuple) else [observables]
        if not given:
            raise ValueError("a circuit needs at least one observable to be a function")
        self.outputs: list[Output] = [as_output(o, n).frozen(n) for o in given]
        self.width = Columns(self.outputs, n).width
        self._maps: dict[tuple[str, np.dtype[Any]], _Remembering] = {}
        self.handle = uuid4().hex
        _known[self.handle] = self

    def __reduce__(self) -> tuple[Any, ...]:
        if self.comm is not None and self.comm.size > 1:
            raise TypeError(
                f"a circuit over {self.comm.size} ranks cannot be pickled: save its state_dict, and make it there"
            )
        return CircuitMaps, (self.circuit, self.outputs, *self._chosen)

    def __deepcopy__(self, memo: Any) -> CircuitMaps:
        return self

    def of(self, device: str, dtype: np.dtype[Any]) -> _Remembering:
        """For features and weights of this real dtype on this device. Raises StateError for what cannot be
        differentiated, TypeError for other dtypes."""
        key = device, np.dtype(dtype)
        made = self._maps.get(key)
        if made is None:
            if key[1] not in _AMPLITUDES:
                raise TypeError(f"angles are float32 or float64, for complex64 or complex128 states; got {key[1]}")
            amplitudes = _AMPLITUDES[key[1]]
            program = compile(self.circuit, comm=self.comm, device=device, dtype=amplitudes)
            adjoint.check_differentiable(program)
            outputs = [_in_dtype(o, program) for o in self.outputs]
            made = self._maps[key] = _Remembering(CircuitMap(program, outputs, self.division))
        return made


class _Remembering:
    """A CircuitMap whose backward finds the states of the last forward, if that had the same values."""

    def __init__(self, circuit_map: CircuitMap) -> None:
        self.map = circuit_map
        self._last: deque[Any] = deque(maxlen=1)

    def module(self, xp: Any, x: Any, weights: Any) -> Any:
        """Whose arrays are best given: those of a GPU, xp, only where kernels read them there."""
        return xp if xp is np or (weights.ndim < 2 and self.map.takes_rows(x.shape[0])) else np

    def forward(self, xp: Any, x: Any, weights: Any) -> Any:
        """(batch, numbers) for (batch, features) and weights, of all rows or of each, in x's dtype."""
        self._last.clear()
        found, saved = self.forward_saved(xp, x, weights)
        if saved is not None:
            # x and weights may be memory that a framework lends for this call.
            self._last.append(saved if len(saved) == 2 else saved[-1:])
        return found

    @property
    def is_number(self) -> bool:
        """See ``CircuitMap.is_number``."""
        return self.map.is_number

    @property
    def reads_there(self) -> bool:
        """See ``CircuitMap.reads_there``."""
        return self.map.reads_there

    def number(self, params: NDArray[Any]) -> tuple[float, NDArray[np.float64]]:
        """See ``CircuitMap.number``."""
        return self.map.number(params)

    def number_there(self, xp: Any, params: Any) -> tuple[Any, Any]:
        """See ``CircuitMap.number_there``."""
        return self.map.number_there(xp, params)

    def queued_number(self, params: NDArray[Any]) -> tuple[Any, Any] | None:
        """See ``CircuitMap.queued_number``; in the dtype of params."""
        return self.map.queued_number(params, params.dtype)

    def forward_saved(self, xp: Any, x: Any, weights: Any, differentiated: bool = False) -> tuple[Any, Any]:
        """As ``forward``, and what ``backward`` takes of it, as long as x and weights do not change; differentiated:
        whether it will be called."""
        if weights is not None and weights.ndim == 2:
            return xp.asarray(self.map.forward_each(_host(x), _host(weights)).astype(x.dtype)), None
        return self.map.forward(xp, x, weights, differentiated)

    def backward(self, xp: Any, x: Any, weights: Any, g: Any, needs: Sequence[bool], saved: Any = None) -> list[Any]:
        """The derivatives by x and by the weights, in g's dtype; None where they are not needed. saved: of
        ``forward_saved``, with which x and weights are not read."""
        if weights is not None and weights.ndim == 2:
            both: Sequence[Any] = self.map.backward_each(_host(x), _host(weights), _host(g))
        else:
            both = self.map.backward(xp, g, saved or self._saved(xp, x, weights), needs)
        return [
            xp.asarray(part).astype(g.dtype, copy=False) if need and part is not None else None
            for part, need in zip(both, needs)
        ]

    def second(self, xp: Any, x: Any, weights: Any, g: Any, dx: Any, dweights: Any) -> list[Any]:
        """See ``CircuitMap.second``; in x's dtype."""
        found = self.map.second(*(_host(array) for array in (x, weights, g, dx, dweights)))
        return [xp.asarray(array.astype(x.dtype)) for array in found]

    def _saved(self, xp: Any, x: Any, weights: Any) -> Any:
        try:
            saved = self._last.pop()
        except IndexError:
            saved = None
        if saved is not None and len(saved) == 2:
            if np.array_equal(self.map.division.parameters(np, _host(x), _host(weights)), saved[0]):
                return saved
        elif saved is not None and xp is np:  # On a GPU a comparison would wait for it.
            now, ((own, *_),) = self.map.division.of_rows(xp, x, weights), saved
            if all(map(_same, now, own)):
                return *self.map.read_again(xp, x, weights), *saved
        return self.map.forward(xp, x, weights)[1]


def found(handle: str) -> CircuitMaps:
    """The circuit of a handle. Raises RuntimeError where it is gone."""
    maps = _known.get(handle)
    if maps is None:
        raise RuntimeError("the circuit of this operator is gone: keep its layer or program as long as what was traced")
    return maps


def of_program(program: Program, outputs: Sequence[Any], key: Any) -> CircuitMaps:
    """The circuit of a program as a function of all its parameters; key: what its outputs are found again by."""
    made = _of_programs.setdefault(program, {})
    if key not in made:
        made[key] = CircuitMaps(program.circuit, list(outputs), program.circuit.parameters, (), program.comm)
    return made[key]


_known: WeakValueDictionary[str, CircuitMaps] = WeakValueDictionary()
_of_programs: WeakKeyDictionary[Program, dict[Any, CircuitMaps]] = WeakKeyDictionary()


def _in_dtype(output: Output, program: Program) -> Output:
    if isinstance(output, Overlap) and output.state.dtype != program.dtype:
        return Overlap(output.state.astype(program.dtype))
    return output


def _same(a: NDArray[Any], b: NDArray[Any]) -> bool:
    """Whether the numbers are, bit by bit: of small arrays in a tenth of the time that ``np.array_equal`` takes."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def _host(array: Any) -> NDArray[Any]:
    return array.get() if hasattr(array, "get") else array
