"""DistTensor: a tensor of one global shape, of which every rank of a mesh holds its part."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from qdist.nn.deferred import DeferredParameter
from qdist.nn.module import Parameter
from qdist.parallel.auto.eager import capture
from qdist.parallel.auto.eager.crossing import cross, placeholder
from qdist.parallel.auto.eager.same_value import first_value, same_value
from qdist.parallel.auto.placement.moves import gradient_of
from qdist.parallel.auto.placement.placements import Placement, Replicate, Shard, cuts, local_part, placements_of
from qdist.parallel.auto.placement.process_mesh import ProcessMesh
from qdist.parallel.auto.placement.reshard import reshard_local
from qdist.tensor import Tensor, no_grad
from qdist.tensor.arrays import Array, to_device
from qdist.tensor.autograd import mode
from qdist.tensor.versions import Version

__all__ = ["DistParameter", "DistTensor", "place_tensor", "reshard", "shard_tensor"]

_Key = tuple[tuple[Placement, ...], tuple[bool, ...]]


class DistTensor(Tensor):
    """A tensor on a mesh. It has the global shape and takes part in all operations as any Tensor does.

    What leaves it (numpy(), item(), float()) is the global value, the same on every rank, and takes communication, so
    every rank of the mesh's communicator has to ask. `local` is the rank's own part, a plain Tensor, whose array is
    `data`; on a rank outside of the mesh it is empty.

    Attributes:
        local: this rank's part; gradients are recorded on it.
        mesh: the ProcessMesh.
        placements: one for each mesh axis.
    """

    def __init__(
        self, local: Tensor, mesh: ProcessMesh, placements: tuple[Placement, ...], shape: tuple[int, ...]
    ) -> None:
        self.local = local
        self.mesh = mesh
        self.placements = placements
        self._shape = shape
        # What it was resharded to before: a tensor that three products use travels once.
        self._moved: dict[_Key, Tensor] = {}

    # Tensor.dispatch, which runs an operation with such an input, is set by dispatch.py: it makes DistTensors itself.

    # What a Tensor keeps is kept by the local part

    @property
    def _data(self) -> Array:  # type: ignore[override]
        return self.local._data

    @_data.setter
    def _data(self, value: Array) -> None:
        self.local._data = value

    @property
    def _version(self) -> Version:  # type: ignore[override]
        return self.local._version

    @property
    def _node(self) -> Any:  # type: ignore[override]
        return self.local._node

    @_node.setter
    def _node(self, value: Any) -> None:
        self.local._node = value

    @property
    def _hooks(self) -> Any:  # type: ignore[override]
        return self.local._hooks

    @_hooks.setter
    def _hooks(self, value: Any) -> None:
        self.local._hooks = value

    @property
    def _complete(self) -> Any:  # type: ignore[override]
        return self.local._complete

    @_complete.setter
    def _complete(self, value: Any) -> None:
        self.local._complete = value

    @property
    def requires_grad(self) -> bool:  # type: ignore[override]
        return self.local.requires_grad

    @requires_grad.setter
    def requires_grad(self, flag: bool) -> None:
        self.local.requires_grad = flag

    @property
    def grad(self) -> DistTensor | None:  # type: ignore[override]
        """The gradient, placed as the tensor is (whole where the tensor is a sum); None before backward()."""
        if self.local.grad is None:
            return None
        return DistTensor(self.local.grad, self.mesh, tuple(map(gradient_of, self.placements)), self._shape)

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        self.local.grad = value.local if isinstance(value, DistTensor) else value

    def _edge(self) -> Any:
        return self.local._edge()

    # What it is

    @property
    def shape(self) -> tuple[int, ...]:
        """The global shape."""
        return self._shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._shape)

    @property
    def size(self) -> int:
        """How many numbers in all."""
        return math.prod(self._shape)

    def __repr__(self) -> str:
        return (
            f"DistTensor(shape={self.shape}, dtype={self.dtype}, placements={list(self.placements)} on "
            f"{self.mesh.dim_names}, local={self.local.shape})"
        )

    # Out of the mesh

    def full(self) -> Tensor:
        """The global value as a plain Tensor, whole on every rank; gradients flow back. Collective over the mesh."""
        whole = (Replicate(),) * len(self.placements)
        with capture.paused():
            value = self.whole_on_members()
            if self.mesh.partial:
                everyone = range(self.mesh.comm.size)
                value = cross(value, self.mesh.comm, self.mesh.members, everyone, self._shape)
        capture.note(capture.ANNOTATE, (self,), {"mesh": self.mesh, "placements": whole}, value)
        return value

    def whole_on_members(self) -> Tensor:
        """The global value on the ranks of the mesh, a placeholder on others. Collective over the mesh."""
        whole = (Replicate(),) * len(self.placements)
        return self.local if self.mesh.coordinates is None else self.local_as(whole)

    def numpy(self) -> np.ndarray:
        """The global value as a NumPy array. Collective over the mesh."""
        return self.full().numpy()

    def item(self) -> Any:
        """The only element, as a Python number. Collective over the mesh."""
        return self.full().item()

    def tolist(self) -> Any:
        """The global values as (nested) Python numbers. Collective over the mesh."""
        return self.full().tolist()

    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("a DistTensor is not exported; export t.full().detach() or t.local.detach()")

    def local_as(self, placements: tuple[Placement, ...], differs: Sequence[bool] | None = None) -> Tensor:
        """This rank's part with other placements on the same mesh.

        Args:
            placements: the new ones.
            differs: for each axis, whether its ranks go on to use it each in its own way; see `moves.gradient_of`.
        """
        split = (False,) * len(placements) if differs is None else tuple(differs)
        key = placements, split
        moved = None if isinstance(self, Parameter) else self._moved.get(key)
        if moved is None or moved.requires_grad != (self.requires_grad and mode.grad) or _spent(moved):
            moved = reshard_local(self.local, self.mesh, self._shape, self.placements, placements, split)
            if moved is not self.local and not isinstance(self, Parameter):
                # Of a parameter, whose value changes with every step, nothing is kept.
                self._moved[key] = moved
        return moved

    # Gradients and changes in place

    def detach(self) -> DistTensor:
        return DistTensor(self.local.detach(), self.mesh, self.placements, self._shape)

    def backward(self, gradient: Any = None, *, retain_graph: bool = False, create_graph: bool = False) -> None:
        """As Tensor.backward; a gradient is given as the global array or as a DistTensor."""
        if gradient is None:
            if self.size != 1:
                raise ValueError(f"backward() of a tensor of shape {self.shape} needs a gradient of that shape")
            # Every term of a sum has the gradient of the sum, so a Partial loss need not be added up first.
            own = Tensor(np.ones(self.local.shape, self.dtype), device=self.device)
        else:
            lying = tuple(map(gradient_of, self.placements))
            own = shard_tensor(Tensor(gradient) if not isinstance(gradient, Tensor) else gradient, self.mesh, lying)
            own = own.local.to(self.dtype)
        self.local.backward(own, retain_graph=retain_graph, create_graph=create_graph)

    def assign(self, value: Any) -> DistTensor:
        """Overwrite the values in place with a global array or a DistTensor of the same shape; returns itself."""
        given = value if isinstance(value, Tensor) else Tensor(value)
        if given.shape != self.shape:
            raise ValueError(f"cannot assign shape {given.shape} to a tensor of shape {self.shape}")
        with no_grad():
            self.local.assign(shard_tensor(given.detach(), self.mesh, self.placements).local)
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        raise RuntimeError("parts of a DistTensor are not written; use assign(), where() or scatter_add()")


class DistParameter(DistTensor, Parameter):
    """A Parameter of which every rank holds its part. A Parameter becomes one by shard_tensor()."""


def _spent(tensor: Tensor) -> bool:
    """Whether a backward pass has gone through the graph of this tensor and freed it."""
    return tensor.node is not None and tensor.node.freed


def shard_tensor(x: Any, mesh: ProcessMesh, placements: Any) -> Any:
    """Place a tensor on a mesh.

    Args:
        x: a Tensor or array with the same global value on every rank; or a DistTensor, which is resharded. A Parameter
            becomes a DistParameter in place, so that its module and its optimiser go on with this rank's part.
        mesh: the ProcessMesh.
        placements: one a mesh axis, or one axis name (or None) a dimension: [None, "mp"].

    Returns:
        A DistTensor; x itself when it is a Parameter.

    Raises:
        ValueError: for placements that do not fit the mesh or the shape, see `placements_of`; on every rank of the mesh
            where their values differ (see `same_value`). Of a Parameter all take the first rank's, as DataParallel
            does.

    Ranks outside of the mesh call as well, and keep the shape alone; of a Parameter they give the values up.
    """
    return place_tensor(x, mesh, placements, compare=not capture.is_capturing())


def place_tensor(x: Any, mesh: ProcessMesh, placements: Any, compare: bool = False) -> Any:
    """shard_tensor(), where the ranks compare what they have only when asked to."""
    if isinstance(x, DistTensor) and not isinstance(x, Parameter):
        return reshard(x, mesh, placements)
    x = x if isinstance(x, Tensor) else Tensor(x)
    target = checked_placements(x, mesh, placements)
    if isinstance(x, DistParameter):
        return _replace(x, mesh, target)
    if isinstance(x, Parameter):
        return _become(x, mesh, target, compare)
    if compare:
        x = same_value(x, mesh)
    return _placed(x, _on_members(x, mesh), mesh, (Replicate(),) * len(target), target)


def reshard(x: Any, mesh: ProcessMesh, placements: Any) -> Any:
    """A DistTensor placed anew, on the same mesh or another, of the same ranks or of others; gradients flow back.

    To other ranks it travels whole: from one stage of a pipeline to the next. All ranks of the communicator call.

    Raises:
        TypeError: for anything but a DistTensor.
        ValueError: for placements that do not fit, or a mesh over another communicator.
    """
    if not isinstance(x, DistTensor):
        raise TypeError(f"reshard takes a DistTensor, not {type(x).__name__}; place it with shard_tensor() first")
    target = checked_placements(x, mesh, placements)
    if mesh == x.mesh:
        return _placed(x, x.local, mesh, x.placements, target)
    if mesh.comm is not x.mesh.comm:
        raise ValueError(f"a tensor on {x.mesh} cannot be resharded to {mesh}: the two have different communicators")
    with capture.paused():
        whole = x.whole_on_members()
        if sorted(mesh.members) != sorted(x.mesh.members):
            whole = cross(whole, mesh.comm, x.mesh.members, mesh.members, x.shape)
    return _placed(x, whole, mesh, (Replicate(),) * len(target), target)


def _placed(x: Tensor, local: Tensor, mesh: ProcessMesh, source: Any, target: tuple[Placement, ...]) -> DistTensor:
    """x, of which this rank holds `local` by `source`, placed by `target`."""
    with capture.paused():
        own = local if mesh.coordinates is None else reshard_local(local, mesh, x.shape, source, target)
        moved = DistTensor(own, mesh, target, x.shape)
    capture.note(capture.ANNOTATE, (x,), {"mesh": mesh, "placements": target}, moved)
    return moved


def _on_members(x: Tensor, mesh: ProcessMesh) -> Tensor:
    """x, whole on every rank of the mesh's communicator, and then on its members alone; the others get its gradient."""
    if not mesh.partial:
        return x
    if not x.requires_grad:
        return placeholder(x) if mesh.coordinates is None else x
    return cross(x, mesh.comm, range(mesh.comm.size), mesh.members, x.shape)


