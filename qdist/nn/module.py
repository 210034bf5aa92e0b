"""Module: parameters, buffers and sub-modules under dotted names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

import numpy as np

from ..tensor import Tensor, no_grad
from ..tensor.arrays import as_dtype, kind_of
from .attributes import as_buffer, check_trainable, refuse_replacement, refuse_unlisted
from .hooks import Hooks, enlist


class Parameter(Tensor):
    """A leaf Tensor that a Module lists among its parameters."""

    partition: Any = None
    """How the values lie in a larger parameter that is divided over ranks; see qdist/parallel/partition.py."""
    replicated: bool = True
    """Whether all values are on this rank at all times."""
    clipped_by: str | None = None
    """What clips its gradient: that is not here when a backward pass is over, as where ZeRO has divided it."""
    deferred: bool = False
    """Whether it has no values yet; see qdist/nn/deferred.py."""
    name: str = ""
    """In the whole model, once that is spread over a mesh (`parallel.parallelize`)."""
    keeps_precision: bool = False
    """Whether it stays as it is where a model is made to compute in half precision: angles of circuits."""
    listed = True
    label: str = "a parameter"
    """For errors: the class of the module and the name that it was first assigned to, such as Linear.weight."""

    def __init__(self, data: Any, requires_grad: bool = True, *, dtype: Any = None) -> None:
        super().__init__(data, requires_grad, dtype=dtype)

    def convert(self, target: Any) -> None:
        """Move to a device, or to a floating dtype; the gradient is dropped."""
        _convert(self, target)


def _convert(tensor: Tensor, target: Any) -> None:
    tensor.data = tensor.detach().to(target).data
    tensor.grad = None


class Module:
    """The base of all layers: write forward(), assign Parameters and Modules as attributes.

    A tensor that belongs to the state but is not trained (running averages) is a buffer: `register_buffer`. It stays
    one when it is assigned to (``self.count += 1``). A Parameter or Module is replaced by its like or by None alone;
    modules in a plain list are refused when parameters are listed: use ModuleList.
    """

    _looked_through = False  # for parameters that nothing lists
    _hooks: Hooks | None = None

    def __init__(self) -> None:
        self.training = True
        # None in the place of what was taken away and may come back.
        self._parameters: dict[str, Parameter | None] = {}
        self._buffers: dict[str, Tensor | None] = {}
        self._modules: dict[str, Module | None] = {}

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes."""
        raise NotImplementedError(f"{type(self).__name__} has no forward()")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self.forward(*args, **kwargs) if self._hooks is None else self._hooks.call(self, args, kwargs)
        except AttributeError as error:
            if args and error.obj is args[0] and isinstance(args[0], list | tuple | str | int | float | None):
                kind = type(args[0]).__name__
                raise TypeError(
                    f"{type(self).__name__} takes a Tensor or an array, not {kind}: Tensor(x) makes one of numbers"
                ) from None
            raise

    def _hooked(self) -> Hooks:
        if self._hooks is None:
            self.__dict__["_hooks"] = Hooks()
        assert self._hooks is not None
        return self._hooks

    def register_forward_pre_hook(self, hook: Callable[[Module, tuple[Any, ...]], Any]) -> Callable[[], None]:
        """Call hook(module, inputs) before every forward(); inputs that it gives, if any, take the place of those.

        Returns a function that takes the hook away.
        """
        return enlist(self._hooked().before, hook)

    def register_forward_hook(self, hook: Callable[[Module, tuple[Any, ...], Any], Any]) -> Callable[[], None]:
        """Call hook(module, inputs, output) after every forward(); an output that it gives takes the place of that.

        Returns a function that takes the hook away.
        """
        return enlist(self._hooked().after, hook)

    def register_full_backward_hook(self, hook: Callable[[Module, Any, Any], None]) -> Callable[[], None]:
        """Call hook(module, input gradients, output gradients), tuples, when a backward pass has come through the
        module. It sees gradients and changes none; None stands for those that do not exist.

        Returns a function that takes the hook away.
        """
        return enlist(self._hooked().backward, hook)

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, (Parameter, Module)) and "_modules" not in self.__dict__:
            raise RuntimeError(f"call super().__init__() before assigning {name!r} in {type(self).__name__}")
        kind = "_parameters" if isinstance(value, Parameter) else "_modules" if isinstance(value, Module) else None
        for table in ("_parameters", "_modules", "_buffers"):
            entries = self.__dict__.get(table, {})
            if table == kind:
                # What replaces another keeps its place: a Sequential runs in the order of its names.
                entries[name] = value
            elif name in entries and kind is None:
                if table == "_buffers":
                    value = as_buffer(type(self).__name__, name, entries[name], value)
                elif value is not None and entries[name] is not None:
                    refuse_replacement(type(self).__name__, name, entries[name], value)
                elif value is not None:
                    entries.pop(name)  # Gone already; the name is free.
                    continue
                entries[name] = value
            else:
                entries.pop(name, None)
        if kind == "_parameters":
            value.__dict__.setdefault("label", f"{type(self).__name__}.{name}")
        elif kind is None and isinstance(value, Tensor):
            check_trainable(type(self).__name__, name, value)
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        for table in (self._parameters, self._modules, self._buffers):
            table.pop(name, None)
        object.__delattr__(self, name)

    def register_buffer(self, name: str, value: Any) -> None:
        """Add a tensor to the state that is saved and moved but not trained.

        Raises TypeError for one that wants a gradient, and ValueError for a name that is in use or has a dot.
        """
        if not name or "." in name or (name not in self._buffers and hasattr(self, name)):
            raise ValueError(f"{type(self).__name__}: a buffer cannot be named {name!r}: it is in use, or no name")
        tensor = as_buffer(type(self).__name__, name, None, value)
        self._buffers[name] = tensor
        object.__setattr__(self, name, tensor)

    # Walking the tree

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all below it, each once, under dotted names ("" for itself)."""
        yield from self._walk(prefix, set())

    def _walk(self, prefix: str, seen: set[int]) -> Iterator[tuple[str, Module]]:
        if id(self) in seen:
            return
        seen.add(id(self))
        yield prefix, self
        for name, child in self._modules.items():
            if child is None:
                continue
            yield from child._walk(f"{prefix}.{name}" if prefix else name, seen)

    def modules(self) -> Iterator[Module]:
        """This module and all below it."""
        return (module for _, module in self.named_modules())

    def children(self) -> Iterator[Module]:
        """The modules directly below."""
        return (child for child in self._modules.values() if child is not None)

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """All parameters under dotted names; a shared one appears once, under its first name.

        Raises TypeError, when first called, for modules in plain lists whose parameters would be left out.
        """
        if not self._looked_through:
            refuse_unlisted(self, Module)
            self.__dict__["_looked_through"] = True
        seen: set[int] = set()
        for name, parameter in self._named("_parameters"):
            if id(parameter) not in seen:
                seen.add(id(parameter))
                yield name, parameter

    def parameters(self) -> Iterator[Parameter]:
        """All parameters, each once."""
        return (parameter for _, parameter in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """All buffers under dotted names."""
        return self._named("_buffers")

    def buffers(self) -> Iterator[Tensor]:
        """All buffers."""
        return (buffer for _, buffer in self.named_buffers())

    def _named(self, table: str) -> Iterator[tuple[str, Any]]:
        for prefix, module in self.named_modules():
            for name, value in getattr(module, table).items():
                if value is None:
                    continue
                yield (f"{prefix}.{name}" if prefix else name), value

    def _own(self) -> Iterator[Parameter]:
        """All parameters, without looking for those that are left out."""
        return (parameter for _, parameter in self._named("_parameters"))

    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """Call fn on this module and all below it; returns itself."""
        for module in list(self.modules()):
            fn(module)
        return self

    # State

    def train(self, flag: bool = True) -> Self:
        """Training mode (dropout, batch statistics) on or off, everywhere below; returns itself."""
        for module in self.modules():
            module.training = flag
        return self

    def eval(self) -> Self:
        """train(False)."""
        return self.train(False)

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for parameter in self.parameters():
            parameter.grad = None

    def requires_grad_(self, flag: bool = True) -> Self:
        """Freeze or thaw all parameters; returns itself."""
        for parameter in self.parameters():
            parameter.requires_grad_(flag)
        return self

    def to(self, target: Any) -> Self:
        """Move parameters and buffers to a device (a number is that of a GPU), or their floating values to a dtype;
        returns itself.

        Gradients are dropped. An optimiser keeps its state where it was, so move the model first. Real values take real
        dtypes and complex ones complex dtypes. Raises TypeError for a dtype that none of the values can take.
        """
        tensors = [*self.parameters(), *self.buffers()]
        if isinstance(target, int):
            target = f"cuda:{target}"
        device = isinstance(target, str) and target.partition(":")[0] in ("cpu", "cuda")
        kinds = {kind_of(tensor.dtype) for tensor in tensors} & set("fc")
        kind = "" if device else kind_of(as_dtype(target))
        if not device and (kind not in ("f", "c") or (kinds and kind not in kinds)):
            raise TypeError(
                f"{type(self).__name__}.to({target!r}) would change nothing: give a real floating dtype for "
                "real values, a complex one for complex values, or a device"
            )
        for tensor in tensors:
            if device or kind_of(tensor.dtype) == kind:
                tensor.convert(target) if isinstance(tensor, Parameter) else _convert(tensor, target)
        return self

    def state_dict(self) -> dict[str, Tensor]:
        """All parameters and buffers by name; they share memory with the module."""
        tensors = [*self._named("_parameters"), *self._named("_buffers")]
        return {name: tensor.detach() for name, tensor in tensors}

    def load_state_dict(self, state: dict[str, Any], strict: bool = True) -> None:
        """Copy values into parameters and buffers by name.

        Args:
            state: what state_dict() gave; arrays are accepted as well as Tensors.
            strict: refuse missing and unknown names. Wrong shapes, and complex values for real ones, are always
                refused, before anything is changed.

        Raises:
            ValueError: listing every name that is missing, unknown, of the wrong shape or complex.
        """
        if not isinstance(state, Mapping):
            raise TypeError(
                f"a state is a dict such as state_dict() gives, not {type(state).__name__}: "
                "qdist.checkpoint.load(path) reads one from a file"
            )
        own = dict([*self._named("_parameters"), *self._named("_buffers")])
        problems = []
        if strict:
            problems += [f"missing: {name} {own[name].shape}" for name in own if name not in state]
            problems += [f"unknown: {name}" for name in state if name not in own]
        given = {name: Tensor(_exact(state[name])) for name in own if name in state}
        problems += [
            f"shape of {name}: {value.shape} given, {own[name].shape} needed"
            for name, value in given.items()
            if value.shape != own[name].shape
        ]
        problems += [
            f"dtype of {name}: {value.dtype} given, real numbers needed"
            for name, value in given.items()
            if kind_of(value.dtype) == "c" and kind_of(own[name].dtype) != "c"
        ]
        if problems:
            raise ValueError(f"this state does not fit {type(self).__name__}:\n  " + "\n  ".join(problems))
        with no_grad():
            for name, value in given.items():
                own[name].assign(value.to(own[name].dtype).to(own[name].device))

    # Text

    def extra_repr(self) -> str:
        """What stands between the parentheses of a layer's repr."""
        return ""

    def __repr__(self) -> str:
        children = {name: child for name, child in self._modules.items() if child is not None}
        if not children:
            return f"{type(self).__name__}({self.extra_repr()})"
        lines = [f"  ({name}): " + repr(child).replace("\n", "\n  ") for name, child in children.items()]
        return f"{type(self).__name__}(\n" + "\n".join(lines) + "\n)"


