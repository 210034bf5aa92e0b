"""DataParallel: one process, several devices, a thread for each."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ...comm import cuda_devices
from ...data.dataset import share
from ...nn import Module
from ...tensor import Generator, Tensor, concatenate, random
from ...tensor.autograd import mode
from .devices import device_name, map_tensors, moved, rebuilt

__all__ = ["DataParallel"]


class DataParallel(Module):
    """A model whose batch is divided over local devices in every forward pass, and joined again.

    Args:
        module: on the first of the devices.
        device_ids: [0, 1, 2] for GPUs, or names ("cpu" may stand there several times); all GPUs when not given. With
            one device, or none, the module is called as it is.
        output_device: where the outputs are joined; the first device when not given.
        dim: the axis of the batch, in inputs and outputs; counted from the last one if negative.

    Tensors that have that axis have equally many rows; others go to every device whole.

    Copies of the parameters are made in each forward pass, through which gradients come back: `.grad` is the whole
    batch's. Changes of buffers are kept from the first device. `module` is the plain model, whose state is saved.
    `parallel.DataParallel`, with a process for every device, does the same without the copies.
    """

    def __init__(
        self, module: Module, device_ids: Sequence[Any] | None = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        given = range(cuda_devices()) if device_ids is None else device_ids
        self.devices = [device_name(device) for device in given]
        self.output_device = next(iter(self.devices), None) if output_device is None else device_name(output_device)
        self.dim = dim
        self.module = module
        if self.devices:
            elsewhere = {p.device for p in module.parameters()} - {self.devices[0]}
            if elsewhere:
                raise ValueError(
                    f"the module is on {', '.join(sorted(elsewhere))} and not on {self.devices[0]}, the first device: "
                    f"move it there with module.to({self.devices[0]!r})"
                )

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes for all rows."""
        rows = _length((args, kwargs), self.dim)
        count = min(len(self.devices), rows)
        if count < 2:
            first = self.devices[0] if self.devices else None
            if first is not None:
                args, kwargs = moved(args, first), moved(kwargs, first)
            output = self.module(*args, **kwargs)
            return output if self.output_device is None else moved(output, self.output_device)
        parts = [
            moved(_part((args, kwargs), self.dim, rows, share(rows, i, count)), device)
            for i, device in enumerate(self.devices[:count])
        ]
        # Copies are made before any thread runs: the first device's is the module itself, whose buffers may change.
        models = [self.module, *(_copy(self.module, device, {}) for device in self.devices[1:count])]
        ticket = random.default_generator().ticket()
        seed = int(np.random.SeedSequence([*ticket.key, ticket.draw]).generate_state(1, np.uint64)[0])
        recording = mode.grad

        def run(number: int) -> Any:
            before, mode.grad = mode.grad, recording
            try:
                # Numbers of its own for each device, whichever thread comes first.
                with random.using(Generator(seed, number)):
                    positional, named = parts[number]
                    return models[number](*positional, **named)
            finally:
                mode.grad = before

        with ThreadPoolExecutor(count) as threads:
            outputs = list(threads.map(run, range(count)))
        return self._joined(outputs)

    def _joined(self, outputs: list[Any]) -> Any:
        first = outputs[0]
        if isinstance(first, Tensor):
            there = [output.to(self.output_device) for output in outputs]
            axis = self.dim if first.ndim else 0
            return concatenate(there if first.ndim else [one.reshape(1) for one in there], axis)
        if isinstance(first, tuple | list):
            return rebuilt(first, (self._joined(list(part)) for part in zip(*outputs, strict=True)))
        if isinstance(first, dict):
            return {key: self._joined([output[key] for output in outputs]) for key in first}
        raise TypeError(f"DataParallel joins Tensors, in tuples, lists and dicts, not {type(first).__name__}")


def _length(value: Any, dim: int) -> int:
    """Rows of the first Tensor that has any; 0 without."""
    found: list[int] = []
    map_tensors(lambda tensor: found.append(tensor.shape[dim]) if _has(tensor, dim) else None, value)
    return found[0] if found else 0


def _part(value: Any, dim: int, count: int, rows: slice) -> Any:
    def part(tensor: Tensor) -> Tensor:
        if not _has(tensor, dim):
            return tensor
        if tensor.shape[dim] != count:
            raise ValueError(
                f"DataParallel divides all tensors along axis {dim}: {count} rows of the first, {tensor.shape[dim]} of "
                f"one of shape {tensor.shape}; let the module keep what is not of the batch"
            )
        return tensor[(*[slice(None)] * (dim % tensor.ndim), rows)]

    return map_tensors(part, value)


def _has(tensor: Tensor, dim: int) -> bool:
    return -tensor.ndim <= dim < tensor.ndim


def _copy(module: Module, device: str, made: dict[int, Any]) -> Any:
    """The module with its parameters on a device, computed from the originals, and with buffers of its own."""
    if id(module) in made:
        return made[id(module)]
    twin = made[id(module)] = object.__new__(type(module))
    tables: dict[str, dict[str, Any]] = {"_parameters": {}, "_buffers": {}, "_modules": {}}
    for name, parameter in module._parameters.items():
        tables["_parameters"][name] = (
            None if parameter is None else made.setdefault(id(parameter), parameter.to(device))
        )
    for name, buffer in module._buffers.items():
        tables["_buffers"][name] = None if buffer is None else buffer.detach().clone().to(device)
    for name, child in module._modules.items():
        tables["_modules"][name] = None if child is None else _copy(child, device, made)
    vars(twin).update(vars(module) | tables)
    for table in tables.values():
        vars(twin).update(table)
    return twin
