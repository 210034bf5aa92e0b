"""Tensor: reverse-mode differentiation over NumPy and CuPy arrays, with all derivative rules in one table."""

from . import functional, random
from .autograd import Node, after_backward, enable_grad, no_grad, packing, tracing
from .functional import (
    arctan2,
    as_tensor,
    complex,
    concatenate,
    einsum,
    from_dlpack,
    matmul,
    maximum,
    minimum,
    ones,
    rand,
    randn,
    stack,
    where,
    zeros,
)
from .functions import checkpoint, custom_function, grad
from .half import computing_in
from .random import Generator, manual_seed
from .rules import RULES, Rule
from .tensor import Tensor, apply
from .threads import num_threads, set_num_threads

__all__ = [
    "RULES",
    "Generator",
    "Node",
    "Rule",
    "Tensor",
    "after_backward",
    "apply",
    "arctan2",
    "as_tensor",
    "checkpoint",
    "complex",
    "computing_in",
    "concatenate",
    "custom_function",
    "einsum",
    "enable_grad",
    "from_dlpack",
    "functional",
    "grad",
    "manual_seed",
    "matmul",
    "maximum",
    "minimum",
    "no_grad",
    "num_threads",
    "ones",
    "packing",
    "rand",
    "randn",
    "random",
    "set_num_threads",
    "stack",
    "tracing",
    "where",
    "zeros",
]
