"""Pipeline: the layers of a model over the ranks, one part after the other, fed with micro-batches."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from qdist.comm import CommError, Communicator, Mesh, Message
from qdist.nn import Dropout, Module, Parameter, Sequential, materialize
from qdist.nn.agreement import is_due
from qdist.optim import Optimizer
from qdist.optim.clip import check_max_norm
from qdist.parallel.activation_memory import frozen_arrays
from qdist.parallel.gradient_norm import clip_grad_norm_
from qdist.parallel.loss_terms import Loss, LossTerms, check_mean_over
from qdist.parallel.partition import load_whole_state_dict, whole_state_dict
from qdist.parallel.pipeline import weight_stashing
from qdist.parallel.pipeline.balance import Costs, stage_sizes
from qdist.parallel.pipeline.executor import Elsewhere, Negotiated, Run, Stage, Sums
from qdist.parallel.pipeline.graph.traced_model import TracedModel
from qdist.parallel.pipeline.layer_desc import LayerDesc
from qdist.parallel.pipeline.layer_list import LayerList
from qdist.parallel.pipeline.micro_batches import Batch, agree, arrays_of, cutter
from qdist.parallel.pipeline.schedules import Schedule, make_schedule
from qdist.parallel.pipeline.stage_messages import channels_of
from qdist.parallel.pipeline.stages import Draws, Layer, names_in
from qdist.parallel.pipeline.tied_weights import TiedWeights
from qdist.parallel.replica.buckets import broadcast
from qdist.parallel.replica.data_parallel import average_gradients
from qdist.parallel.replica.shared_circuits import check_circuits
from qdist.tensor import Generator, Tensor, concatenate, random
from qdist.tensor.arrays import Array, as_dtype, device_of

__all__ = ["Pipeline", "decide_sizes"]


class Pipeline:
    """A model as a line of stages, stage s on rank s % ranks, that computes what the model computes in one process.

    Args:
        layers: Modules and functions, applied one after the other; a Sequential is one. A tuple that a layer gives is
            what the next takes. All ranks give the same list, with the same weights where a seed made them; each keeps
            its own part only. A LayerDesc, or a layer built inside nn.deferred(), gets its values only on ranks that
            keep it, so that all layers together may be larger than a rank's memory. Any other model is a Module with
            an `example`: its forward pass is traced, and cut between calls of its modules.
        loss: loss(output, target) for a micro-batch: one number, or a pair (numerator, denominator) for a mean over
            what is not masked; "output" is a tuple if the last layer gives one.
        comm: the ranks of the pipeline. A Mesh has its stages over "pp"; over "dp", if there is such an axis, are
            pipelines like this one with other rows of the batch: the gradients and losses are those of all rows.
        micro_batches: how many parts a batch is cut into, as even as can be; a batch of fewer rows has fewer.
        micro_batch_size: or instead how many rows a part has; the last part may have fewer.
        schedule: "naive", "f-then-b", "1f1b", "interleaved", or a Schedule of your own; "pipedream" updates after every
            micro-batch, with stashed weights, and is not what one process computes (see weight_stashing.py).
        virtual_stages: stages on each rank, for "interleaved".
        partition: how layers make stages: "balanced" by flops and parameters, "parameters", "flops", "time" (measured
            on the example by the first rank), "count", a list with the number of layers in each stage, or a list of the
            names of the modules with which all stages but the first begin.
        example: inputs of a row or two, of any values, for a model that is no list of layers, and to count flops and
            measure time with. The code between its modules takes the same steps for all batches.
        reduction: "mean" if one number is a mean over rows, all of which count the same, "sum" if it is a sum; the
            loss's own `reduction`, or "mean". Losses of `nn` know what they are means over.
        recompute: keep only the inputs of each stage and run it again in the backward pass, as GPipe does.
        seed: of a generator for what layers draw while training; the first rank's default generator when not given.
            Masks are those that one process would draw for the whole batch, however it is cut.

    A micro-batch is a batch of its own to layers that look at all rows, such as batch norm, whose running averages are
    those of the first pipeline along "dp".

    Raises ValueError on every rank if the ranks do not give the same.

    >>> pipeline = Pipeline(model, nn.CrossEntropyLoss(), comm, micro_batches=8)
    >>> optimizer = pipeline.make_optimizer(optim.Adam, lr=1e-3)
    >>> loss = pipeline.train_batch(x, y, optimizer)
    """

    def __init__(
        self,
        layers: Sequence[Layer | LayerDesc] | Any,
        loss: Loss,
        comm: Communicator | Mesh,
        *,
        micro_batches: int | None = None,
        micro_batch_size: int | None = None,
        schedule: str | Schedule = "1f1b",
        virtual_stages: int = 1,
        partition: str | Sequence[int] | Sequence[str] = "balanced",
        example: Any = None,
        reduction: str | None = None,
        recompute: bool = False,
        seed: int | None = None,
    ) -> None:
        self.comm, self._replicas = _axes(comm)
        if not callable(loss):
            raise TypeError(f"loss is a function of outputs and targets, such as nn.MSELoss(), not {loss!r}")
        self._loss, self._reduction = loss, _reduction_of(loss, reduction)
        self._recompute = recompute
        self._given, self._name, self._virtual_stages = None, schedule, virtual_stages
        if isinstance(schedule, Schedule):
            self._given, self._name = schedule, schedule.name
            self._check_given(schedule, micro_batches, micro_batch_size)
            micro_batches = schedule.micro_batches
        self._cut = cutter(micro_batches, micro_batch_size)
        first = self.schedule(1)
        own = range(self.comm.rank, first.stages, self.comm.size)
        source = self._source(layers, example, first.stages, partition)
        if isinstance(source, LayerList):
            check_circuits(source.given, self.comm)  # Before other errors; those described follow when they are built.
        sizes = decide_sizes(source, first.stages, partition, [self.comm, self._replicas])
        cut = source.cut(sizes, own)
        check_circuits(cut.whole.modules(), self.comm)
        self._idle = replace(first, micro_batches=0, actions=((),) * first.ranks)
        self._check_equal(cut.describe(), sizes, (self._name, micro_batches, micro_batch_size, seed))

        self.stages: dict[int, Stage] = {number: cut.stage(number) for number in own}
        """This rank's stages by their number."""
        self.module = cut.holder(own)
        """What this rank has of the model: names are those of the whole one."""
        materialize(self.module)
        self._all_names = frozenset(cut.whole.state_dict())
        self.state_names = _plain_state_names(cut.whole, self.module)
        """{name in module.state_dict(): name in that of the whole model}."""
        listing = {id(parameter): name for name, parameter in cut.whole.named_parameters()}
        self.parameter_names = {name: listing[id(parameter)] for name, parameter in self.module.named_parameters()}
        """{name in module.named_parameters(): name in that of the whole model}: what layers share has one."""
        self.names_of: dict[int, list[str]] = {id(parameter): [] for parameter in self.module.parameters()}
        """{id of a parameter: its names in the whole model}, also those under which only other stages have it."""
        for name, parameter in cut.whole._named("_parameters"):
            if id(parameter) in self.names_of:
                self.names_of[id(parameter)].append(name)
        self.tied = TiedWeights(cut.holders, [first.rank_of(number) for number in range(first.stages)], self.comm)
        """The weights that this rank shares with others."""
        cut.take(self.module)
        if self._replicas is not None:
            broadcast([*self.module.parameters(), *self.module.buffers()], self._replicas)
        self._channels = channels_of(self.comm, ring=first.virtual_stages > 1)
        self._negotiated: dict[bytes, Negotiated] = {}
        self.generator = None if seed is None else Generator(seed)
        """What layers draw from while training; None for the default generator."""
        self._batches = 0
        self.has_replicas = self._replicas is not None
        """Whether other pipelines have other rows of the batch, so that the loss must be one that can be joined."""
        self.after_loss: Callable[[Any, LossTerms], None] | None = None
        """Called with the outputs and the loss of every micro-batch, on the rank of the last stage."""
        self.peak_live = 0
        """The most micro-batches that waited for their backward pass in this rank's stages, in the last batch."""
        self.peak_saved = 0
        """The most bytes that their graphs kept at one time, in the last batch in which they were counted."""

    # Training --------------------------------------------------------------------------------------------------------

    def train_batch(
        self,
        inputs: Any = None,
        targets: Any = None,
        optimizer: Optimizer | None = None,
        *,
        max_norm: float | None = None,
        loss_scale: float = 1.0,
    ) -> float:
        """Forward and backward passes of a batch. Every rank calls.

        Args:
            inputs: an array or Tensor, or a tuple of them for a first layer that takes several, all with the same
                number of rows. Only the rank of the first stage uses it; the others may leave it out.
            targets: likewise, what the loss takes; only the rank of the last stage uses it.
            optimizer: of this rank's parameters. Its gradients are forgotten first, and it takes a step at the end;
                with schedule "pipedream" one after each micro-batch, which counts as a batch of its own.
                Without one the gradients are added to .grad, as by backward().
            max_norm: scale the gradients, of all stages together, to at most this norm.
            loss_scale: a factor of all gradients, which whoever updates the parameters takes out again.

        Returns:
            The loss of the whole batch, on every rank.

        Raises:
            ValueError: on every rank, before anything is computed, if a batch does not fit.
        """
        if max_norm is not None:
            check_max_norm(max_norm)
        stashing = self._name == weight_stashing.NAME
        if stashing:
            weight_stashing.check_stashing(self._replicas, len(self.tied), max_norm)
        # Those that the batch's are added to; an optimiser's are forgotten, and need no memory beside the new ones.
        before = [parameter.grad for parameter in self.parameters()] if optimizer is None else []
        run = self._prepare("train_batch", inputs, targets)
        run.loss_scale = loss_scale
        for parameter in self.parameters():
            parameter.grad = None
        if stashing:
            run.stashing = weight_stashing.Stashing(list(self.parameters()), optimizer)
        with self._joining_replicas() as join:
            sums = self._train(run)
        loss, scale = (sums.numerator / sums.denominator, 1.0) if stashing else join(sums)
        for parameter in self.parameters():
            if parameter.grad is not None and scale != 1.0:
                parameter.grad.data *= scale
        if self._replicas is not None:
            average_gradients(self.module, self._replicas)
            # Running averages are the first replica's, as with DataParallel: those of all rows nobody has.
            broadcast(self.module.buffers(), self._replicas)
        for parameter, earlier in zip(self.parameters(), before):
            if earlier is not None:
                parameter.grad = earlier if parameter.grad is None else Tensor(earlier.data + parameter.grad.data)
        if max_norm is not None:
            self.clip_grad_norm_(max_norm)
        if optimizer is not None and not stashing:
            optimizer.step()
        return loss

    def accumulate(
        self, inputs: Any, targets: Any, draws: Draws, loss_scale: float = 1.0, unit: float | None = None
    ) -> Sums:
        """Adds to the gradients those of a batch's numerator over `Sums.unit`, times loss_scale; for those who join
        pipelines by themselves. draws: what is drawn at random, and where in the whole batch the rows are. unit: about
        the denominator, where somebody knows it; the number of rows otherwise."""
        run = self._prepare("train_batch", inputs, targets, draws)
        run.loss_scale, run.given_unit = loss_scale, unit
        return self._train(run)

    def _train(self, run: Run) -> Sums:
        with self.tied.summing():
            run.run()
        self.peak_live = run.peak_live
        if run.measures:
            self.peak_saved = run.peak_saved
        sums, drawn = self._settled(run)
        generator = random.default_generator() if self.generator is None else self.generator
        state = generator.state_dict()
        if (tuple(state["key"]), state["draw"]) == (run.batch.draws.key, run.batch.draws.draw):
            generator.load_state_dict(state | {"draw": state["draw"] + drawn})
        return sums

    def eval_batch(self, inputs: Any = None, targets: Any = None) -> float:
        """The loss of a batch, on every rank, with the layers in evaluation mode. Arguments as for train_batch."""
        run = self._prepare("eval_batch", inputs, targets)
        with self._joining_replicas() as join:
            run.run()
            sums, _ = self._settled(run)
        return join(sums)[0]

    def evaluate(self, inputs: Any, targets: Any, draws: Draws) -> Sums:
        """As `accumulate`, in evaluation mode and without gradients."""
        run = self._prepare("eval_batch", inputs, targets, draws)
        run.run()
        return self._settled(run)[0]

    def predict(self, inputs: Any = None, draws: Draws | None = None) -> Any:
        """What the last layer gives for the whole batch, on every rank and on the CPU: a Tensor or a tuple of them.

        The layers are in evaluation mode. inputs: as for train_batch; draws: as for accumulate.
        """
        run = self._prepare("predict", inputs, None, draws)
        run.run()
        self._settled(run)
        last = self.comm.size - 1
        parts = [run.outputs[m] for m in sorted(run.outputs)]
        whole = [concatenate(rows).numpy() for rows in zip(*parts, strict=True)]
        kinds = self.comm.broadcast_object([(a.shape, a.dtype.name) for a in whole], last)
        if self.comm.rank != last:
            whole = [np.empty(shape, as_dtype(dtype)) for shape, dtype in kinds]
        outputs = tuple(Tensor(self.comm.broadcast(a, last)) for a in whole)
        return outputs[0] if len(outputs) == 1 else outputs

    def clip_grad_norm_(self, max_norm: float) -> float:
        """Scale all gradients so that their joint norm over all stages is at most max_norm; returns the norm before.

        Raises RuntimeError on every rank if the norm is not finite.
        """
        elsewhere = self.tied.counted_elsewhere()
        return clip_grad_norm_(self.parameters(), max_norm, over=[self.comm], elsewhere=elsewhere)

    # What it is ------------------------------------------------------------------------------------------------------

    def schedule(self, micro_batches: int) -> Schedule:
        """The schedule of a batch that is cut into so many parts; one of your own is always the same."""
        if self._given is not None:
            return self._given
        return make_schedule(self._name, self.comm.size, micro_batches, self._virtual_stages)

    def parameters(self) -> Iterator[Parameter]:
        """This rank's parameters."""
        return self.module.parameters()

    def make_optimizer(self, kind: Callable[..., Optimizer], **options: Any) -> Optimizer | None:
        """kind(parameters, **options) for this rank's parameters; None, which train_batch takes, if it has none."""
        parameters = list(self.parameters())
        if not parameters:
            return None
        made = kind(parameters, **options)
        made.whole_in = "parallel.Saved(pipeline, optimizer)"
        return made

    @contextmanager
    def recording(self) -> Iterator[list[Message]]:
        """Within it, this rank's messages inside the pipeline are noted; the list is complete when it ends."""
        with self.comm.recording() as noted, self._channels.recording() as messages:
            yield messages
        messages += noted

    def whole_state_dict(self) -> dict[str, Tensor]:
        """The state of the whole model, as the Sequential of all layers gives it, on every rank."""
        own = {self.state_names[name]: value for name, value in whole_state_dict(self.module).items()}
        kinds = self.comm.all_gather_object([(name, value.shape, value.dtype.str) for name, value in own.items()])
        state: dict[str, Tensor] = {}
        for root, tensors in enumerate(kinds):
            for name, shape, dtype in tensors:
                if name not in state:  # What is tied has a copy on several ranks.
                    values = own[name].numpy() if root == self.comm.rank else np.empty(shape, dtype)
                    state[name] = Tensor(self.comm.broadcast(values, root))
        return state

    def load_whole_state_dict(self, state: dict[str, Any]) -> None:
        """Take this rank's part of what whole_state_dict(), or the plain model's state_dict(), gave.

        Raises ValueError, as load_state_dict, for names that no layer has, names of this rank that are missing, and
        shapes that do not fit.
        """
        if unknown := [name for name in state if name not in self._all_names]:
            raise ValueError(f"this state does not fit the pipeline's layers: unknown: {', '.join(unknown)}")
        mine = {name: state[plain] for name, plain in self.state_names.items() if plain in state}
        load_whole_state_dict(self.module, mine)

    # Inside ----------------------------------------------------------------------------------------------------------

    def _source(self, layers: Any, example: Any, stages: int, partition: Any) -> LayerList | TracedModel:
        """What the stages are cut out of."""
        if isinstance(layers, (LayerList, TracedModel)):
            return layers
        if example is None or not isinstance(layers, Module) or isinstance(layers, Sequential):
            return LayerList(layers, example)
        return TracedModel(layers, example, stages, names_in(partition))

    def _check_given(self, schedule: Schedule, count: int | None, size: int | None) -> None:
        """Raise ValueError unless a schedule of the user's own fits."""
        if (count, size, self._virtual_stages) != (None, None, 1):
            raise ValueError("a Schedule says how many micro-batches and virtual stages there are: leave them out")
        if schedule.ranks != self.comm.size:
            raise ValueError(f"the schedule is for {schedule.ranks} ranks, the pipeline has {self.comm.size}")
        schedule.check()

    def _prepare(self, call: str, inputs: Any, targets: Any, draws: Draws | None = None) -> Run:
        """Agree with the other ranks on a batch, and on all that is needed to take it through the stages."""
        training, problem = call == "train_batch", None
        arrays: tuple[Array, ...] = ()
        goals: tuple[Array, ...] = ()
        try:
            arrays, goals = arrays_of("inputs", inputs), arrays_of("targets", targets)
        except (TypeError, ValueError) as error:
            problem = error
        own = (random.default_generator() if self.generator is None else self.generator).state_dict()
        rows, key, state = agree(self.comm, call, arrays, goals, problem, self._fingerprint(arrays), own)
        bounds = self._cut(rows)
        if not rows and (self._replicas is None or call == "predict"):
            raise ValueError("a batch needs at least one row")
        if rows and self._given is not None and len(bounds) != self._given.micro_batches:
            raise ValueError(
                f"a batch of {rows} rows does not make the schedule's {self._given.micro_batches} micro-batches"
            )
        # A pipeline beside others may have no row of a small batch: it waits for what they find.
        schedule = self.schedule(len(bounds)) if rows else self._idle
        self.module.train(training)
        for stage in self.stages.values():
            stage.train(training)
        self._batches += training
        # With stashed weights a micro-batch is a batch of its own, and nothing is joined.
        apart = training and self._name == weight_stashing.NAME
        measures = training and is_due(self._batches)
        parted = self._reduction == "mean" and not apart and (len(bounds) > 1 or self.has_replicas)
        return Run(
            schedule=schedule if training else schedule.forward_only(),
            rank=self.comm.rank,
            stages=self.stages,
            channels=self._channels,
            negotiated=self._negotiated.setdefault(key, {}),
            batch=Batch(arrays, goals, bounds, draws or self._draws(rows, state)),
            loss=None if call == "predict" else self._loss,
            training=training,
            recompute=self._recompute,
            reduction=self._reduction,
            apart=apart,
            measures=measures,
            frozen=frozen_arrays(self.module) if measures else (),
            after_loss=self.after_loss,
            check=partial(check_mean_over, self._loss, axes=(0,)) if parted and is_due(self._batches) else None,
        )

    def _fingerprint(self, inputs: tuple[Array, ...]) -> int:
        """What shapes of messages depend on, besides what is fixed: after a change they are announced anew."""
        shapes = [(a.shape[1:], a.dtype.str, device_of(a)) for a in inputs]
        dropped = [m.p if isinstance(m, Dropout) else getattr(m, "dropout", 0.0) for m in self.module.modules()]
        dropping = [p > 0 for p in dropped if isinstance(p, float)]
        return zlib.crc32(repr((shapes, dropping, [p.requires_grad for p in self.parameters()])).encode())

    def _draws(self, rows: int, state: dict[str, Any]) -> Draws:
        """What is drawn for a batch, from the first pipeline's generator, and where its rows are in that of all."""
        place = 0, rows, rows
        if self._replicas is not None:
            mine = np.array([rows, *state["key"], state["draw"]], np.uint64)
            everyone = self._replicas.all_gather(mine).tolist()
            held = [entry[0] for entry in everyone]
            if not sum(held):
                raise ValueError("a batch needs at least one row")
            first = sum(held[: self._replicas.rank])
            place = first, first + rows, sum(held)
            state = {"key": everyone[0][1:3], "draw": everyone[0][3]}
        return Draws(tuple(state["key"]), state["draw"], place)

    def _settled(self, run: Run) -> tuple[Sums, int]:
        """What the rank of the last stage has added up, on every rank, and how many random draws a pass makes.

        Raises, on every rank, what a stage of one of them raised.
        """
        problem, last = run.problem or run.doubt, self.comm.rank == self.comm.size - 1
        mine = [run.total, run.count, run.unit, run.drawn] if last and problem is None else [0.0] * 4
        failed, *sums = self.comm.all_reduce(np.array([problem is not None, *mine], float)).tolist()
        if failed:
            texts = self.comm.all_gather_object(None if isinstance(problem, Elsewhere) else problem and str(problem))
            if problem is not None and not isinstance(problem, Elsewhere):
                raise problem
            rank = next((rank for rank, text in enumerate(texts) if text is not None), 0)
            raise ValueError(f"rank {rank} of the pipeline has a stage that refuses the batch: {texts[rank]}")
        return Sums(*sums[:3]), int(sums[3])

    @contextmanager
    def _joining_replicas(self) -> Iterator[Callable[[Sums], tuple[float, float]]]:
        """Gives what tells the loss of all rows, and what makes the mean over replicas of the gradients those of all
        rows. What is raised within it is raised on all replicas."""
        comm, replicas = self._replicas, 1 if self._replicas is None else self._replicas.size

        def join(sums: Sums) -> tuple[float, float]:
            total, count = sums.numerator, sums.denominator
            if comm is not None:
                failed, total, count = comm.all_reduce(np.array([0.0, total, count])).tolist()
                if failed:
                    raise ValueError("a pipeline with other rows of the batch refuses it; its own error says why")
            return sums.loss_and_scale(total, count, replicas, self._reduction)

        try:
            yield join
        except CommError:
            raise
        except Exception:
            if comm is not None:
                comm.all_reduce(np.array([1.0, 0.0, 0.0]))
            raise

    def _check_equal(self, parameters: str, sizes: list[int], options: tuple[Any, ...]) -> None:
        """Raise ValueError on every rank unless all gave the same."""
        mine = {"options": repr(options), "stages": str(sizes), "parameters": parameters}
        for comm in (self.comm, self._replicas):
            if comm is None:
                continue
            everyone = comm.all_gather_object(mine)
            for rank, other in enumerate(everyone):
                for what, value in other.items():
                    if value != everyone[0][what]:
                        raise ValueError(
                            f"the ranks of a pipeline give the same layers and options: the {what} of rank {rank} are "
                            f"{value}, those of rank 0 are {everyone[0][what]}"
                        )


