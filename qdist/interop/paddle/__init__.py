"""Paddle's distributed surface over this engine: a program of its distributed primer runs with its imports changed.

Names and call forms are Paddle's; where they differ from this library's, these modules translate and compute nothing
themselves:

    paddle                                    here
    import paddle                             from qdist.interop import paddle
    paddle.nn, optimizer, io, metric, static  the same below qdist.interop.paddle
    paddle.distributed, .fleet, .sharding     the same below qdist.interop.paddle
    paddle.distributed.auto_parallel          qdist.interop.paddle.distributed.auto_parallel
    paddle.base (core, framework)             qdist.interop.paddle.base: pictures of programs
    python -m paddle.distributed.launch       python -m qdist.interop.paddle.distributed.launch

In this surface a Linear has its weight as (in, out), which is what annotations in Paddle's programs assume. Every name
of the primer, where it is and how it differs: papers/source_documents.md.
"""

from . import amp, base, distributed, io, metric, nn, optimizer, regularizer, static
from .defaults import get_default_dtype, seed, set_default_dtype, set_device
from .static import disable_static, enable_static, in_dynamic_mode
from .tensor import LazyGuard, matmul, mean, no_grad, to_tensor

__all__ = [
    "LazyGuard",
    "amp",
    "base",
    "disable_static",
    "distributed",
    "enable_static",
    "get_default_dtype",
    "in_dynamic_mode",
    "io",
    "matmul",
    "mean",
    "metric",
    "nn",
    "no_grad",
    "optimizer",
    "regularizer",
    "seed",
    "set_default_dtype",
    "set_device",
    "static",
    "to_tensor",
]
