"""How a layer's circuit takes its parameters: which are features of x, which are weights, what follows from both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from qdist.circuit import Circuit, CircuitError, ParameterVector
from qdist.circuit import Parameter as Symbol
from qdist.circuit.binding import named_symbol

__all__ = ["Division", "Symbols", "flat"]

Symbols: TypeAlias = Symbol | ParameterVector | str | Iterable[Symbol | ParameterVector | str]


class Division:
    """The places of features and weights in what executors bind: the circuit's parameters, then its functions of them.

    Elements of a vector that the circuit does not use are features and weights without a place. Raises CircuitError
    where a parameter is in neither or in both of ``inputs`` and ``weights``, or not in the circuit.
    """

    def __init__(self, circuit: Circuit, inputs: Sequence[Symbol], weights: Sequence[Symbol]) -> None:
        self.in_features, self.num_weights = len(inputs), len(weights)
        self._count = circuit.num_parameters
        self._functions = circuit.functions
        columns = _columns(circuit, inputs=inputs, weights=weights)
        (self._features, self._input_columns), (self._places, self._weight_columns) = columns
        own = set(self._input_columns.tolist())
        functions: Sequence[Symbol] = ()
        if self._functions is not None:
            given = [circuit.parameters[k] for k in own]
            functions = self._functions.symbols
            own |= {self._count + k for k, f in enumerate(functions) if not set(f.parameters).isdisjoint(given)}
        self.row_columns = [*self._input_columns.tolist(), *sorted(own - set(self._input_columns.tolist()))]
        """The columns that differ from row to row; the first are the features, in their order."""
        self.shared_columns = self._weight_columns.tolist()
        """Those that all rows share: the weights in their order, or, beside functions, in the order of columns."""
        if self._functions is not None:
            self.shared_columns = [k for k in range(self._count + len(functions)) if k not in own]
        self._there: dict[str, Any] = {}

    def parameters(self, xp: Any, x: Any, weights: Any) -> Any:
        """Values of the circuit's parameters for every row of x: float64, (batch, parameters)."""
        theta = xp.zeros((len(x), self._count))
        theta[:, self._on(xp, "_input_columns")] = x[:, self._on(xp, "_features")]
        if weights is not None:
            # Those of all rows, or of each.
            theta[:, self._on(xp, "_weight_columns")] = weights[..., self._on(xp, "_places")]
        return theta

    def gradients(self, gradient: Any) -> tuple[Any, Any]:
        """By the features of every row, and by the weights, summed over rows in double precision; given those by the
        parameters of every row."""
        by_x = np.zeros((len(gradient), self.in_features))
        by_x[:, self._features] = gradient[:, self._input_columns]
        by_weights = np.zeros(self.num_weights)
        by_weights[self._places] = gradient[:, self._weight_columns].sum(axis=0)
        return by_x, by_weights

    def gradients_of_each(self, gradient: Any) -> tuple[Any, Any]:
        """The same where every row has weights of its own: both with the batch in front."""
        by_x, _ = self.gradients(gradient)
        by_weights = np.zeros((len(gradient), self.num_weights))
        by_weights[:, self._places] = gradient[:, self._weight_columns]
        return by_x, by_weights

    def of_rows(self, xp: Any, x: Any, weights: Any) -> tuple[Any, Any]:
        """What a row program with ``row_columns`` and ``shared_columns`` takes: the rows, and what they share; a copy,
        as callers may change what they gave before a backward run, but on a GPU where all of both is taken."""
        if self._functions is None:
            if xp is not np and self.is_whole:
                return x, xp.zeros(0) if weights is None else weights
            all_features, all_weights = len(self._features) == self.in_features, len(self._places) == self.num_weights
            used = x.copy() if all_features else xp.ascontiguousarray(x[:, self._on(xp, "_features")])
            shared = xp.zeros(0) if weights is None else weights
            return used, shared.copy() if all_weights else shared[self._on(xp, "_places")]
        theta = self.parameters(xp, x, weights)
        bound = self._functions.extended(theta, xp)
        alone = bound[:1] if len(x) else self._functions.extended(self._weights_alone(xp, weights), xp, check=False)
        rows = xp.ascontiguousarray(bound[:, self._on(xp, "row_columns")])
        return rows, alone[0, self._on(xp, "shared_columns")].copy()

    def gradients_of_rows(self, xp: Any, x: Any, weights: Any, by_rows: Any, by_shared: Any) -> tuple[Any, Any]:
        """By x and by the weights, given those by what ``of_rows`` gave; None stays None."""
        if self._functions is None:
            by_weights = by_shared
            if by_shared is not None and len(self._places) < self.num_weights:
                by_weights = xp.zeros(self.num_weights)
                by_weights[self._on(xp, "_places")] = by_shared
            if by_rows is not None and len(self._features) < self.in_features:
                wide = xp.zeros((len(by_rows), self.in_features))
                wide[:, self._on(xp, "_features")] = by_rows
                by_rows = wide
            return by_rows, by_weights
        width = len(self.row_columns) + len(self.shared_columns)
        gradient = xp.zeros((len(x), width))
        gradient[:, self._on(xp, "row_columns")] = by_rows
        each = self._functions.pulled_back(self.parameters(xp, x, weights), gradient, xp)
        by_x = xp.zeros((len(x), self.in_features))
        by_x[:, self._on(xp, "_features")] = each[:, self._on(xp, "_input_columns")]
        together = xp.zeros((1, width))
        together[:, self._on(xp, "shared_columns")] = by_shared
        once = self._functions.pulled_back(self._weights_alone(xp, weights), together, xp)[0]
        total = each.sum(axis=0) + once
        by_weights = xp.zeros(self.num_weights)
        by_weights[self._on(xp, "_places")] = total[self._on(xp, "_weight_columns")]
        return by_x, by_weights

    @cached_property
    def is_plain(self) -> bool:
        """Whether the features are the circuit's parameters, in their order, and there are no weights."""
        everything = np.arange(self._count)
        own = self._features, self._input_columns
        return not self.num_weights and all(np.array_equal(part, everything) for part in own)

    @cached_property
    def is_whole(self) -> bool:
        """Whether all features and all weights are parameters of the circuit, and nothing follows from them."""
        used = len(self._features) == self.in_features and len(self._places) == self.num_weights
        return used and self._functions is None

    @property
    def has_functions(self) -> bool:
        """Whether gradients by x and by the weights follow from each other's."""
        return self._functions is not None

    def _weights_alone(self, xp: Any, weights: Any) -> Any:
        return self.parameters(xp, xp.zeros((1, self.in_features)), weights)

    def _on(self, xp: Any, name: str) -> Any:
        """An array of places beside x: copied to a GPU once."""
        if xp is np:
            return getattr(self, name)
        if name not in self._there:
            self._there[name] = xp.asarray(getattr(self, name), dtype=np.intp)
        return self._there[name]


