"""Recurrent layers: LSTM and GRU over (batch, sequence, features)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..tensor import Tensor, functional, stack
from ..tensor.arrays import as_dtype
from . import init
from .layers import Dropout
from .module import Module, ModuleList, Parameter

__all__ = ["GRU", "LSTM"]


class _Cell(Module):
    """Weights of one layer: to `gates` blocks of hidden units, from the input and from the state before."""

    weight_ih: Parameter
    weight_hh: Parameter
    bias_ih: Parameter
    bias_hh: Parameter

    def __init__(self, inputs: int, hidden: int, gates: int, dtype: Any) -> None:
        super().__init__()
        shapes = {"weight_ih": (inputs,), "weight_hh": (hidden,), "bias_ih": (), "bias_hh": ()}
        for name, shape in shapes.items():
            parameter = Parameter(np.empty((gates * hidden, *shape), as_dtype(dtype)))
            init.uniform_(parameter, -1 / math.sqrt(hidden), 1 / math.sqrt(hidden))
            setattr(self, name, parameter)


class _Recurrent(Module):
    gates: int

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, dropout: float = 0.0, dtype: Any = np.float32
    ) -> None:
        super().__init__()
        if min(input_size, hidden_size, num_layers) < 1:
            raise ValueError(f"{type(self).__name__}: sizes {input_size}, {hidden_size}, {num_layers} must be positive")
        self.input_size, self.hidden_size = input_size, hidden_size
        sizes = [input_size] + [hidden_size] * (num_layers - 1)
        self.cells = ModuleList(_Cell(size, hidden_size, self.gates, dtype) for size in sizes)
        self.dropout = Dropout(dropout)

    def _run(self, x: Tensor, states: list[Any]) -> tuple[Tensor, list[Any]]:
        if x.ndim != 3 or x.shape[-1] != self.input_size or x.shape[1] == 0:
            name = type(self).__name__
            raise ValueError(
                f"{name} takes (batch, sequence, {self.input_size}), with at least one position, got shape {x.shape}"
            )
        after = []
        cell: Any
        for number, (cell, state) in enumerate(zip(self.cells, states)):
            x = self.dropout(x) if number else x
            # The inputs of all positions at once; what depends on the position before, one after the other.
            given = functional.linear(x, cell.weight_ih, cell.bias_ih)
            outputs = []
            for t in range(x.shape[1]):
                state = self._step(given[:, t], state, cell)
                outputs.append(state[0] if isinstance(state, tuple) else state)
            x = stack(outputs, axis=1)
            after.append(state)
        return x, after

    def _step(self, given: Tensor, state: Any, cell: Any) -> Any:
        raise NotImplementedError

    def _check_states(self, x: Tensor, *states: Tensor) -> None:
        expected = len(self.cells), len(x), self.hidden_size
        for state in states:
            if state.shape != expected:
                raise ValueError(
                    f"{type(self).__name__} takes states (layers, batch, hidden), here {expected}, got {state.shape}"
                )

    def _zeros(self, x: Tensor) -> Tensor:
        values = np.zeros((len(self.cells), x.shape[0], self.hidden_size), x.dtype)
        return Tensor(values, device=x.device)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}, num_layers={len(self.cells)}"


class LSTM(_Recurrent):
    """Long short-term memory (Hochreiter and Schmidhuber 1997), gates in the order input, forget, cell, output.

    Args:
        input_size, hidden_size: features of x and of the state.
        num_layers: one on the other.
        dropout: between layers, while training.

    Weights of layer l are `cells.l.weight_ih` (4 hidden, inputs), `weight_hh`, `bias_ih` and `bias_hh`.
    """

    gates = 4

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """x (batch, sequence, inputs), and hidden and cell states (layers, batch, hidden), zeros when not given, to the
        last layer's states at all positions, and both states at the last."""
        h, c = (self._zeros(x), self._zeros(x)) if state is None else state
        self._check_states(x, h, c)
        y, after = self._run(x, [(h[i], c[i]) for i in range(len(self.cells))])
        return y, (stack([s[0] for s in after]), stack([s[1] for s in after]))

    def _step(self, given: Tensor, state: tuple[Tensor, Tensor], cell: Any) -> tuple[Tensor, Tensor]:
        h, c = state
        i, f, g, o = (given + functional.linear(h, cell.weight_hh, cell.bias_hh)).split(self.hidden_size, axis=1)
        c = functional.sigmoid(f) * c + functional.sigmoid(i) * g.tanh()
        return functional.sigmoid(o) * c.tanh(), c


class GRU(_Recurrent):
    """Gated recurrent unit (Cho et al., arXiv 1406.1078), gates in the order reset, update, new; else as LSTM."""

    gates = 3

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x (batch, sequence, inputs), and states (layers, batch, hidden), zeros when not given, to the last layer's
        states at all positions, and the states at the last."""
        h = self._zeros(x) if state is None else state
        self._check_states(x, h)
        y, after = self._run(x, [h[i] for i in range(len(self.cells))])
        return y, stack(after)

    def _step(self, given: Tensor, state: Tensor, cell: Any) -> Tensor:
        r, z, n = given.split(self.hidden_size, axis=1)
        rh, zh, nh = functional.linear(state, cell.weight_hh, cell.bias_hh).split(self.hidden_size, axis=1)
        update = functional.sigmoid(z + zh)
        new = (n + functional.sigmoid(r + rh) * nh).tanh()
        return (1 - update) * new + update * state
