"""The operators as torch.autograd.Functions, which torch.func's transforms go through: grad, jacrev, vmap, jvp, jacfwd
and hessian, nested.

Dynamo compiles no Function that has a forward derivative, so those are classes of their own, for all that is not
compiled. vmap folds its dimension into the batch: one call of the operator, whatever is vmapped.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from . import operators
from .arrays import DTYPES

__all__ = ["run", "run_number"]


def run(x: Tensor, weights: Tensor, handle: str) -> Tensor:
    """qdist::circuit, differentiated twice."""
    if _is_plain(x, weights):
        differentiated = torch.is_grad_enabled() and (x.requires_grad or weights.requires_grad)
        return _Plain.apply(x, weights, handle, differentiated)  # type: ignore[no-any-return]
    if torch.compiler.is_compiling() and torch._C._are_functorch_transforms_active():
        # Dynamo takes what a transform differentiates by for constant: gradients would be zeros, and nothing raise.
        raise RuntimeError(NOT_TRACED)
    function = _Circuit if torch.compiler.is_compiling() else _BothWays
    return function.apply(x, weights, handle)  # type: ignore[no-any-return]


def run_number(params: Tensor, handle: str) -> Tensor | None:
    """The only number of one set of parameters, (parameters,), together with its gradient; None where none will be
    asked for, or where `run` is what can be transformed."""
    if not (params.requires_grad and torch.is_grad_enabled() and _is_plain(params) and params.dtype in DTYPES):
        return None
    circuit_map = operators.map_of(params, handle)
    if not circuit_map.is_number:
        return None
    return _Number.apply(params, handle, circuit_map)  # type: ignore[no-any-return]


NOT_TRACED = (
    "torch.compile traces no circuit in torch.func's transforms (grad, vmap, jacrev): put torch.compiler.disable "
    "around the function that calls them"
)

_PLAIN = {Tensor, torch.nn.Parameter}


def _is_plain(*tensors: Tensor) -> bool:
    """Whether nothing but the numbers matters: no tracing, no transform. Then the dispatcher, which takes longer than a
    small circuit, is left out."""
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
        return False
    for tensor in tensors:
        if type(tensor) not in _PLAIN:
            return False
    return not torch._C._len_torch_dispatch_stack()


class _Plain(torch.autograd.Function):
    """_Circuit without its setup_context, for which torch binds a signature at every call."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weights: Tensor, handle: str, differentiated: bool) -> Tensor:  # type: ignore[override]
        operators.keep(ctx, (x, weights, handle), None)
        ctx.map = operators.map_of(x, handle)
        found, ctx.saved = operators.read(ctx.map, x, weights, differentiated)
        return found

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:  # type: ignore[override]
        # Without memory of its own is what torch.autograd's is_grads_batched gives, which no transform is behind.
        if torch.is_grad_enabled() or not _is_plain(g) or not torch._C._has_storage(g):
            return *_Circuit.backward(ctx, g), None
        x, weights = ctx.saved_tensors  # torch refuses those that changed since the forward.
        return *operators.pulled_back(ctx.map, x, weights, g, ctx.needs_input_grad[:2], ctx.saved), None, None


class _Number(torch.autograd.Function):
    """One number of one set of parameters, without the dimensions that _Circuit has around it. Its backward multiplies
    the gradient, which is there."""

    @staticmethod
    def forward(ctx: Any, params: Tensor, handle: str, circuit_map: Any) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(params)
        ctx.handle, ctx.circuit = handle, operators.found(handle)
        found, ctx.gradient = operators.read_number(circuit_map, params)
        return found

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:  # type: ignore[override]
        (params,) = ctx.saved_tensors  # torch refuses those that changed since the forward.
        if torch.is_grad_enabled() or not _is_plain(g):
            rows = params.unsqueeze(0), params.new_empty(0), g.reshape(1, 1)
            return _vjp(*rows, ctx.handle, True, False)[0].squeeze(0), None, None
        return g * ctx.gradient, None, None


class _Circuit(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, weights: Tensor, handle: str) -> Tensor:
        return operators.circuit(x, weights, handle)  # type: ignore[no-any-return]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        operators.keep(ctx, inputs, output)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:  # type: ignore[override]
        by_x, by_weights = ctx.needs_input_grad[:2]
        x, weights = ctx.saved_tensors
        first, second = _vjp(x, weights, g, ctx.handle, by_x, by_weights)
        return first if by_x else None, second if by_weights else None, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Tensor, weights: Tensor, handle: str) -> tuple[Tensor, int]:  # type: ignore[override]
        size = info.batch_size
        front = _front(x, in_dims[0], size)
        rows = front.shape[1]
        if in_dims[1] is not None or weights.ndim == 2:
            weights, _ = _of_each(weights, in_dims[1], size, rows)
        return _unfolded(run(_folded(front), weights, handle), size, rows), 0


