"""Optimizer: what all update rules share.

The parameters of a group are seen as one long vector for each dtype and device: the state (momenta, averages)
lives in flat buffers, gradients are gathered into one, and the update rule runs over all parameters at once,
block by block in cache. Complex parameters count as pairs of real ones; half precision is updated, and has its state,
in float32, and is rounded after. A rule is then one method on flat arrays, `_direction`; where it has a kernel that
updates a parameter in one pass over memory, `_update` calls that, and gradients need not be gathered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from ..tensor import Tensor
from ..tensor.arrays import FLOAT32, Array, is_half, module_of
from ..tensor.threads import over_rows


class _Bucket:
    """Parameters of one group, dtype and device, laid end to end."""

    def __init__(self, parameters: list[Tensor], slots: tuple[str, ...]) -> None:
        self.parameters = parameters
        first = _values(parameters[0])
        self.xp = module_of(first)
        self.sizes = [_length(p) for p in parameters]
        self.offsets = np.concatenate(([0], np.cumsum(self.sizes))).tolist()
        self.steps = [0] * len(parameters)
        self.real = real = _real(first)
        self.state = {slot: self.xp.zeros(self.offsets[-1], real) for slot in slots}

    @cached_property
    def update(self) -> Array:
        """Where gradients are gathered and become what is subtracted from parameters."""
        return self.xp.empty(self.offsets[-1], self.real)

    def resize(self) -> None:
        """Take the sizes and the precision that the parameters have now: they may be sharded, and converted, between
        the making and the first step."""
        converted = self.real != _real(_values(self.parameters[0]))
        if converted or self.sizes != [_length(p) for p in self.parameters]:
            if any(self.steps):
                what, way = ("precision", "convert") if converted else ("size", "shard")
                raise RuntimeError(
                    f"a parameter changed its {what} after the optimiser's first step; {way} parameters before it"
                )
            self.__dict__.pop("update", None)
            self.__init__(self.parameters, tuple(self.state))  # type: ignore[misc]

    def __getstate__(self) -> dict[str, Any]:
        # Modules cannot be copied.
        return {name: value for name, value in self.__dict__.items() if name != "xp"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.xp = module_of(_values(self.parameters[0]))

    def runs(self) -> Iterable[tuple[int, int]]:
        """Longest ranges of neighbours that all have a gradient and have taken equally many steps."""
        first = 0
        for i in range(1, len(self.parameters) + 1):
            if i == len(self.parameters) or self._kind(i) != self._kind(first):
                if self.parameters[first].grad is not None:
                    yield first, i
                first = i

    def part(self, flat: Array, i: int) -> Array:
        """What of a flat buffer is parameter i's, in its shape; float32 for half precision."""
        piece, p = flat[self.offsets[i] : self.offsets[i + 1]], self.parameters[i]
        return (piece.view(p.dtype) if p.dtype.kind == "c" else piece).reshape(p._data.shape)

    def _kind(self, i: int) -> tuple[bool, int]:
        return self.parameters[i].grad is None, self.steps[i]


def _values(parameter: Tensor) -> Array:
    """Its array; an empty one for a parameter that was built without values and gets them later."""
    return np.empty(0, parameter.dtype) if getattr(parameter, "deferred", False) else parameter._data


def _real(values: Array) -> np.dtype:
    """The real dtype that such parameters are updated in."""
    dtype: np.dtype = values.dtype
    return FLOAT32 if is_half(dtype) else dtype if dtype.kind == "f" else values.real.dtype


def _length(parameter: Tensor) -> int:
    """Of its part of a flat buffer."""
    values = _values(parameter)
    return values.size * 2 if values.dtype.kind == "c" else values.size


