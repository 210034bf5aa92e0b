"""Elementwise operations and their derivatives.

Every forward is `f(xp, *arrays, **attributes) -> (output, saved)`, every vjp is
`f(xp, g, saved, needs, **attributes) -> cotangents`, one for each input. Broadcasting is undone by the
caller, and so is the projection of a complex cotangent onto a real input, so a rule may return either too
large.

The cotangent g of a complex z is dL/dRe(z) + i dL/dIm(z); through a holomorphic f it becomes conj(f'(z)) g.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import Array
from . import small_on_gpu


def conj(a: Any) -> Any:
    """The conjugate of an array or Python scalar, without a copy for real arrays."""
    if isinstance(a, (int, float, complex)):
        return a.conjugate()
    return a.conj() if a.dtype.kind == "c" else a


def _pairs(xp: Any, name: str, a: Any, b: Any) -> Any:
    """CuPy's function of this name; of small arrays in less of the host's time."""
    found = small_on_gpu.pairs(name, a, b)
    return getattr(xp, name)(a, b) if found is None else found


def add(xp: Any, a: Array, b: Array) -> Any:
    return (xp.add(a, b) if xp is np else _pairs(xp, "add", a, b)), ()


def add_vjp(xp: Any, g: Array, saved: Any, needs: Any) -> Any:
    return g, g


def sub(xp: Any, a: Array, b: Array) -> Any:
    return (xp.subtract(a, b) if xp is np else _pairs(xp, "subtract", a, b)), ()


def sub_vjp(xp: Any, g: Array, saved: Any, needs: Any) -> Any:
    return g, -g if needs[1] else None


def mul(xp: Any, a: Array, b: Array) -> Any:
    return (xp.multiply(a, b) if xp is np else _pairs(xp, "multiply", a, b)), (a, b)


def mul_vjp(xp: Any, g: Array, saved: Any, needs: Any) -> Any:
    a, b = saved
    if a is b and needs[0] and needs[1]:
        both = g * conj(a)
        return both, both
    return (g * conj(b) if needs[0] else None), (g * conj(a) if needs[1] else None)


def square(xp: Any, a: Array) -> Any:
    return (xp.multiply(a, a) if xp is np else _pairs(xp, "multiply", a, a)), (a,)


def square_vjp(xp: Any, g: Array, saved: Any, needs: Any) -> Any:
    (a,) = saved
    if xp is not np:
        found = small_on_gpu.pairs("twice_the_product", g, a)
        if found is not None:
            return (found,)
    slope = g * conj(a)
    slope += slope
    return (slope,)


def div(xp: Any, a: Array, b: Array) -> Any:
    y = xp.true_divide(a, b)
    return y, (b, y)


def div_vjp(xp: Any, g: Array, saved: Any, needs: Any) -> Any:
    b, y = saved
    ga = g / conj(b)
    return ga, (-ga * conj(y) if needs[1] else None)


def ratio_vjp(xp: Any, g: Array, saved: Any, needs: Any) -> Any:
    """Of a sum over what it counts: where nothing counts, the mean is no number, but nothing has a gradient either."""
    b, y = saved
    ga = g / xp.where(b == 0, xp.inf, conj(b)).astype(b.dtype, copy=False)
    return ga, (-ga * conj(y) if needs[1] else None)


def power(xp: Any, a: Array, b: Array) -> Any:
    y = xp.power(a, b)
    return y, (a, b, y)


def power_vjp(xp: Any, g: Array, saved: Any, needs: Any) -> Any:
    a, b, y = saved
    ga = gb = None
    if needs[0]:
        if isinstance(b, (int, float, complex)):
            slope = b * a ** (b - 1) if b != 0 else xp.zeros_like(y)
        else:
            # At b == 0 the slope is 0 even where a == 0 makes a**(b-1) infinite.
            slope = xp.where(b == 0, b.dtype.type(0), b * xp.power(a, xp.where(b == 0, b.dtype.type(1), b) - 1))
        ga = g * conj(slope)
    if needs[1]:
        # 0**b is flat in b > 0; log(0) must not turn that into a NaN.
        zero = xp.equal(a, 0)
        base = xp.where(zero, 1, a).astype(y.dtype, copy=False)
        gb = g * conj(xp.where(zero, y.dtype.type(0), y * xp.log(base)))
    return ga, gb


def _choice(pick: str) -> Any:
    def forward(xp: Any, a: Array, b: Array) -> Any:
        y = getattr(xp, pick)(a, b)
        return y, (a, b, y)

    return forward


maximum = _choice("maximum")
minimum = _choice("minimum")


def choice_vjp(xp: Any, g: Array, saved: Any, needs: Any) -> Any:
    """maximum and minimum; a tie shares the cotangent equally."""
    a, b, y = saved
    zero = g.dtype.type(0)
    ga = xp.where(xp.equal(a, b), g / 2, xp.where(xp.equal(a, y), g, zero))
    return ga, g - ga


def arctan2(xp: Any, y: Array, x: Array) -> Any:
    return xp.arctan2(y, x), (y, x)


def arctan2_vjp(xp: Any, g: Array, saved: Any, needs: Any) -> Any:
    y, x = saved
    scaled = g / (x * x + y * y)
    return scaled * x, -scaled * y


def where(xp: Any, condition: Array, a: Array, b: Array) -> Any:
    return xp.where(condition, a, b), (condition,)


def where_vjp(xp: Any, g: Array, saved: Any, needs: Any) -> Any:
    (condition,) = saved
    zero = g.dtype.type(0)
    return (
        None,
        (xp.where(condition, g, zero) if needs[1] else None),
        xp.where(condition, zero, g) if needs[2] else None,
    )


def make_complex(xp: Any, real: Array, imag: Array) -> Any:
    return real + 1j * imag, ()


def make_complex_vjp(xp: Any, g: Array, saved: Any, needs: Any) -> Any:
    return g.real, g.imag


def plain(function: str) -> Any:
    """The forward of an array-module function that has no derivative."""

    def forward(xp: Any, *arrays: Array) -> Any:
        return getattr(xp, function)(*arrays), ()

    return forward


def rounded(xp: Any, a: Array) -> Any:
    """To the nearest whole number; integers are there."""
    return a.copy() if a.dtype.kind in "biu" else xp.rint(a), ()


def neg(xp: Any, a: Array) -> Any:
    return -a, ()


def neg_vjp(xp: Any, g: Array, saved: Any, needs: Any) -> Any:
    return (-g,)


def _from_input(function: str, slope: Any) -> tuple[Any, Any]:
    """forward and vjp of a holomorphic function whose derivative is written in terms of its input."""

    def forward(xp: Any, a: Array) -> Any:
        return getattr(xp, function)(a), (a,)

    def vjp(xp: Any, g: Array, saved: Any, needs: Any) -> Any:
        return (g * conj(slope(xp, saved[0])),)

    return forward, vjp


def _from_output(function: str, slope: Any) -> tuple[Any, Any]:
    """forward and vjp of a holomorphic function whose derivative is written in terms of its output."""

    def forward(xp: Any, a: Array) -> Any:
        y = getattr(xp, function)(a)
        return y, (y,)

    def vjp(xp: Any, g: Array, saved: Any, needs: Any) -> Any:
        return (g * conj(slope(xp, saved[0])),)

    return forward, vjp


exp, exp_vjp = _from_output("exp", lambda xp, y: y)
expm1, expm1_vjp = _from_output("expm1", lambda xp, y: y + 1)
sqrt, sqrt_vjp = _from_output("sqrt", lambda xp, y: 0.5 / y)
tan, tan_vjp = _from_output("tan", lambda xp, y: 1 + y * y)
tanh, tanh_vjp = _from_output("tanh", lambda xp, y: 1 - y * y)
log, log_vjp = _from_input("log", lambda xp, a: 1 / a)
log1p, log1p_vjp = _from_input("log1p", lambda xp, a: 1 / (1 + a))
sin, sin_vjp = _from_input("sin", lambda xp, a: xp.cos(a))
cos, cos_vjp = _from_input("cos", lambda xp, a: -xp.sin(a))
arcsin, arcsin_vjp = _from_input("arcsin", lambda xp, a: 1 / xp.sqrt(1 - a * a))
arccos, arccos_vjp = _from_input("arccos", lambda xp, a: -1 / xp.sqrt(1 - a * a))
arctan, arctan_vjp = _from_input("arctan", lambda xp, a: 1 / (1 + a * a))
sinh, sinh_vjp = _from_input("sinh", lambda xp, a: xp.cosh(a))
cosh, cosh_vjp = _from_input("cosh", lambda xp, a: xp.sinh(a))


def absolute(xp: Any, a: Array) -> Any:
    y = xp.abs(a)
    return y, (a, y)


def absolute_vjp(xp: Any, g: Array, saved: Any, needs: Any) -> Any:
    a, y = saved
    if a.dtype.kind != "c":
        return (g * xp.sign(a),)
    # The slope at zero is taken as zero.
    return (g * (a / xp.where(y == 0, y.dtype.type(1), y)),)


def abs2(xp: Any, a: Array) -> Any:
    """|a|^2, real: the probability of an amplitude."""
    if a.dtype.kind != "c":
        return a * a, (a,)
    return a.real**2 + a.imag**2, (a,)


def abs2_vjp(xp: Any, g: Array, saved: Any, needs: Any) -> Any:
    return ((g + g) * saved[0],)


def conjugate(xp: Any, a: Array) -> Any:
    return xp.conj(a), ()


def conjugate_vjp(xp: Any, g: Array, saved: Any, needs: Any) -> Any:
    return (conj(g),)


def real(xp: Any, a: Array) -> Any:
    return a.real, ()


def real_vjp(xp: Any, g: Array, saved: Any, needs: Any) -> Any:
    return (g,)


def imag(xp: Any, a: Array) -> Any:
    return xp.imag(a), ()


def imag_vjp(xp: Any, g: Array, saved: Any, needs: Any) -> Any:
    return (g * 1j,)


def clip(xp: Any, a: Array, low: float | None, high: float | None) -> Any:
    return xp.clip(a, low, high), (a,)


def clip_vjp(xp: Any, g: Array, saved: Any, needs: Any, low: float | None, high: float | None) -> Any:
    (a,) = saved
    inside = xp.ones(a.shape, dtype=bool)
    if low is not None:
        inside &= a >= low
    if high is not None:
        inside &= a <= high
    return (g * inside,)


def cast(xp: Any, a: Array, dtype: np.dtype) -> Any:
    return a.astype(dtype), ()


def cast_vjp(xp: Any, g: Array, saved: Any, needs: Any, dtype: np.dtype) -> Any:
    return (g,)