class _CircuitVjp(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, weights: Tensor, g: Tensor, handle: str, by_x: bool, by_weights: bool) -> Any:
        return operators.circuit_vjp(x, weights, g, handle, by_x, by_weights)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        operators.keep_vjp(ctx, inputs, output)

    @staticmethod
    def backward(ctx: Any, dx: Tensor | None, dweights: Tensor | None) -> Any:  # type: ignore[override]
        x, weights, g = ctx.saved_tensors
        dx, dweights = operators.tangents(ctx, x, weights, dx, dweights)
        if torch.is_grad_enabled():
            x, weights, g = _Last.apply(x, weights, g)  # type: ignore[misc]
        changes, by_x, by_weights = _second(x, weights, g, dx, dweights, ctx.handle)
        return by_x, by_weights, changes, None, None, None

    @staticmethod
    def vmap(  # type: ignore[override]
        info: Any, in_dims: Any, x: Tensor, weights: Tensor, g: Tensor, handle: str, by_x: bool, by_weights: bool
    ) -> Any:
        size = info.batch_size
        front = _front(x, in_dims[0], size)
        rows = front.shape[1]
        each, shared = _of_each(weights, in_dims[1], size, rows)
        inner = _folded(_front(g, in_dims[2], size))
        function = _CircuitVjp if torch.compiler.is_compiling() else _VjpBothWays
        first, second = function.apply(_folded(front), each, inner, handle, by_x, by_weights)  # type: ignore[misc]
        first = _unfolded(first, size, rows) if by_x else first.expand(size, 0)
        second = _summed(second, size, rows, shared) if by_weights else second.expand(size, 0)
        return (first, second), (0, 0)


class _BothWays(_Circuit):
    """_Circuit, also differentiated forward."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        operators.keep(ctx, inputs, output)
        ctx.save_for_forward(*inputs[:2])
        ctx.width = output.shape[-1]

    @staticmethod
    def jvp(ctx: Any, dx: Tensor | None, dweights: Tensor | None, _: None) -> Any:  # type: ignore[override]
        x, weights = ctx.saved_tensors
        tangents = _tangents(x, weights, dx, dweights)
        function = _Jvp.forward if _is_batch_alone(*tangents) else _Jvp.apply
        return function(x, weights, *tangents, ctx.handle, ctx.width)


class _VjpBothWays(_CircuitVjp):
    """_CircuitVjp, also differentiated forward: what torch.func.hessian does."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        operators.keep_vjp(ctx, inputs, output)
        ctx.save_for_forward(*inputs[:3])

    @staticmethod
    def jvp(ctx: Any, dx: Tensor | None, dweights: Tensor | None, dg: Tensor | None, *_: None) -> Any:  # type: ignore[override]
        x, weights, g = ctx.saved_tensors
        # The vjp is linear in g.
        by_g = (0.0, 0.0) if dg is None else _vjp(x, weights, dg, ctx.handle, True, True)
        x, weights, g = _Last.apply(x, weights, g)  # type: ignore[misc]
        _, *second = _second(x, weights, g, *_tangents(x, weights, dx, dweights), ctx.handle)
        found = [one + part for one, part in zip(second, by_g)]
        return tuple(one if asked else one.new_empty(0) for one, asked in zip(found, (ctx.by_x, ctx.by_weights)))


class _Jvp(torch.autograd.Function):
    """The changes of the outputs along dx and dweights."""

    @staticmethod
    def forward(x: Tensor, weights: Tensor, dx: Tensor, dweights: Tensor, handle: str, width: int) -> Tensor:
        return operators.circuit_second(x, weights, x.new_zeros(len(x), width), dx, dweights, handle)[0]  # type: ignore[no-any-return]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        *tensors, ctx.handle, _ = inputs
        ctx.circuit = operators.found(ctx.handle)
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:  # type: ignore[override]
        x, weights, dx, dweights = ctx.saved_tensors
        by_tangents = _vjp(x, weights, g, ctx.handle, True, True)
        if torch.is_grad_enabled():
            x, weights, g = _Last.apply(x, weights, g)  # type: ignore[misc]
        _, by_x, by_weights = _second(x, weights, g, dx, dweights, ctx.handle)
        return by_x, by_weights, *by_tangents, None, None

    @staticmethod
    def jvp(ctx: Any, *_: Any) -> Any:  # type: ignore[override]
        raise RuntimeError(operators.NO_FORWARD_TWICE)

    @staticmethod
    def vmap(  # type: ignore[override]
        info: Any, in_dims: Any, x: Tensor, weights: Tensor, dx: Tensor, dweights: Tensor, handle: str, width: int
    ) -> Any:
        size = info.batch_size
        front, along_x = _front(x, in_dims[0], size), _front(dx, in_dims[2], size)
        rows = front.shape[1]
        (each, _), (along, _) = (
            _of_each(w, dim, size, rows) for w, dim in ((weights, in_dims[1]), (dweights, in_dims[3]))
        )
        return _unfolded(_Jvp.apply(_folded(front), each, _folded(along_x), along, handle, width), size, rows), 0  # type: ignore[misc]