def gradient_of(parameter: Tensor) -> Array:
    """Its gradient's array. Raises TypeError or ValueError for one that an update would stretch or cut to fit."""
    values, array = parameter._data, getattr(parameter.grad, "_data", None)
    if array is None:
        kind = type(parameter.grad)
        raise TypeError(f"a gradient is a Tensor, not {kind.__module__}.{kind.__name__}: p.grad = Tensor(gradient)")
    if array.shape != values.shape:
        raise ValueError(f"a gradient of shape {array.shape} was given to a parameter of shape {values.shape}")
    if (array.dtype.kind == "c") is (values.dtype.kind == "c"):
        return array
    if array.dtype.kind == "c":
        raise ValueError(f"a gradient of {array.dtype} was given to a parameter of {values.dtype}: take its real part")
    return array.astype(values.dtype)


def _plain(option: Any) -> Any:
    """An option whose numbers are Python's: of NumPy's, and of Tensors, checkpoints make Tensors, and arrays cannot be
    multiplied by Tensors in place."""
    if isinstance(option, tuple | list):
        return type(option)(map(_plain, option))
    return option.item() if isinstance(option, np.generic | np.ndarray | Tensor) else option


def _flat(array: Array) -> Array:
    """A 1-D real view of a contiguous array (a copy of another)."""
    flat = array.reshape(-1)
    if flat.dtype.kind != "c":
        return flat
    # One axis with gaps stays a view, whose numbers cannot be seen as pairs.
    return (flat if flat.flags.c_contiguous else flat.copy()).view(flat.real.dtype)