def decide_sizes(
    source: LayerList | TracedModel, stages: int, partition: Any, comms: Sequence[Communicator | None]
) -> list[int]:
    """How many layers each stage has. comms: all ranks that must come to the same.

    Raises ValueError for a partition that does not fit.
    """
    names = names_in(partition)
    if names is not None:
        return source.named_sizes(names, stages)
    costs = source.costs()
    if partition == "time":
        # One rank's measurements, so that all make the same cut.
        for comm in comms:
            costs = costs if comm is None else Costs(*comm.broadcast_object(tuple(costs), 0))
    return stage_sizes(costs, stages, partition)


def _axes(comm: Communicator | Mesh) -> tuple[Communicator, Communicator | None]:
    """The ranks of the pipeline, and those with the same stages of other pipelines."""
    if isinstance(comm, Communicator):
        return comm, None
    if "pp" not in comm:
        raise ValueError(f"{comm!r} has no axis 'pp' for the stages of a pipeline: make it with pp=...")
    return comm["pp"], comm["dp"] if "dp" in comm and comm.shape["dp"] > 1 else None


def _plain_state_names(whole: Module, module: Module) -> dict[str, str]:
    """For each name in the module's state the whole one's: another where an earlier layer is the same one."""
    known = whole.state_dict()
    found = {_identity(value): name for name, value in known.items()}
    return {name: name if name in known else found[_identity(value)] for name, value in module.state_dict().items()}


def _identity(value: Any) -> int:
    """The same for all names of one tensor; one without values is its own detached form."""
    return id(value) if getattr(value, "deferred", False) else id(value.data)


def _reduction_of(loss: Any, given: str | None) -> str:
    reduction = getattr(loss, "reduction", "mean") if given is None else given
    if reduction not in ("mean", "sum"):
        raise ValueError(f"reduction {reduction!r}: the loss of a pipeline is a 'mean' or a 'sum' over rows")
    return reduction