class _CircuitSecond(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, weights: Tensor, g: Tensor, dx: Tensor, dweights: Tensor, handle: str) -> Any:
        return operators.circuit_second(x, weights, g, dx, dweights, handle)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        operators.keep_second(ctx, inputs, output)

    @staticmethod
    def backward(ctx: Any, changes: Tensor | None, by_x: Tensor | None, by_weights: Tensor | None) -> Any:  # type: ignore[override]
        """By dx and dweights, in which the results are linear, and the second derivatives symmetric: what
        torch.autograd.functional.hvp asks for. By the others it is a third derivative, which _Last refuses."""
        x, weights, g = ctx.saved_tensors
        found: list[Tensor | None] = [None, None]
        if changes is not None:
            found = list(_vjp(x, weights, changes, ctx.handle, True, True))
        if by_x is not None or by_weights is not None:
            dx = torch.zeros_like(x) if by_x is None else by_x
            dweights = torch.zeros_like(weights) if by_weights is None else by_weights
            _, *second = _second(x, weights, g, dx, dweights, ctx.handle)
            found = [part if one is None else one + part for one, part in zip(found, second)]
        return None, None, None, *found, None

    @staticmethod
    def jvp(ctx: Any, *_: Any) -> Any:  # type: ignore[override]
        raise RuntimeError(operators.NO_THIRD)

    @staticmethod
    def vmap(  # type: ignore[override]
        info: Any, in_dims: Any, x: Tensor, weights: Tensor, g: Tensor, dx: Tensor, dweights: Tensor, handle: str
    ) -> Any:
        size = info.batch_size
        front = _front(x, in_dims[0], size)
        rows = front.shape[1]
        each, shared = _of_each(weights, in_dims[1], size, rows)
        along, _ = _of_each(dweights, in_dims[4], size, rows)
        inner = [_folded(_front(tensor, dim, size)) for tensor, dim in ((g, in_dims[2]), (dx, in_dims[3]))]
        changes, by_x, by_weights = _CircuitSecond.apply(_folded(front), each, *inner, along, handle)  # type: ignore[misc]
        parts = _unfolded(changes, size, rows), _unfolded(by_x, size, rows), _summed(by_weights, size, rows, shared)
        return parts, (0, 0, 0)


def _vjp(x: Tensor, weights: Tensor, g: Tensor, handle: str, by_x: bool, by_weights: bool) -> Any:
    if _is_batch_alone(g):
        return operators.circuit_vjp(x, weights, g, handle, by_x, by_weights)
    function = _CircuitVjp if torch.compiler.is_compiling() else _VjpBothWays
    return function.apply(x, weights, g, handle, by_x, by_weights)  # type: ignore[no-untyped-call]


def _second(x: Tensor, weights: Tensor, g: Tensor, dx: Tensor, dweights: Tensor, handle: str) -> Any:
    function = operators.circuit_second if _is_batch_alone(g, dx, dweights) else _CircuitSecond.apply
    return function(x, weights, g, dx, dweights, handle)


def _tangents(x: Tensor, weights: Tensor, dx: Tensor | None, dweights: Tensor | None) -> tuple[Tensor, Tensor]:
    return torch.zeros_like(x) if dx is None else dx, torch.zeros_like(weights) if dweights is None else dweights


def _is_batch_alone(*tensors: Tensor) -> bool:
    """Whether one of them is a batch of torch.autograd's is_grads_batched, which no transform is behind. An operator is
    called for each of its elements; a Function would record its graph around the batch, where none finds it."""
    if torch.compiler.is_compiling():
        return False
    return any(torch._C._functorch.is_legacy_batchedtensor(tensor) for tensor in tensors)


class _Last(torch.autograd.Function):
    """What is differentiated no further: the same tensors, whose derivatives are refused where they are asked for."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(tensor.view_as(tensor) for tensor in tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor | None) -> Any:
        raise RuntimeError(operators.NO_THIRD)

    @staticmethod
    def jvp(ctx: Any, *_: Any) -> Any:  # type: ignore[override]
        raise RuntimeError(operators.NO_THIRD)


def _front(tensor: Tensor, dim: int | None, size: int) -> Tensor:
    """With the vmapped dimension in front, whether it has one or not."""
    return tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)


def _of_each(weights: Tensor, dim: int | None, size: int, rows: int) -> tuple[Tensor, bool]:
    """Weights for every row of all, and whether rows of one element of the vmapped dimension share them."""
    front = _front(weights, dim, size)
    shared = front.ndim == 2
    each = front.unsqueeze(1).expand(size, rows, front.shape[-1]) if shared else front
    return each.reshape(size * rows, front.shape[-1]), shared


def _folded(tensor: Tensor) -> Tensor:
    return tensor.reshape(tensor.shape[0] * tensor.shape[1], *tensor.shape[2:])


def _unfolded(tensor: Tensor, size: int, rows: int) -> Tensor:
    return tensor.reshape(size, rows, tensor.shape[-1])


def _summed(by_weights: Tensor, size: int, rows: int, shared: bool) -> Tensor:
    each = _unfolded(by_weights, size, rows)
    return each.sum(1) if shared else each


operators.circuit.register_vmap(_Circuit.vmap)
operators.circuit_vjp.register_vmap(_CircuitVjp.vmap)
operators.circuit_second.register_vmap(_CircuitSecond.vmap)