def flat(circuit: Circuit, symbols: Symbols) -> list[Symbol]:
    """Parameters and vectors, themselves or by their names, as a list of parameters."""
    if isinstance(symbols, Symbol | str):
        symbols = [symbols]
    found: list[Symbol] = []
    for item in [symbols] if isinstance(symbols, ParameterVector) else symbols:
        known = named_symbol(circuit.parameters, item) if isinstance(item, str) else item
        if not isinstance(known, Symbol | ParameterVector):
            raise TypeError(
                f"inputs and weights are Parameters and ParameterVectors of the circuit, or their names, not {item!r}"
            )
        found += [known] if isinstance(known, Symbol) else known
    return found


def _columns(circuit: Circuit, **parts: Sequence[Symbol]) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each part: which of its symbols the circuit has, and their places in ``circuit.parameters``. Together the
    parts are all of those, each once."""
    place = {symbol: k for k, symbol in enumerate(circuit.parameters)}
    vectors = {getattr(symbol, "vector", None) for symbol in place} - {None}
    owner: dict[Symbol, str] = {}
    for part, symbols in parts.items():
        for symbol in symbols:
            if symbol not in place and getattr(symbol, "vector", None) not in vectors:
                raise CircuitError(f"{part}: the circuit has no parameter {symbol.name}")
            if symbol in owner:
                where = f"twice in {part}" if owner[symbol] == part else f"in {owner[symbol]} and in {part}"
                raise CircuitError(f"parameter {symbol.name} is {where}; it can be in one place only")
            owner[symbol] = part
    missing = [symbol.name for symbol in place if symbol not in owner]
    if missing:
        shown = ", ".join(missing[:6]) + (f" and {len(missing) - 6} more" if len(missing) > 6 else "")
        raise CircuitError(f"the circuit's parameters {shown} are neither in inputs nor in weights")
    found = []
    for symbols in parts.values():
        used = [k for k, symbol in enumerate(symbols) if symbol in place]
        found.append((np.array(used, np.intp), np.array([place[symbols[k]] for k in used], np.intp)))
    return found