def _exact(value: Any) -> Any:
    """A value for a tensor; numbers and lists as arrays, in the precision that they have."""
    return value if hasattr(value, "dtype") else np.asarray(value)


def checked_module(container: str, given: Any) -> Module:
    """The module. Raises TypeError for anything else, with the way to make one of it."""
    if isinstance(given, Module):
        return given
    if isinstance(given, type) and issubclass(given, Module):
        raise TypeError(f"{container} takes modules, not the class {given.__name__}: make one, {given.__name__}(...)")
    way = (
        f": unpack it, {container}(*modules)"
        if isinstance(given, list | tuple) and container == "Sequential"
        else ": give a function a Module of its own, whose forward() calls it"
        if callable(given) and not hasattr(given, "parameters")
        else ""
    )
    raise TypeError(f"{container} takes modules of qdist.nn, not {type(given).__module__}.{type(given).__name__}{way}")


class Sequential(Module):
    """Modules applied one after the other. Raises TypeError for what is no Module, which would be left out."""

    def __init__(self, *modules: Module) -> None:
        super().__init__()
        for i, module in enumerate(modules):
            setattr(self, str(i), checked_module("Sequential", module))

    def forward(self, x: Any) -> Any:
        for module in self.children():
            x = module(x)
        return x

    def __len__(self) -> int:
        return len(list(self.children()))

    def __iter__(self) -> Iterator[Module]:
        return self.children()

    def __getitem__(self, key: int | slice) -> Any:
        chosen = list(self.children())[key]
        return Sequential(*chosen) if isinstance(chosen, list) else chosen


class ModuleList(Module):
    """A list of modules whose parameters are found."""

    def __init__(self, modules: Any = ()) -> None:
        super().__init__()
        for module in modules:
            self.append(module)

    def append(self, module: Module) -> None:
        """Add a module at the end."""
        number = len(self._modules)
        while str(number) in self._modules:  # One before it was deleted.
            number += 1
        setattr(self, str(number), checked_module("ModuleList", module))

    def __len__(self) -> int:
        return len(list(self.children()))

    def __iter__(self) -> Iterator[Module]:
        return self.children()

    def __getitem__(self, index: int) -> Module:
        return list(self.children())[index]
