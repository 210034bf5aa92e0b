"""QuantumLayer: a circuit as a torch.nn.Module."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from qdist.circuit import Circuit
from qdist.comm import Communicator
from qdist.interop.circuit_maps import CircuitMaps
from qdist.nn.quantum_parameters import Symbols

from .differentiated import run

__all__ = ["QuantumLayer"]


class QuantumLayer(torch.nn.Module):
    """Outputs of a circuit: (..., features) in, (..., outputs) out.

    Args:
        circuit: its parameters are divided between `inputs` and `weights`. It is copied.
        observables: what is read from the state, one or a list, as for ``qdist.nn.QuantumLayer``: observables,
            `Variance`, `Probabilities`, and `Overlap` and `State`, of which every number makes two outputs: the real
            parts of all, then the imaginary parts.
        inputs: the circuit's parameters that x holds: Parameters, ParameterVectors, or their names, in the order of x's
            features. weights: those that are trained, as one torch Parameter `weights`, in this order.
        comm: ranks that share the amplitudes; all give the same x. None: this process alone.
        dtype, device: of the weights. Where they are on a GPU the circuit runs there, on torch's current stream.
            float32 runs in complex64, float64 in complex128. Half precision runs in complex64; the outputs are in it
            where x and the weights are.
        initial: the weights to start from; uniform in [0, 2 pi) from torch's generator when not given.
        frozen: values of weights that are not trained, {Parameter, ParameterVector or name: value}.

    First and second derivatives are exact, also with one of them forward (torch.func.jvp, jacfwd, hessian); those of
    higher order raise RuntimeError. Works under torch.compile (fullgraph=True), torch.func's transforms,
    DistributedDataParallel and torch.save. What calls torch.func
    is not compiled: put torch.compiler.disable around it, as torch 2.13 traces no custom operator through both.
    Raises CircuitError and StateError as ``qdist.nn.QuantumLayer`` does.

    >>> x, w = ParameterVector("x", 2), ParameterVector("w", 2)
    >>> circuit = Circuit(2).rx(x[0], 0).rx(x[1], 1).cx(0, 1).ry(w[0], 0).ry(w[1], 1)
    >>> QuantumLayer(circuit, ["Z0", "Z1"], inputs=x, weights=w)(torch.rand(3, 2)).shape
    torch.Size([3, 2])
    """

    weights: Tensor

    def __init__(
        self,
        circuit: Circuit,
        observables: Any,
        inputs: Symbols = (),
        weights: Symbols = (),
        *,
        comm: Communicator | None = None,
        dtype: torch.dtype = torch.float32,
        device: Any = None,
        initial: Any = None,
        frozen: Mapping[Any, Any] | None = None,
    ) -> None:
        super().__init__()
        if dtype not in (torch.float32, torch.float64):
            raise TypeError(f"weights are torch.float32 or torch.float64; got {dtype}")
        self._maps = CircuitMaps(circuit, observables, inputs, weights, comm, frozen)
        self._handle = self._maps.handle
        count = self._maps.division.num_weights
        if initial is None:
            values = 2 * math.pi * torch.rand(count, dtype=dtype, device=device)
        else:
            values = torch.as_tensor(initial, dtype=dtype, device=device).clone()
            if values.shape != (count,):
                raise ValueError(f"the layer has {count} weights; initial has shape {tuple(values.shape)}")
        if comm is not None and comm.size > 1:
            values = torch.from_numpy(comm.broadcast(values.cpu().numpy())).to(values.device)
        self.weights = torch.nn.Parameter(values)

    @property
    def in_features(self) -> int:
        """How many features x has."""
        return self._maps.division.in_features

    @property
    def out_features(self) -> int:
        """How many outputs there are."""
        return self._maps.width

    def forward(self, x: Tensor | None = None) -> Tensor:
        """The outputs for every row of x, (..., features); without inputs those of one row: `layer()`."""
        weights = self.weights
        if x is None:
            x = weights.new_empty(1, 0)
        elif not isinstance(x, Tensor):
            raise TypeError(f"QuantumLayer takes a tensor, got {type(x).__name__}: give it torch.as_tensor(x)")
        if x.shape[-1:] != (self.in_features,):
            raise ValueError(f"QuantumLayer takes (..., {self.in_features}), got shape {tuple(x.shape)}")
        if x.dtype is weights.dtype and x.ndim == 2 and x.dtype not in _HALF:
            return run(x, weights, self._handle)
        if x.dtype.is_complex:
            raise TypeError(f"QuantumLayer takes real numbers, which are angles; got {x.dtype}")
        # Angles keep their precision, whatever the layers around compute in.
        widest = weights.dtype if x.dtype in _HALF or not x.dtype.is_floating_point else None
        widest = widest or torch.promote_types(x.dtype, weights.dtype)
        dtype = torch.float32 if widest in _HALF else widest
        # Of tensors without elements torch infers no size.
        rows = x.reshape(math.prod(x.shape[:-1]), self.in_features).to(dtype)
        found = run(rows, weights.to(dtype), self._handle)
        return found.reshape(*x.shape[:-1], found.shape[1]).to(widest)

    def extra_repr(self) -> str:
        qubits = self._maps.circuit.num_qubits
        return f"{qubits} qubits, {self.in_features} inputs, {len(self.weights)} weights, {self.out_features} outputs"

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._handle = self._maps.handle  # Another process has other handles.


_HALF = (torch.float16, torch.bfloat16)
