"""How the parameters of a model are grouped into units: by size, or by the modules that use them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from qdist.comm import Communicator
from qdist.nn import Module
from qdist.parallel.replica.buckets import arrange
from qdist.parallel.zero.shards import Unit

__all__ = ["around_modules", "units_by_module", "units_by_size"]

Make = Callable[[list[Any], Communicator], Unit]


def units_by_size(parameters: list[Any], comm: Communicator, make: Make, bucket_bytes: int) -> list[Unit]:
    """For stages 1 and 2: the parameters backwards, in units of at most so many bytes."""
    return [make(group, comm) for group in arrange(reversed(parameters), bucket_bytes)]


def units_by_module(
    model: Module, trained: Collection[int], types: tuple[type, ...], comm: Communicator, make: Make
) -> tuple[list[Unit], list[tuple[Module, list[Unit]]]]:
    """For stage 3: one unit (a dtype) for every module that has parameters, with all below it where it is of `types`.

    trained: ids of the parameters to take. Gives the units, the last module's first, and for each module that has to
    gather units before it runs, which: its own, and those of parameters that it shares with others.
    """
    owner: dict[int, Module] = {}
    members: dict[int, list[Any]] = {}
    uses: dict[int, tuple[Module, dict[int, Any]]] = {}
    for module, root in _roots(model, types, None, set()):
        for p in module._parameters.values():
            if id(p) not in trained:
                continue
            if id(p) not in owner:
                owner[id(p)] = root
                members.setdefault(id(root), []).append(p)
            uses.setdefault(id(root), (root, {}))[1][id(p)] = p
    unit_of: dict[int, Unit] = {}
    units = []
    for parameters in members.values():
        for group in arrange(parameters, bucket_bytes=sum(p.nbytes for p in parameters)):
            units.append(make(group, comm))
            unit_of.update((id(p), units[-1]) for p in group)
    needed = [
        (root, list({id(unit_of[key]): unit_of[key] for key in parameters}.values()))
        for root, parameters in uses.values()
    ]
    return units[::-1], needed


def _roots(
    module: Module, types: tuple[type, ...], root: Module | None, seen: set[int]
) -> Iterator[tuple[Module, Module]]:
    """Every module with the one that gathers for it: itself, or the outermost module of `types` around it."""
    if id(module) in seen:
        return
    seen.add(id(module))
    if root is None and isinstance(module, types):
        root = module
    yield module, module if root is None else root
    for child in module.children():
        yield from _roots(child, types, root, seen)


def around_modules(needed: list[tuple[Module, list[Unit]]], held: list[Unit]) -> None:
    """Have each module hold its units while it runs. held: lists those that are being held."""
    for module, units in needed:
        module.forward = _holding(module.forward, units, held)  # type: ignore[method-assign]


def _holding(forward: Callable[..., Any], units: list[Unit], held: list[Unit]) -> Callable[..., Any]:
    def around(*args: Any, **kwargs: Any) -> Any:
        for unit in units:
            unit.hold()
        held.extend(units)
        try:
            return forward(*args, **kwargs)
        finally:
            del held[-len(units) :]
            for unit in units:
                unit.drop()

    return around
