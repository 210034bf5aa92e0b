"""What is called around a module's forward and backward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..tensor import Tensor, after_backward

__all__ = ["Hooks", "enlist"]


def enlist(hooks: list[Any], hook: Any) -> Callable[[], None]:
    """Add a hook; gives what takes it away."""
    entry = (hook,)
    hooks.append(entry)

    def remove() -> None:
        hooks[:] = [other for other in hooks if other is not entry]

    return remove


class Hooks:
    """Of one module; entries are tuples of one, so that a hook may be there twice."""

    def __init__(self) -> None:
        self.before: list[tuple[Any]] = []
        self.after: list[tuple[Any]] = []
        self.backward: list[tuple[Any]] = []

    def call(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """forward(), and the hooks around it."""
        for (hook,) in tuple(self.before):
            changed = hook(module, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
        output = module.forward(*args, **kwargs)
        for (hook,) in tuple(self.after):
            changed = hook(module, args, output)
            output = output if changed is None else changed
        if self.backward:
            self._follow(module, args, output)
        return output

    def _follow(self, module: Any, args: tuple[Any, ...], output: Any) -> None:
        outputs = output if isinstance(output, tuple) else (output,)
        into: list[Any] = [None] * len(args)
        out: list[Any] = [None] * len(outputs)

        def told() -> None:
            for (hook,) in tuple(self.backward):
                hook(module, tuple(into), tuple(out))

        def note(gradients: list[Any], number: int) -> Callable[[Tensor], None]:
            def keep(gradient: Tensor) -> None:
                gradients[number] = gradient
                after_backward(told)

            return keep

        for gradients, tensors in ((out, outputs), (into, args)):
            for number, tensor in enumerate(tensors):
                if isinstance(tensor, Tensor) and tensor.requires_grad:
                    tensor.register_hook(note(gradients, number))
