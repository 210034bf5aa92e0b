"""ZeRO: data parallel without the redundant copies (Rajbhandari et al., arXiv 1910.02054; stage 3 is also called FSDP).

Every rank updates 1/N of the parameters. Stage 1 keeps only that part of the optimiser's state on each rank, stage 2
also only that part of the gradients, stage 3 also only that part of the parameters, which are gathered around each
module's forward and backward pass and freed after it; while one module computes, the next one's are on their way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np

from qdist.comm import Communicator
from qdist.nn import Module, materialize
from qdist.optim import Optimizer
from qdist.optim.clip import check_max_norm
from qdist.parallel.gradient_norm import clip_grad_norm_
from qdist.parallel.loss_scale import LossScale
from qdist.parallel.replica.buckets import BUCKET_BYTES, Bucket, broadcast
from qdist.parallel.replica.replica import Replica
from qdist.parallel.zero import deepspeed_config, sharded_state
from qdist.parallel.zero.prefetch import Prefetch
from qdist.parallel.zero.shards import GradientPart, Unit, View
from qdist.parallel.zero.units import around_modules, units_by_module, units_by_size
from qdist.tensor import Tensor, computing_in, packing
from qdist.tensor.arrays import FLOAT32, Array, as_dtype, is_half, kind_of

__all__ = ["Zero", "bucket_bytes_of", "rounds"]

_LEAST_BUCKET = 1 << 17
"""Bytes: smaller messages cost more time than they free memory."""
_MOST_SENT = 2
"""Messages with gradients that are under way at a time. A rank that is ahead of the others waits, instead of keeping
all its gradients until they come."""


class Zero(Replica):
    """A model and its optimiser, sharded over ranks.

    Args:
        model: the same on every rank; the first rank's values are taken over by all. Built inside nn.deferred(), its
            values are drawn module by module, and stage 3 never has more of them on a rank than its part and a module.
        optimizer: of this model's parameters. It keeps its options and updates this rank's part from now on; a
            scheduler made for it goes on working. Parameters that it does not have, or that are frozen now, are left
            alone.
        stage: 1 shards the optimiser's state, 2 also gradients, 3 also parameters.
        comm: the ranks; all when not given.
        reduction: whether the loss is a "mean" or a "sum" over its rows: see Replica.
        precision: "bfloat16" (with the package ml_dtypes) or "float16" has the model compute in half precision, sums in
            float32, while the optimiser keeps a float32 copy of its part. Circuits keep their precision. None leaves
            the model as it is.
        loss_scale: for float16; starts at 2**16 and adapts when not given.
        unit_types: stage 3 gathers modules of these types (say nn.TransformerBlock) as a whole, not piece by piece.
        accumulate: how many backward passes make a step.
        max_norm: clip the gradients' joint norm before the update.
        bucket_bytes: size of a message in stages 1 and 2. When not given 4 MiB; in stage 2 an eighth of the model if
            that is less, since whole gradients are held until their bucket is full.

    ``backward(loss)`` and ``step()`` take the place of ``loss.backward()``, ``optimizer.step()`` and ``zero_grad()``;
    gradients from before are forgotten.
    Stage 3 needs all ranks to run the same modules in the same order, also to evaluate inside no_grad().

    >>> zero = Zero(model, optim.Adam(model.parameters()), stage=2, comm=comm)
    >>> zero.backward(loss_function(zero(x), y))
    >>> zero.step()
    """

    whole_in = "parallel.Saved(zero)"
    """What saves the optimiser's state too: see `Optimizer.whole_in`."""

    def __init__(
        self,
        model: Module,
        optimizer: Optimizer,
        stage: int = 1,
        comm: Communicator | None = None,
        *,
        reduction: str = "mean",
        precision: Any = None,
        loss_scale: LossScale | None = None,
        unit_types: Iterable[type] = (),
        accumulate: int = 1,
        max_norm: float | None = None,
        bucket_bytes: int | None = None,
    ) -> None:
        types = tuple(unit_types)
        dtype = _check(model, optimizer, stage, precision, loss_scale, types, accumulate, max_norm, bucket_bytes)
        super().__init__(model, comm, reduction)
        self.optimizer, self.stage = optimizer, stage
        self.accumulate, self.max_norm = accumulate, max_norm
        self.precision = dtype
        self.loss_scale = (loss_scale or LossScale()) if dtype == np.float16 else None
        self._eager = stage > 1
        self._most_sent = _MOST_SENT
        self._pending = False
        self._passes = 0
        self._held: list[Unit] = []
        self._lent: list[Unit] = []
        self._lending = False
        self._prefetch = Prefetch()
        before = optimizer.state_dict() if optimizer.started else None
        self._groups: list[list[Any]] = [list(group["params"]) for group in optimizer.param_groups]
        if bucket_bytes is None:
            bucket_bytes = bucket_bytes_of(model, stage)
        self.units = self._shard({id(p) for group in self._groups for p in group}, types, bucket_bytes)
        self.untrained = self._rounded()
        """Units without gradients: what the optimiser does not have, where the model has it in half precision only."""
        self._follow(self.units)
        self.zero_grad()
        pieces = {id(u.parameters[piece.index]): piece.tensor for u in self.units for piece in u.pieces}
        optimizer.exchange_parameters(lambda p: [pieces[id(p)]] if id(p) in pieces else [])
        optimizer.whole_in, optimizer.stepped_by = self.whole_in, "Zero.step()"
        for p in (p for unit in self.units for p in unit.parameters):
            p.clipped_by = "Zero.clip_grad_norm(max_norm) before step(), or Zero(..., max_norm=...)"
        self._updated = {id(tensor) for tensor in pieces.values()}
        if before is not None:
            sharded_state.load_optimizer(self.units, optimizer, self._groups, before)

    @classmethod
    def from_config(
        cls,
        config: dict[str, Any],
        model: Module,
        optimizer: Optimizer | None = None,
        comm: Communicator | None = None,
    ) -> Self:
        """From a dictionary as DeepSpeed and VQNet take it: see ``deepspeed_config.read``."""
        return cls(model, comm=comm, **deepspeed_config.read(config, model, optimizer, comm))

    def _shard(self, updated: set[int], types: tuple[type, ...], bucket_bytes: int) -> list[Unit]:
        trained = [p for p in self.module.parameters() if p.requires_grad and id(p) in updated]
        stays = self.stage < 3

        def make(parameters: list[Any], comm: Communicator) -> Unit:
            return Unit(parameters, comm, self.precision if rounds(parameters[0]) else None, stays)

        if stays:
            units = units_by_size(trained, self.comm, make, bucket_bytes)
        else:
            units, needed = units_by_module(self.module, {id(p) for p in trained}, types, self.comm, make)
            around_modules(needed, self._held)
            for unit in units:
                unit.prefetch = self._prefetch
        sharded = {id(p) for unit in units for p in unit.parameters}
        whole = [p for p in self.module.parameters() if p.deferred and id(p) not in sharded]
        materialize(whole)
        broadcast(whole, self.comm)
        return units

    def _rounded(self) -> list[Unit]:
        """Parameters that stay as they are, which are whole on every rank: in half precision, beside each rank's part
        of their own values, which states have."""
        if self.precision is None:
            return []
        sharded = {id(p) for unit in self.units for p in unit.parameters}
        rest = [p for p in self.module.parameters() if id(p) not in sharded and rounds(p)]
        return units_by_size(rest, self.comm, lambda group, comm: Unit(group, comm, self.precision, True), BUCKET_BYTES)

    # A training step

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes, for this rank's rows. In half precision float32 inputs are rounded, and outputs are
        float32."""
        if self.precision is None:
            with self.freeing():
                return super().forward(*args, **kwargs)
        with self.freeing(), computing_in(self.precision):
            output = super().forward(*args, **kwargs)
        return _widened(output)

    @contextmanager
    def freeing(self) -> Iterator[None]:
        """Within it nothing that is recorded keeps gathered parameters alive. For those who run the modules by
        themselves, stage by stage of a pipeline, and not through forward()."""
        if self.stage < 3 or self._lending:
            yield
            return
        self._lending = True
        for unit in self.units:
            unit.lent = self._lent
        try:
            with packing(self._pack, self._unpack):
                yield
        finally:
            self._lending = False
            for unit in self.units:
                unit.lent = None
            for unit in self._lent:
                unit.drop()
            self._lent.clear()

    def backward(self, loss: Tensor) -> None:
        """Add the loss's derivative to the gradients, each of `accumulate` passes counting an equal share."""
        scale = 1.0 if self.loss_scale is None else self.loss_scale.value
        for unit in self.units:
            unit.scale = scale
        factor = scale / self.accumulate
        (loss if factor == 1.0 else loss * factor).backward()

    def step(self) -> bool:
        """Update the parameters and forget the gradients; on every `accumulate`-th call.

        Returns whether parameters were updated: not in between, nor when half-precision gradients overflowed.
        """
        self._check_what_is_trained()
        self._passes += 1
        if self._passes % self.accumulate:
            return False
        self.settle()
        finite = self.loss_scale is None or self._all_finite()
        if finite:
            if self.max_norm is not None:
                self.clip_grad_norm(self.max_norm)
            self._prefetch.restart()
            self.optimizer.stepped_by = None
            try:
                self.optimizer.step()
            finally:
                self.optimizer.stepped_by = "Zero.step()"
            for unit in self.units:
                unit.publish()
            for unit in self.units:
                unit.finish_publish()
        self.zero_grad()
        if self.loss_scale is not None:
            self.loss_scale.update(finite)
        return finite

    def _check_what_is_trained(self) -> None:
        """Raises ValueError, on every rank, for what was left out of the shards and is to be trained now, and for
        changes that the step would undo."""
        for p in (p for group in self._groups for p in group):
            if p.requires_grad and id(p) not in self._bucket_of:
                name = next(name for name, other in self.module.named_parameters() if other is p)
                raise ValueError(
                    f"{name!r} was frozen when Zero was made, which left it out of the shards, and is to be trained "
                    "now: thaw it before Zero(model, optimizer), and freeze it again after that"
                )
        for p in (p for group in self.optimizer.param_groups for p in group["params"]):
            if id(p) not in self._updated:
                raise ValueError(
                    f"the optimiser was given a parameter of shape {p.shape} when Zero had divided the others: give it "
                    "all of them before Zero(model, optimizer)"
                )
        for p in (p for unit in (*self.units, *self.untrained) for p in unit.changed_by_others()):
            name = next(name for name, other in self.module.named_parameters() if other is p)
            raise ValueError(
                f"{name!r} was changed since the last step, in {p.dtype}, which this one would undo: it updates the "
                "float32 copy. Change what Zero.state_dict() gives, and have Zero.load_state_dict() take it"
            )

    def zero_grad(self) -> None:
        """Forget all gradients, also of passes that no step() has used."""
        self._pending = False
        for unit in self.units:
            unit.forget_gradient()
        self.module.zero_grad()

    def clip_grad_norm(self, max_norm: float) -> float:
        """Scale all gradients together so that their joint 2-norm is at most max_norm; gives the norm before.

        Parameters that are divided over other ranks as well (tensor parallelism) count as a whole. Raises RuntimeError
        when the norm is not finite; gradients are left as they are.
        """
        check_max_norm(max_norm)
        return clip_grad_norm_(self.graded(), max_norm, over=[self.comm])

    def graded(self) -> list[GradientPart]:
        """The gradients of the parts that this rank updates, complete. Collective."""
        self.settle()
        return [
            GradientPart(piece.tensor.grad, unit.parameters[piece.index])
            for unit in self.units
            for piece in unit.pieces
        ]

    def gradients(self) -> dict[str, np.ndarray]:
        """The whole batch's gradients by parameter name, on every rank, without those that no rank has. Collective."""
        self.settle()
        names = {id(p): name for name, p in self.module.named_parameters()}
        found = {}
        for unit in self.units:
            mine = unit.xp.zeros(unit.length, unit.master_dtype) if unit.gradient is None else unit.gradient
            for p, used, whole in zip(unit.parameters, unit.used, unit.cut(self.comm.all_gather(mine))):
                if used:
                    found[names[id(p)]] = Tensor(whole.copy()).numpy()
        return found

    # States

    def state_dict(self) -> dict[str, Tensor]:
        """All parameters and buffers by name, as the plain model gives them, copied; master values. Collective."""
        return sharded_state.model_state(self.module, [*self.units, *self.untrained])

    def load_state_dict(self, state: dict[str, Any], strict: bool = True) -> None:
        """Take over values by name, as the plain model does.

        Raises ValueError, and changes nothing, where names or shapes do not fit.
        """
        sharded_state.load_model(self.module, [*self.units, *self.untrained], state, strict)

    def full_state_dict(self) -> dict[str, Any]:
        """{"model", "optimizer"}: states that the plain model and its optimiser take, on every rank. Collective."""
        return {
            "model": self.state_dict(),
            "optimizer": sharded_state.optimizer_state(self.units, self.optimizer, self._groups, self.comm),
        }

    def load_full_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from states of the plain model and its optimiser, or of any number of ranks and any stage."""
        self.load_state_dict(state["model"])
        sharded_state.load_optimizer(self.units, self.optimizer, self._groups, state["optimizer"])

    def sharded_state_dict(self) -> dict[str, Any]:
        """What this rank alone has: its part of every parameter and its optimiser state, and where they stand."""
        return sharded_state.shard_state(self)

    def load_sharded_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from this rank's sharded state. Raises ValueError when it was cut differently."""
        sharded_state.load_shard(self, state)

    # Inside

    def settle(self) -> None:
        """Combine the gradients that are still each rank's own: all of stage 1's, and those of no_sync()."""
        if self._pending:
            self._pending = False
            self._begin()
            self._combine()

    def _all_finite(self) -> bool:
        """Whether no gradient of any rank has overflowed."""
        parts = [unit.gradient for unit in self.units if unit.gradient is not None]
        mine = all(bool(np.isfinite(float(abs(g).max()))) for g in parts if g.size)
        return bool(self.comm.all_reduce(np.array(mine, np.uint8), "min"))

    def _let_go(self) -> None:
        raise ValueError("the model is sharded by a Zero already: go on with that one, or build the model anew")

    def _complete(self, bucket: Bucket) -> None:
        assert isinstance(bucket, Unit)
        bucket.release()

    def _finish(self) -> None:
        self._settle_share()
        self._prefetch.restart()
        for unit in self.units:
            unit.release()
        self._pending = not (self._sending and self._eager)
        if not self._pending:
            self._combine()

    def _pack(self, array: Array) -> Any:
        """Keep the place of what lies in gathered parameters, so that they can be freed."""
        for unit in (*self._held, *self._lent):
            if array.base is not None and array.base is unit.full:
                return unit.locate(array)
        return array

    def _unpack(self, kept: Any) -> Array:
        return kept.unit.view(kept) if isinstance(kept, View) else kept