def checked_placements(x: Tensor, mesh: ProcessMesh, placements: Any) -> tuple[Placement, ...]:
    """The placements, one a mesh axis; ValueError where they do not fit."""
    target = placements_of(placements, mesh, x.ndim)
    check_lengths(x.shape, mesh, target)
    return target


def check_lengths(shape: tuple[int, ...], mesh: ProcessMesh, placements: Sequence[Placement]) -> None:
    """Raise ValueError where a dimension is too short to give every rank something."""
    for dim, length in enumerate(shape):
        cutting = [p for p in placements if isinstance(p, Shard) and p.dim == dim]
        blocks = max((p.blocks for p in cutting), default=1)
        if blocks > 1 and (len(cutting) > 1 or length % blocks):
            raise ValueError(
                f"dimension {dim} of shape {shape}: {blocks} blocks have to be equal, and one axis alone cuts them"
            )
        parts = blocks * math.prod(n for n, p in zip(mesh.shape, placements) if cuts(p, dim))
        if 1 < parts > length:
            raise ValueError(
                f"dimension {dim} of shape {shape} has length {length} and cannot be cut into {parts} parts; "
                "shard another dimension or use Replicate()"
            )


def _become(parameter: Parameter, mesh: ProcessMesh, target: tuple[Placement, ...], compare: bool) -> Parameter:
    """Turn a Parameter into a DistParameter, keeping its identity."""
    if any(not isinstance(p, (Shard, Replicate)) for p in target):
        raise ValueError(f"a parameter is placed with Shard and Replicate, not {list(target)}")
    own = _own_values(parameter, mesh, target, compare)
    shape, wants = parameter.shape, parameter.requires_grad
    for name in ("_data", "_version", "requires_grad", "grad", "_hooks", "_complete", "_draw", "_state"):
        parameter.__dict__.pop(name, None)
    parameter.__class__ = DistParameter
    DistTensor.__init__(parameter, Tensor(own, wants), mesh, target, shape)  # type: ignore[arg-type]
    return parameter


