"""What an operation makes of its inputs before it runs: arrays of one dtype, in one place."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import arrays
from .rules import Rule


def promote(rule: Rule, values: list, keep_halves: bool) -> list:
    """Bring an operation's inputs to their common dtype, all but indices and masks.

    keep_halves: half precision may stay beside float32.
    """
    joint = [i for i in range(len(values)) if not rule.keeps_dtype(i)]
    tensors = [values[i].dtype for i in joint if arrays.is_array(values[i])]
    scalars = [values[i] for i in joint if not arrays.is_array(values[i])]
    dtype = arrays.common_dtype(rule.name, tensors, scalars)
    if rule.floating and dtype.kind in "biu":
        dtype = arrays.FLOAT32
    values = list(values)
    for i in joint:
        a = values[i]
        if not arrays.is_array(a):
            values[i] = a if arrays.is_inexact(dtype) else np.asarray(a, dtype)[()].item()
        elif keep_halves and dtype == arrays.FLOAT32 and arrays.is_half(a.dtype):
            continue
        elif a.dtype != dtype and not (rule.mixes and dtype.kind == "c" and a.dtype.kind == "f"):
            values[i] = a.astype(dtype)
    return values


def shared_module(rule: Rule, values: list, kind: type | None) -> tuple[Any, Any]:
    """The array module of the inputs, which must all be in one place, and their GPU where it has to be chosen. kind:
    the class of all arrays among them; None where they differ."""
    if kind is not None:
        module = arrays.module_of_kind(kind)
        if module is np or not arrays.several_gpus():
            arrays.MODULES[kind] = module
            return module, None
    first = None
    apart = False
    for a in values:
        if arrays.is_array(a):
            if first is None:
                first = a
            elif a is not first and a.__class__ is not first.__class__:
                apart = True
    xp = arrays.module_of(first)
    several = xp is not np and arrays.several_gpus()
    if apart or several:
        places = {arrays.device_of(a) for a in values if arrays.is_array(a)}
        if len(places) > 1:
            raise TypeError(f"{rule.name}: inputs are on {' and '.join(sorted(places))}; move them with .to(device)")
    return xp, first.device if several and first is not None else None