def rounds(parameter: Any) -> bool:
    """Whether a model in half precision has this parameter in half precision."""
    return kind_of(parameter.dtype) == "f" and not parameter.keeps_precision


def bucket_bytes_of(model: Module, stage: int) -> int:
    """The size of a message, where nobody gives one."""
    eighth = sum(p.nbytes for p in model.parameters()) // 8
    return min(BUCKET_BYTES, max(_LEAST_BUCKET, eighth)) if stage == 2 else BUCKET_BYTES


def _check(
    model: Any,
    optimizer: Any,
    stage: int,
    precision: Any,
    loss_scale: LossScale | None,
    unit_types: tuple[Any, ...],
    accumulate: int,
    max_norm: float | None,
    bucket_bytes: int | None,
) -> np.dtype | None:
    """Refuse what does not go together; gives the precision as a dtype."""
    if not isinstance(model, Module):
        raise TypeError(f"Zero takes a Module, not {type(model).__name__}")
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"Zero takes an optimiser of qdist.optim, not {type(optimizer).__name__}")
    if stage not in (1, 2, 3):
        raise ValueError(f"stage={stage}: use 1, 2 or 3; without sharding it is DataParallel")
    half = None if precision is None else as_dtype(precision)
    if half is not None and not is_half(half):
        raise ValueError(f"precision={precision}: use bfloat16, float16, or None and a model of the dtype you want")
    if loss_scale is not None and half != np.float16:
        raise ValueError("a loss scale is for precision=float16: leave it out")
    if not all(isinstance(kind, type) for kind in unit_types):
        raise TypeError(f"unit_types are classes of modules, not {unit_types}")
    if (unit_types and stage < 3) or (bucket_bytes is not None and stage == 3):
        raise ValueError("unit_types are for stage 3, which has no buckets, and bucket_bytes for stages 1 and 2")
    if accumulate < 1 or (bucket_bytes is not None and bucket_bytes < 1):
        raise ValueError(f"accumulate={accumulate} and bucket_bytes={bucket_bytes} must be at least 1")
    if max_norm is not None and max_norm <= 0:
        raise ValueError(f"max_norm must be positive, got {max_norm}")
    known = {id(p) for p in model.parameters()}
    for group in optimizer.param_groups:
        for p in group["params"]:
            if id(p) not in known:
                raise ValueError(f"the optimiser has a parameter of shape {p.shape} that the model does not have")
    if half is not None and any(p.dtype != np.float32 for p in model.parameters() if kind_of(p.dtype) == "f"):
        raise ValueError(f"precision={half} needs a float32 model, whose values are the master copy")
    return half


def _widened(value: Any) -> Any:
    """Half-precision Tensors in nested tuples, lists and dicts, as float32."""
    if isinstance(value, Tensor):
        return value.to(FLOAT32) if is_half(value.dtype) else value
    if isinstance(value, dict):
        return {key: _widened(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_widened(part) for part in value]
    return tuple(_widened(part) for part in value) if isinstance(value, tuple) else value