def _own_values(parameter: Parameter, mesh: ProcessMesh, target: tuple[Placement, ...], compare: bool) -> Any:
    """This rank's part, copied. Of a parameter that was built without values they are drawn by members alone."""
    if mesh.coordinates is None:
        if isinstance(parameter, DeferredParameter):
            return to_device(np.empty(0, parameter.dtype), parameter.device)
        return placeholder(parameter)
    whole = parameter.values() if isinstance(parameter, DeferredParameter) else parameter.data
    whole = first_value(whole, mesh) if compare else whole
    return local_part(whole, target, mesh.shape, mesh.place()).copy()


def _replace(parameter: DistParameter, mesh: ProcessMesh, target: tuple[Placement, ...]) -> DistParameter:
    """Move a DistParameter; nothing happens when it lies so already."""
    if mesh == parameter.mesh and target == parameter.placements:
        return parameter
    if any(not isinstance(p, (Shard, Replicate)) for p in target):
        raise ValueError(f"a parameter is placed with Shard and Replicate, not {list(target)}")
    with no_grad():
        moved = reshard(parameter.detach(), mesh, target)
    wants = parameter.requires_grad
    DistTensor.__init__(parameter, Tensor(moved.data.copy(), wants), mesh, target, parameter.shape)
    return parameter
