"""One function that spreads a model over a mesh, and the training step of what it gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from qdist.comm import CommError, Mesh
from qdist.nn import Module
from qdist.nn.agreement import is_due
from qdist.optim import Optimizer
from qdist.optim.clip import check_max_norm
from qdist.parallel.activation_memory import frozen_arrays, saved_bytes
from qdist.parallel.gradient_norm import clip_grad_norm_, grad_norm
from qdist.parallel.loss_scale import LossScale
from qdist.parallel.loss_terms import Loss, check_mean_over, loss_terms
from qdist.parallel.mesh import saving
from qdist.parallel.mesh.divide import divide
from qdist.parallel.mesh.memory import Memory, count_memory
from qdist.parallel.mesh.mesh_plan import Plan, check_same_plan, replicas_of
from qdist.parallel.mesh.mixed_precision import MixedPrecision
from qdist.parallel.mesh.stage_source import fitting, stage_source
from qdist.parallel.mesh.step_agreement import Agreed, agree_on_batch, first_array
from qdist.parallel.pipeline.executor import Sums
from qdist.parallel.pipeline.graph.traced_model import TracedModel
from qdist.parallel.pipeline.layer_list import LayerList
from qdist.parallel.pipeline.pipeline import Pipeline
from qdist.parallel.pipeline.stages import Draws, as_tuple
from qdist.parallel.recompute import recompute
from qdist.parallel.replica.buckets import broadcast
from qdist.parallel.replica.data_parallel import DataParallel, average_gradients
from qdist.parallel.replica.replica import Replica, check_same_model
from qdist.parallel.replica.row_share import Share
from qdist.parallel.sequence.context import shard_sequence, unshard_sequence
from qdist.parallel.sequence.positions import positions_of
from qdist.parallel.sequence.watch import explaining, watching
from qdist.parallel.zero.sharded_model import Zero
from qdist.tensor import Generator, Tensor, no_grad, random
from qdist.tensor.arrays import Array
from qdist.tensor.half import wide_array, widened

__all__ = ["ParallelModel", "parallelize"]


def parallelize(
    model: Module,
    mesh: Mesh,
    plan: Plan | None = None,
    *,
    optimizer: Callable[[Iterable[Any]], Optimizer],
    loss: Loss,
    example: Any = None,
) -> ParallelModel:
    """Spread a model over a mesh, so that it trains as it would in one process.

    Args:
        model: the whole one on every rank; the first rank's weights are taken over by all. Layers that were made
            divided over mesh["tp"] stay as they are. It is changed and must not be used on its own any more. A
            QuantumLayer in it is made without comm.
        mesh: its axes are some of "dp", "tp", "pp", "cp" and "state", with any degrees.
        plan: what is done along each axis; `Plan()` when not given.
        optimizer: makes the optimiser of the parameters that it is given: `lambda ps: optim.Adam(ps, lr=0.01)`. Each
            has its `name` in the whole model, for groups with options of their own; ranks make the same groups.
        loss: loss(output, targets): one number, a mean over rows, all of which count the same, or a sum, as its
            `reduction` says ("mean" if it has none); or a pair (numerator, denominator), for a mean over what is not
            masked. Losses of `nn` know what they are means over. A plain mean that masks is refused when it shows.
        example: inputs of a row or two, of any values. An axis "pp" of more than one rank needs it unless the model is
            a Sequential: the forward pass is traced on it, and cut into stages between calls of modules. What the code
            between modules does may depend on shapes and on `training`, and takes the same steps for every batch; code
            that looks at values, or keeps tensors for later, belongs into a module of its own.

    Raises ValueError, on every rank, for a mesh, a plan and a model that do not fit.

    >>> plan = Plan({"*.table": "vocabulary", "blocks.*": "block", "head": "column-gather"}, zero=1)
    >>> trained = parallelize(model, Mesh(comm, dp=2, tp=4), plan, optimizer=make_adam, loss=nn.CrossEntropyLoss())
    >>> value = trained.train_batch(x, y)
    """
    return ParallelModel(model, mesh, plan or Plan(), optimizer, loss, example)


class ParallelModel:
    """A model on a mesh with its optimiser: what `parallelize` gives. Every rank calls every method.

    Batches are this rank's rows: ranks that differ along "dp" bring different ones, the others the same, which every
    call compares (ValueError). Losses, norms and states that it gives are those of the whole model and the whole batch,
    on every rank. What is drawn at random (dropout) is what one process would draw for the whole batch, from the first
    rank's generator: seeds of ranks need not differ, nor be equal.
    """

    def __init__(
        self,
        model: Module,
        mesh: Mesh,
        plan: Plan,
        optimizer: Callable[[Iterable[Any]], Optimizer],
        loss: Loss,
        example: Any = None,
    ) -> None:
        if isinstance(optimizer, Optimizer) or not callable(optimizer):
            kind = type(optimizer).__name__
            raise TypeError(
                f"optimizer is a function that makes one for the parameters it is given, which are divided first, and "
                f"not an object of {kind}: `optimizer=lambda parameters: optim.{kind}(parameters, lr=...)`"
            )
        if not isinstance(mesh, Mesh):
            raise TypeError(f"mesh is a qdist.comm.Mesh, such as Mesh(comm, dp=2), not {type(mesh).__name__}")
        if not callable(loss):
            raise TypeError(f"loss is a function of outputs and targets, such as nn.MSELoss(), not {loss!r}")
        plan.check(mesh)
        self._precision = MixedPrecision(plan, model, mesh.comm, mesh.shape.get("dp", 1) * mesh.shape.get("cp", 1))
        self.mesh, self.plan, self._loss = mesh, plan, loss
        self._reduction = getattr(loss, "reduction", "mean")
        if self._reduction not in ("mean", "sum"):
            raise ValueError(f"the loss has reduction {self._reduction!r}: it must be a 'mean' or a 'sum' over rows")
        staged = mesh.shape.get("pp", 1) > 1
        names = fitting(model, plan.recompute)
        check_same_plan(plan, mesh.comm)
        check_same_model(model, mesh.comm)
        source = stage_source(model, mesh, plan, names, example) if staged else None
        whole = [parameter for parameter in model.parameters() if parameter.partition is None]
        broadcast([*whole, *model.buffers()], mesh.comm)
        model = divide(model, mesh, plan)
        for name, module in list(model.named_modules()):
            if name in names:
                recompute(module)
        self._replicas = replicas_of(mesh)
        self.pipeline = None if source is None else self._pipeline(source.divided(model))
        """What runs the stages, with an axis "pp"."""
        self.module: Module = model if self.pipeline is None else self.pipeline.module
        """This rank's part of the model. Names are those of the whole model."""
        for name, parameter in self.module.named_parameters():
            parameter.name = name if self.pipeline is None else self.pipeline.parameter_names[name]
        trained = [p for p in self.module.parameters() if p.requires_grad]
        self._precision.follow(trained)
        self._trained = {id(p) for p in trained}
        self.optimizer = optimizer(trained) if trained else None
        """Of this rank's parameters; None where it has none."""
        self.zero: Zero | None = None
        """What divides the optimiser's state, with a plan's `zero`."""
        if plan.zero and self.optimizer is not None:
            self.zero = Zero(
                self.module,
                self.optimizer,
                plan.zero,
                self._replicas,
                reduction=self._reduction,
                precision=plan.half,
            )
            self.zero.loss_scale = None  # All ranks of the mesh agree on one, not the replicas alone.
            for parameter in trained:
                parameter.clipped_by = "ParallelModel.step(max_norm=...)"
        if self.optimizer is not None and (staged or plan.zero):
            self.optimizer.whole_in = "the ParallelModel alone"
        self._generator = None if plan.seed is None else Generator(plan.seed)
        if self.pipeline is not None:
            self.pipeline.generator = self._generator
            for stage in self.pipeline.stages.values():
                stage.around = self._around
        self._backwards = self._steps = self._activations = 0
        self._replica: Replica | None = None
        if self.pipeline is None:
            self._replica = self.zero or DataParallel(self.module, self._replicas, reduction=self._reduction)

    def _pipeline(self, source: LayerList | TracedModel) -> Pipeline:
        plan = self.plan
        return Pipeline(
            source,
            self._loss,
            self.mesh["pp"],
            micro_batches=plan.micro_batches,
            schedule=plan.schedule,
            virtual_stages=plan.virtual_stages,
            partition=source.sizes,
        )

    # Training --------------------------------------------------------------------------------------------------------

    def train_batch(self, inputs: Any, targets: Any, *, max_norm: float | None = None) -> float:
        """One step of training; returns the loss before it. See `backward` and `step`."""
        loss = self.backward(inputs, targets)
        self.step(max_norm=max_norm)
        return loss

    def backward(self, inputs: Any, targets: Any, *, weight: float = 1.0) -> float:
        """Forward and backward passes of a batch; the gradients are added to those that are there, as in one process.

        Args:
            inputs: an array or Tensor of this rank's rows, or a tuple of them for a model that takes several.
            targets: what the loss takes.
            weight: what this pass counts for: 1 / k where k of them make a step.

        Along "cp" all ranks bring the whole sequence, the second axis; each takes its positions.

        Raises ValueError, on every rank and before anything is computed, where ranks bring rows that do not go together
        or have left out a call.
        """
        agreed = self._agree("backward", inputs, targets)
        x, y = self._own(inputs), self._own(targets)
        run = self._backward if self.pipeline is None else self._in_stages
        with self._precision.passing():
            value = run(x, y, agreed, weight)
        # Running averages are the first replica's: those of all rows nobody has.
        broadcast(self.module.buffers(), self._replicas)
        self._backwards += 1
        return value

    def _backward(self, x: Any, y: Any, agreed: Agreed, weight: float) -> float:
        assert self._replica is not None
        share = Share(agreed.rows, self._positions(x), self._drawing_from(agreed))
        self._replica.take_share(share)
        rows = agreed.rows[1] - agreed.rows[0]
        with random.placed(share), self._around(x):
            output = self._replica(*as_tuple(x))
        terms = loss_terms(self._loss, output, y, rows, self._reduction)
        if is_due(self._backwards + 1):
            batch = [tensor._data for tensor in (*as_tuple(x), *as_tuple(y))]
            self._activations = saved_bytes(terms.value, besides=[*batch, *frozen_arrays(self.module)])
        total, count = self._joined(terms.numerator, terms.denominator, self._problem_of(output, y))
        # Of a mean over all, 1 / count is this rank's share; the ranks' gradients are averaged. The loss itself is
        # scaled, since ranks may exchange gradients within the pass: ring attention, SyncBatchNorm.
        scale = weight * terms.factor * self._replicas.size / (1.0 if self._reduction == "sum" else count)
        scale *= self._precision.factor
        share.fix(0.0 if terms.factor == 0.0 else 1.0)
        loss = terms.value if scale == 1.0 else terms.value * scale
        if self.zero is not None:
            self.zero.backward(loss)
        else:
            loss.backward()
        return total if self._reduction == "sum" else total / count

    def _in_stages(self, x: Any, y: Any, agreed: Agreed, weight: float) -> float:
        assert self.pipeline is not None
        self._check_staged_rows(agreed)
        parameters = list(self.module.parameters())
        before = [parameter.grad for parameter in parameters]
        self.module.zero_grad()
        with ExitStack() as passes:
            passes.enter_context(nullcontext() if self.zero is None else self.zero.no_sync())
            passes.enter_context(self._lending())
            unit = self._precision.unit(self._loss, y, agreed.rows[1] - agreed.rows[0], self._reduction, self._replicas)
            batch = x, y, self._draws(x, agreed), weight * self._precision.factor, unit
            sums, problem = self._passes(self.pipeline.accumulate, *batch)
        self._activations = self.pipeline.peak_saved
        for parameter, earlier in zip(parameters, before) if problem is not None else ():
            parameter.grad = earlier
        total, count = self._joined(sums.numerator, sums.denominator, problem)
        loss, scale = sums.loss_and_scale(total, count, self._replicas.size, self._reduction)
        for parameter in parameters:
            if parameter.grad is not None:
                values = wide_array(parameter.grad.data)
                values *= scale
                parameter.grad = Tensor(values)
        if self.zero is None:
            average_gradients(self.module, self._replicas)
        for parameter, earlier in zip(parameters, before):
            if earlier is not None:
                parameter.grad = earlier if parameter.grad is None else Tensor(earlier.data + parameter.grad.data)
        return loss

    @staticmethod
    def _passes(run: Callable[..., Sums], *batch: Any) -> tuple[Sums, Exception | None]:
        """What the passes of a pipeline add up to; or nothing, and why they were refused: the ranks with other rows and
        positions have to be told before it is raised."""
        try:
            return run(*batch), None
        except CommError:
            raise
        except Exception as error:
            return Sums(0.0, 0.0, 1.0), error

    def step(self, *, max_norm: float | None = None) -> float | None:
        """Updates the parameters and forgets the gradients.

        Args:
            max_norm: scale the gradients to at most this joint norm before.

        Returns the norm before that, if max_norm is given. In float16, gradients that have overflowed on some rank are
        forgotten on all, without an update; that norm is infinite.

        Raises ValueError for a parameter that was frozen when the model was spread over the mesh and is not any more.
        """
        for parameter in self.module.parameters():
            if parameter.requires_grad and id(parameter) not in self._trained:
                raise ValueError(
                    f"{parameter.name!r} was frozen when the optimiser was made, and is to be trained now: thaw it "
                    "before parallelize(), and freeze it again after that"
                )
        self._steps += 1
        if not self._precision.may_step(self._graded()[0] if self.loss_scale is not None else ()):
            self.module.zero_grad() if self.zero is None else self.zero.zero_grad()
            return None if max_norm is None else math.inf
        norm = None if max_norm is None else self.clip_grad_norm_(max_norm)
        if self.zero is not None:
            self.zero.step()
        elif self.optimizer is not None:
            self.optimizer.step()
            self.optimizer.zero_grad()
        return norm

    def eval_batch(self, inputs: Any, targets: Any) -> float:
        """The loss of a batch in evaluation mode."""
        agreed = self._agree("eval_batch", inputs, targets)
        x, y = self._own(inputs), self._own(targets)
        if self.pipeline is not None:
            self._check_staged_rows(agreed)
            with self._lending():
                sums, problem = self._passes(self.pipeline.evaluate, x, y, self._draws(x, agreed))
            total, count = self._joined(sums.numerator, sums.denominator, problem)
        else:
            with no_grad():
                output = self._evaluating(x, agreed)
                terms = loss_terms(self._loss, output, y, agreed.rows[1] - agreed.rows[0], self._reduction)
            total, count = self._joined(terms.numerator, terms.denominator, self._problem_of(output, y))
        return total if self._reduction == "sum" else total / count

    def predict(self, inputs: Any) -> Any:
        """What the model gives for this rank's rows in evaluation mode: a Tensor, or a tuple of them.

        Along "cp" outputs have the whole sequence again, as their second axis.
        """
        agreed = self._agree("predict", inputs, None)
        x = self._own(inputs)
        if self.pipeline is None:
            outputs = self._evaluating(x, agreed)
        else:
            self._check_staged_rows(agreed)
            with self._lending():
                outputs = self.pipeline.predict(x, self._draws(x, agreed))
        outputs = widened(outputs)
        if self.mesh.shape.get("cp", 1) == 1:
            return outputs
        with no_grad():
            whole = [unshard_sequence(part, self.mesh["cp"]) for part in as_tuple(outputs)]
        return tuple(whole) if isinstance(outputs, tuple) else whole[0]

    def _evaluating(self, x: Any, agreed: Agreed) -> Any:
        assert self._replica is not None
        modes = [(module, module.training) for module in self.module.modules()]
        self.module.eval()
        place = Share(agreed.rows, self._positions(x))
        try:
            with no_grad(), random.placed(place), self._around(x):
                return self._replica(*as_tuple(x))
        finally:
            # Of each its own: batch norm, or dropout, may have been put into eval mode for good.
            for module, training in modes:
                module.training = training

    def memory(self) -> list[Memory]:
        """The bytes that each rank of the mesh has for parameters, gradients, the optimiser's state, and activations of
        its last batch. Collective."""
        mine = count_memory(self.module, self.optimizer, self.zero, self._activations)
        return [Memory(*entry) for entry in self.mesh.comm.all_gather_object(tuple(mine))]

    @property
    def loss_scale(self) -> LossScale | None:
        """What the loss is multiplied by, with a plan's `precision="float16"`."""
        return self._precision.loss_scale

    @property
    def skipped_steps(self) -> int:
        """How many steps were left out because gradients overflowed, in float16."""
        return self._precision.skipped

    @property
    def generator(self) -> Generator:
        """What is drawn from while training: the plan's own generator, or the default one of this rank."""
        return random.default_generator() if self._generator is None else self._generator

    # Gradients and states --------------------------------------------------------------------------------------------

    def clip_grad_norm_(self, max_norm: float) -> float:
        """Scales the gradients so that their joint norm is at most max_norm; returns the norm before."""
        check_max_norm(max_norm)
        graded, counting = self._graded()
        return clip_grad_norm_(graded, max_norm, **counting)

    def grad_norm(self) -> float:
        """The joint norm of the gradients."""
        graded, counting = self._graded()
        return grad_norm(graded, **counting)

    def gradients(self) -> dict[str, np.ndarray]:
        """The whole gradients by the names of the plain model's named_parameters(), without those that do not exist."""
        return saving.whole_gradients(self)

    def state_dict(self) -> dict[str, Tensor]:
        """The whole model's parameters and buffers by name, as the plain model's state_dict() gives them."""
        return saving.whole_state(self)

    def save(self, path: str | Path, extra: Any = None) -> None:
        """Writes model and optimiser to one file, each rank its part; any other mesh can load it.

        extra: a state of your own (an epoch, a scheduler's), the same on every rank.
        """
        saving.save(self, path, extra)

    def stored_state(self) -> dict[str, Any]:
        """What `save` writes of this rank, as a part of `training.steps`."""
        return saving.stored(self)

    def restoring(self, state: dict[str, Any]) -> Callable[[], None]:
        """Reads what `stored_state` gave, of this mesh or another; what is returned takes it over. Collective."""
        return saving.restoring(self, state)

    def load(self, path: str | Path) -> Any:
        """Takes over what `save` wrote, on this mesh or another; returns the extra state.

        What is drawn at random goes on too, so that dropout is as if nothing had happened.

        Raises ValueError for a file of another model, CheckpointError for a damaged one.
        """
        return saving.load(self, path)

    # Inside ----------------------------------------------------------------------------------------------------------

    def _own(self, given: Any) -> Any:
        """This rank's positions of arrays, as Tensors."""
        if isinstance(given, tuple):
            return tuple(self._own(part) for part in given)
        tensor = given if isinstance(given, Tensor) else Tensor(given)
        degree = self.mesh.shape.get("cp", 1)
        if degree == 1:
            return tensor
        if tensor.ndim < 2:
            raise ValueError(f"cp={degree} divides the second axis, the sequence, and a batch has shape {tensor.shape}")
        return shard_sequence(tensor, self.mesh["cp"])

    def _agree(self, call: str, inputs: Any, targets: Any) -> Agreed:
        rows = len(first_array(inputs))
        state = self.generator.state_dict()
        return agree_on_batch(self.mesh, call, self._backwards, self._steps, inputs, targets, rows, state)

    def _drawing_from(self, agreed: Agreed) -> Generator | None:
        """What a pass draws from: the plan's own generator or, where ranks differ, one like the first rank's."""
        if self._generator is not None or agreed.state == random.get_state():
            return self._generator
        generator = Generator()
        generator.load_state_dict(agreed.state)
        return generator

    def _positions(self, x: Any) -> Array | None:
        """The numbers, in the whole sequence, of the positions that this rank of "cp" has; None if they are not cut."""
        context, first = self.mesh.shape.get("cp", 1), as_tuple(x)[0]
        if context == 1:
            return np.arange(first.shape[1]) if self.plan.sequence_parallel and first.ndim > 1 else None
        return positions_of(self.mesh["cp"].rank, context, first.shape[1] * context)

    def _watching(self, x: Any) -> AbstractContextManager[None]:
        """Now and then, along "cp": raises ValueError where the model takes this rank's positions for all of them."""
        context = self.mesh.shape.get("cp", 1)
        if context == 1 and self.plan.sequence_parallel:
            return explaining(f"sequence_parallel along tp={self.mesh.shape['tp']}")
        if context == 1 or not is_due(self._backwards + 1):
            return nullcontext()
        return watching(as_tuple(x), context)

    def _lending(self) -> AbstractContextManager[None]:
        """For a pipeline's passes: modules may read parameters of others, which ZeRO gathers for them."""
        return nullcontext() if self.zero is None else self.zero.freeing()

    @contextmanager
    def _around(self, x: Any) -> Iterator[None]:
        """What the model's modules run in."""
        with self._precision.computing(), self._watching(x):
            yield

    def _draws(self, x: Any, agreed: Agreed) -> Draws:
        state = agreed.state
        return Draws(tuple(state["key"]), state["draw"], agreed.rows, self._positions(x))

    def _check_staged_rows(self, agreed: Agreed) -> None:
        """Raises ValueError, on all ranks, where the rows of a pipeline's replicas do not go together."""
        if min(agreed.held) == 0:
            raise ValueError(
                f"a pipeline needs at least one row on every rank of 'dp'; they have {agreed.held}: give each some, or "
                "skip this batch on all"
            )
        parts = {min(count, self.plan.micro_batches) for count in agreed.held}
        if self.plan.zero == 3 and len(parts) > 1:
            raise ValueError(
                f"zero=3 gathers parameters for every micro-batch, and the ranks of 'dp' have rows for {sorted(parts)} "
                f"micro-batches: give each at least {self.plan.micro_batches}"
            )

    def _problem_of(self, output: Any, y: Any) -> Exception | None:
        """Why the loss of a part of the batch cannot be joined with those of others, if so; now and then."""
        if self._replicas.size == 1 or not is_due(self._backwards + 1):
            return None
        try:
            check_mean_over(self._loss, output, y, (0, 1) if self.mesh.shape.get("cp", 1) > 1 else (0,))
        except ValueError as error:
            return error
        return None

    def _joined(self, total: float, count: float, problem: Exception | None = None) -> tuple[float, float]:
        """The numerators and denominators of all replicas. Raises ValueError on all of them if one has a problem."""
        if self._replicas.size > 1:
            # A count that is not a number says that there is a problem.
            mine = np.array([total, count if problem is None else math.nan])
            total, count = self._replicas.all_reduce(mine).tolist()
        if problem is not None:
            raise problem
        if math.isnan(count):
            raise ValueError("another rank cannot join its loss with those of others; its own error says why")
        if not count and self._reduction == "mean":
            raise ValueError(
                "a batch needs at least one row on some rank of 'dp', and at least one target that is not masked"
            )
        return total, count

    def _graded(self) -> tuple[list[Any], dict[str, Any]]:
        """What has this rank's gradients, and how they are counted: the arguments of `grad_norm`."""
        stages = [] if self.pipeline is None else [self.pipeline.comm]
        elsewhere = [] if self.pipeline is None else self.pipeline.tied.counted_elsewhere()
        if self.zero is None:
            return list(self.module.parameters()), {"over": stages, "elsewhere": elsewhere}
        skipped = {id(parameter) for parameter in elsewhere}
        parts = self.zero.graded()
        return parts, {
            "over": [self._replicas, *stages],
            "elsewhere": [part for part in parts if id(part.parameter) in skipped],
        }
