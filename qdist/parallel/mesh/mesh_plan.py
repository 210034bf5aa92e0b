"""Plan: how a model is spread over a mesh."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields

import numpy as np

from qdist.comm import Communicator, Mesh
from qdist.parallel.pipeline.schedules import make_schedule
from qdist.tensor.arrays import as_dtype

__all__ = ["AXES", "Plan", "check_same_plan", "listed", "replicas_of"]

AXES = {
    "dp": "rows of the batch",
    "tp": "heads, hidden units and vocabulary",
    "pp": "layers, in stages",
    "cp": "positions of the sequence",
    "state": "amplitudes of circuits",
}
"""What the axes of a mesh divide."""


@dataclass(frozen=True)
class Plan:
    """What `parallelize` does with each axis of a mesh that has more than one rank. The defaults do for "dp", "cp" and
    "state"; "tp" needs `layers`, or a model that was made of divided layers.

    Names are those of `model.named_modules()` and `model.named_parameters()`, such as "blocks.0.attention". Patterns
    are as in `fnmatch`, where "*" also stands for dots: "*.expand", "blocks.[0-3]", "blocks.*" (the blocks, without the
    modules inside them, which the form of a block divides).

    Args:
        layers: {pattern of module names: form}, for "tp". Forms:
            "block": a TransformerBlock, its heads and hidden units.
            "attention": a MultiHeadAttention, its heads.
            "column": a Linear, its outputs; every rank goes on with its own. "column-gather" gives all ranks all.
            "row": a Linear, its inputs, which a "column" before it left divided. "row-scatter" takes whole ones.
            "vocabulary": an Embedding, its rows.
            "norm", "dropout": a LayerNorm, a Dropout outside of blocks; they are named if `sequence_parallel`.
            "column-dropout": a Dropout of what a "column" left divided, before the "row". One that the plan does not
                name compares now and then what it is given, and refuses such parts.
        sequence_parallel: between divided layers each rank of "tp" has a slice of the sequence instead of all of it.
            The model must then begin with a "vocabulary" and end with a "column" form, and all that has parameters or
            drops out has to be named.
        positions: patterns of the names of parameters and buffers that have one row a position of the sequence
            ("wpe.weight"), at least as many as sequences are long. "cp" and sequence_parallel divide sequences, and
            whoever reads a table in a pass sees the rows of this rank's positions. Position code that reads no table
            takes `nn.positions(length)`. What would take this rank's positions for the first ones is refused.
        zero: over "dp" and "cp": 0 keeps everything on every rank, 1 divides the optimiser's state, 2 also the
            gradients, 3 also the parameters. With "pp", stage 3 gathers the parameters for every micro-batch, and
            gradients are divided when the last one has passed.
        recompute: patterns of the names of modules that keep only their inputs for the backward pass and run once more
            there.
        micro_batches: parts of a batch in the pipeline of "pp".
        schedule: of the pipeline: "naive", "f-then-b", "1f1b" or "interleaved".
        virtual_stages: stages a rank of "pp", for "interleaved".
        stages: how layers make stages. "balanced" makes the stages' shares of all flops and of all parameters as even
            as they can be; "parameters", "flops" and "time" (measured by the first rank) look at one of them; "count"
            gives all stages equally many layers; a list of numbers says how many each has, and a list of module names
            with which module each stage after the first begins (["blocks.2", "ln_f"]). A layer is a child of a
            Sequential or, in any other model, a call of a module by the forward code of the model.
        precision: "bfloat16" (with the package ml_dtypes) or "float16" has the model compute, and keep for the backward
            pass, in half precision, with sums in float32. Parameters stay float32, and so do their updates, checkpoints
            and losses; with `zero` they are half precision beside a float32 copy that is divided. Circuits keep their
            precision. None computes in the model's.
        loss_scale: what the loss is multiplied by at first, for "float16"; 2**16 when not given. It adapts: a step
            whose gradients overflow anywhere is left out on all ranks, and these are the steps that one process would
            leave out (of a loss of one's own with a denominator, a pipeline may leave out others).
        seed: of a generator for what the model draws while it trains (dropout), which goes on from batch to batch; the
            first rank's default generator, which `manual_seed` restarts, when not given.

    >>> Plan({"tokens": "vocabulary", "blocks.*": "block", "head": "column-gather"}, positions=["wpe.weight"], zero=1)
    """

    layers: Mapping[str, str] = field(default_factory=dict)
    sequence_parallel: bool = False
    positions: Sequence[str] = ()
    zero: int = 0
    recompute: Sequence[str] = ()
    micro_batches: int = 1
    schedule: str = "1f1b"
    virtual_stages: int = 1
    stages: str | Sequence[int] | Sequence[str] = "balanced"
    precision: str | None = None
    loss_scale: float | None = None
    seed: int | None = None

    @property
    def half(self) -> np.dtype | None:
        """The dtype of `precision`."""
        return None if self.precision is None else as_dtype(self.precision)

    def check(self, mesh: Mesh) -> None:
        """Raises ValueError for options that do not go together with each other or with a mesh."""
        unknown = [axis for axis in mesh.shape if axis not in AXES]
        if unknown:
            known = ", ".join(f"{axis!r} ({what})" for axis, what in AXES.items())
            raise ValueError(
                f"the mesh has an axis {unknown[0]!r}, which divides nothing of a model; known are {known}"
            )
        degree = mesh.shape.get
        if self.zero not in (0, 1, 2, 3):
            raise ValueError(f"zero={self.zero}: use 0, 1, 2 or 3")
        if self.sequence_parallel and degree("tp", 1) == 1:
            raise ValueError("sequence_parallel needs an axis 'tp' of more than one rank in the mesh")
        if self.precision not in (None, "bfloat16", "float16"):
            raise ValueError(f'precision={self.precision!r}: use "bfloat16", "float16", or None for the model\'s own')
        if self.loss_scale is not None and self.precision != "float16":
            raise ValueError(f'loss_scale={self.loss_scale} is for precision="float16": leave it out')
        # Refuses what is no schedule, also where a mesh without "pp" has no use for one.
        make_schedule(self.schedule, degree("pp", 1), self.micro_batches, self.virtual_stages)


def check_same_plan(plan: Plan, comm: Communicator) -> None:
    """Raises ValueError, on every rank, unless all ranks have the same plan: others would send what nobody expects."""
    plans = comm.all_gather_object({f.name: repr(getattr(plan, f.name)) for f in fields(plan)})
    for rank, other in enumerate(plans):
        different = [
            f"{name}={text} (rank 0: {plans[0][name]})" for name, text in other.items() if text != plans[0][name]
        ]
        if different:
            raise ValueError(f"rank {rank} has another plan than rank 0: {', '.join(different)}")


def listed(names: Iterable[str], most: int = 12) -> str:
    """The first names, for messages about patterns that fit none of them."""
    given = [name for name in names if name]
    more = f" and {len(given) - most} more" if len(given) > most else ""
    return f"there are {', '.join(given[:most])}{more}"


def replicas_of(mesh: Mesh) -> Communicator:
    """The ranks with the same parameters and other rows or positions."""
    axes = [axis for axis in ("dp", "cp") if axis in mesh]
    if axes:
        return mesh[axes]
    alone = mesh.comm.split([[rank] for rank in range(mesh.comm.size)])
    assert alone is not None, "every rank is in a group of one"
    return alone