class Optimizer:
    """The base of all optimisers.

    Args:
        parameters: Tensors, or dicts {"params": Tensors, option: value ...} for groups with options of their
            own.
        defaults: options of the groups that do not set them; "lr" is always one.

    Sub-classes name their state in `slots` and implement `_direction`, and `_update` if they have a kernel for it.
    """

    slots: tuple[str, ...] = ()
    whole_in: str | None = None
    """What saves the whole state, where each rank has a part of it, as of an optimiser that Zero has divided."""
    stepped_by: str | None = None
    """What updates the model, where step() would update a part of it."""

    @property
    def one_pass(self) -> bool:
        """Whether the rule has a kernel that updates a NumPy parameter in one pass over memory: `_update`."""
        return False

    def __init__(self, parameters: Iterable[Any], defaults: dict[str, Any]) -> None:
        if isinstance(parameters, Tensor) or not (
            hasattr(parameters, "__iter__") or hasattr(parameters, "__getitem__")
        ):
            kind = type(parameters).__name__
            raise TypeError(f"an optimiser takes parameters such as those of model.parameters(), not {kind}")
        given = list(parameters)
        if not given:
            raise ValueError("an optimiser needs at least one parameter")
        self.defaults = defaults
        self.param_groups: list[dict[str, Any]] = []
        self._buckets: list[list[_Bucket]] = []
        for group in given if isinstance(given[0], dict) else [{"params": given}]:
            self.add_param_group(group)

    def add_param_group(self, group: dict[str, Any]) -> None:
        """Add parameters with options of their own."""
        unknown = set(group) - set(self.defaults) - {"params"}
        if unknown:
            raise ValueError(f"{type(self).__name__} has no option {', '.join(sorted(unknown))}")
        given = group["params"]
        params = [given] if isinstance(given, Tensor) else list(given)
        known = {id(p) for g in self.param_groups for p in g["params"]}
        for p in params:
            if not isinstance(p, Tensor) or not p.is_leaf or p.dtype.kind in "iub":
                kind = f"a Tensor of {p.dtype}" if isinstance(p, Tensor) else f"{type(p).__module__}.{type(p).__name__}"
                raise TypeError(
                    f"an optimiser updates leaf Tensors (parameters) of real or complex numbers; got {kind}"
                    + ("" if not isinstance(p, Tensor) or p.is_leaf else " that was computed from others")
                )
            if id(p) in known:
                raise ValueError("a parameter is listed twice")
            known.add(id(p))
        options = {name: _plain(value) for name, value in {**self.defaults, **group}.items() if name != "params"}
        full = {**options, "params": params}
        self._check(full)
        self.param_groups.append(full)
        kinds: dict[Any, list[Tensor]] = {}
        for p in params:
            kinds.setdefault((p.dtype, p.device), []).append(p)
        self._buckets.append([_Bucket(ps, self.slots) for ps in kinds.values()])

    @property
    def started(self) -> bool:
        """Whether a parameter has been updated."""
        return any(any(bucket.steps) for buckets in self._buckets for bucket in buckets)

    def exchange_parameters(self, substitutes: Callable[[Tensor], Iterable[Tensor]]) -> None:
        """Update substitutes(p) from now on in place of each parameter p: none, one or several tensors.

        Groups and their options stay; state and step counts start anew.
        """
        groups, self.param_groups, self._buckets = self.param_groups, [], []
        for group in groups:
            self.add_param_group({**group, "params": [t for p in group["params"] for t in substitutes(p)]})

    def _check(self, group: dict[str, Any]) -> None:
        for name in ("lr", "weight_decay", "eps"):
            if isinstance(group.get(name), str):
                raise TypeError(f"{type(self).__name__}: {name} is a number, not {group[name]!r}")
            if not group.get(name, 0.0) >= 0:
                raise ValueError(f"{type(self).__name__}: {name} must not be negative, got {group[name]}")

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for group in self.param_groups:
            for p in group["params"]:
                p.grad = None

    def step(self) -> None:
        """Update every parameter that has a gradient. Raises RuntimeError where another object does that."""
        if self.stepped_by is not None:
            raise RuntimeError(f"this optimiser updates a part of the model's parameters: call {self.stepped_by}")
        for group, buckets in zip(self.param_groups, self._buckets):
            if group["lr"].__class__ is not float:
                group["lr"] = _plain(group["lr"])
            for bucket in buckets:
                bucket.resize()
                for first, last in list(bucket.runs()):
                    if self.one_pass and bucket.xp is np:
                        self._step_each(group, bucket, first, last)
                    else:
                        self._step_run(group, bucket, first, last)

    def _step_each(self, group: dict[str, Any], bucket: _Bucket, first: int, last: int) -> None:
        step = bucket.steps[first] + 1
        for i in range(first, last):
            parameter = bucket.parameters[i]
            values = parameter._data
            # A copy where the numbers do not lie end to end, or are half precision.
            flat = _flat(values.astype(FLOAT32) if is_half(values.dtype) else np.ascontiguousarray(values))
            gradient = _flat(np.ascontiguousarray(gradient_of(parameter))).astype(bucket.real, copy=False)
            state = {slot: array[bucket.offsets[i] : bucket.offsets[i + 1]] for slot, array in bucket.state.items()}
            self._update(flat, gradient, state, step, group)
            if not np.may_share_memory(flat, values):
                values[...] = flat.view(values.dtype if values.dtype.kind == "c" else flat.dtype).reshape(values.shape)
            bucket.steps[i] = step
            parameter._version.changed()

    def _step_run(self, group: dict[str, Any], bucket: _Bucket, first: int, last: int) -> None:
        offsets = bucket.offsets
        step = bucket.steps[first] + 1
        decay = group.get("weight_decay", 0.0)
        decoupled = group.get("decoupled", False)
        for i in range(first, last):
            p = bucket.parameters[i]
            gradient = gradient_of(p)
            target = bucket.part(bucket.update, i)
            if decay and not decoupled:
                bucket.xp.multiply(p._data, decay, out=target, dtype=target.dtype)
                target += gradient
            else:
                target[...] = gradient
            bucket.steps[i] = step
        start, stop = offsets[first], offsets[last]

        def work(a: int, b: int) -> None:
            block = slice(start + a, start + b)
            self._direction(
                bucket.xp, bucket.update[block], {k: v[block] for k, v in bucket.state.items()}, step, group
            )

        over_rows(bucket.xp, work, stop - start, 1)
        for i in range(first, last):
            p = bucket.parameters[i]
            values = p._data
            update = bucket.part(bucket.update, i)
            if is_half(values.dtype):
                keep = 1 - group["lr"] * decay if decoupled else 1.0
                values[...] = values.astype(FLOAT32) * keep - update
            else:
                if decay and decoupled:
                    values *= 1 - group["lr"] * decay
                values -= update
            p._version.changed()

    def _update(self, p: Array, g: Array, state: dict[str, Array], step: int, group: dict[str, Any]) -> None:
        """Update a flat NumPy parameter p by its gradient g, weight decay included, where `one_pass` says so."""
        raise NotImplementedError

    def _direction(self, xp: Any, g: Array, state: dict[str, Array], step: int, group: dict[str, Any]) -> None:
        """Turn the flat gradient g, in place, into what is subtracted from parameters; step is 1, 2 ..."""
        raise NotImplementedError

    # State

    def state_dict(self) -> dict[str, Any]:
        """Options and, for every parameter, its step count and state arrays in the parameter's shape."""
        self._resize()
        numbers = self._numbers()
        state: dict[str, Any] = {}
        for bucket in (b for buckets in self._buckets for b in buckets):
            for i, p in enumerate(bucket.parameters):
                entry: dict[str, Any] = {"step": bucket.steps[i]}
                for slot, flat in bucket.state.items():
                    entry[slot] = Tensor(bucket.part(flat, i).copy())
                state[str(numbers[id(p)])] = entry
        groups = [
            {
                **{k: _plain(v) for k, v in group.items() if k != "params"},
                "params": [numbers[id(p)] for p in group["params"]],
            }
            for group in self.param_groups
        ]
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Take over options and state; the parameters must be the same, in the same order.

        Raises:
            ValueError: when groups, parameter counts or shapes differ, and for a state of another optimiser. Nothing is
                changed then.
        """
        if not isinstance(saved, Mapping) or not saved.keys() >= {"state", "param_groups"}:
            raise ValueError("the state of an optimiser is what its state_dict() gave, with 'state' and 'param_groups'")
        self._resize()
        numbers = self._numbers()
        mine = [[numbers[id(p)] for p in group["params"]] for group in self.param_groups]
        theirs = [list(group["params"]) for group in saved["param_groups"]]
        if mine != theirs:
            raise ValueError(
                f"the saved optimiser has groups of {[len(g) for g in theirs]} parameters, this one of "
                f"{[len(g) for g in mine]}"
            )
        options = [{k: _plain(v) for k, v in group.items() if k != "params"} for group in saved["param_groups"]]
        kept = {slot for entry in saved["state"].values() for slot in entry} - {"step"}
        unknown = {name for other in options for name in other} - set(self.defaults) | kept - set(self.slots)
        if unknown:
            raise ValueError(
                f"the state is of another optimiser, or one of other options: this {type(self).__name__} has no "
                f"{', '.join(sorted(unknown))}"
            )
        for group, other in zip(self.param_groups, options):
            if other.get("decoupled", group.get("decoupled")) != group.get("decoupled"):
                raise ValueError(
                    "the state is of another optimiser, Adam or AdamW: what their weight decay does differs"
                )
        everything = [(b, i, p) for bs in self._buckets for b in bs for i, p in enumerate(b.parameters)]
        for _, _, p in everything:
            entry = saved["state"][str(numbers[id(p)])]
            for slot in self.slots:
                shape = Tensor(entry[slot]).shape if slot in entry else None
                if shape != p.data.shape:
                    raise ValueError(
                        f"parameter {numbers[id(p)]}: {slot} has shape {shape}, the parameter has {p.data.shape}"
                    )
        for bucket, i, p in everything:
            entry = saved["state"][str(numbers[id(p)])]
            bucket.steps[i] = int(entry["step"])
            for slot in self.slots:
                flat = bucket.state[slot]
                value = Tensor(entry[slot]).to(p.dtype if p.dtype.kind == "c" else flat.dtype).to(p.device).data
                flat[bucket.offsets[i] : bucket.offsets[i + 1]] = _flat(value)
        for group, other in zip(self.param_groups, options):
            group.update(other)

    def _resize(self) -> None:
        for bucket in (b for buckets in self._buckets for b in buckets):
            bucket.resize()

    def _numbers(self) -> dict[int, int]:
        """Parameters counted through all groups."""
        return {id(p): i for i, p in enumerate(p for group in self.param_groups for p in group["params"])}
