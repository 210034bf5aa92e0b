"""THE table of derivative rules: every operation a Tensor knows, its forward function and its vjp.

- forward(xp, *arrays, **attributes) -> (output, saved): pure; `saved` is a tuple of whatever the vjp needs. A
  list as output means several outputs.
- vjp(xp, g, saved, needs, **attributes) -> one cotangent for each input. Entries whose `needs` is False may
  be None. For several outputs g is a list, with None for outputs that nothing depends on.
- vjp None: the output (a comparison, a position, a rounded value) has no derivative and never wants a
  gradient.

Undoing broadcasts, projecting onto real inputs and summing contributions happen in `autograd`, once for all
rules. Nothing else in the package knows a derivative, so whatever else has to be known about an operation
(how it shards, what it costs) can be keyed by the same names.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .kernels import activation as act
from .kernels import arithmetic as ar
from .kernels import attention as at
from .kernels import convolution as cv
from .kernels import linear_algebra as la
from .kernels import normalization as nm
from .kernels import reductions as rd
from .kernels import shaping as sh


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """One operation.

    Attributes:
        name: its key in the table.
        forward, vjp: see the module's docstring.
        floating: integer inputs are turned into float32 first (division, exp, mean ...).
        apart: positions of inputs that keep their own dtype: indices and masks.
        all_apart_from: every input from this position on is `apart` as well.
        view: the output may share memory with the first input.
        mixes: real inputs stay real beside complex ones, which halves the work.
        moves: it runs on half precision as it is, and rounds no float32: see half.py.
        count: for a mean that gives one number: how many values it is over, from what the vjp saved.
    """

    name: str
    forward: Callable[..., tuple[Any, Any]]
    vjp: Callable[..., tuple[Any, ...]] | None
    floating: bool = False
    apart: tuple[int, ...] = ()
    all_apart_from: int | None = None
    view: bool = False
    mixes: bool = False
    moves: bool = False
    count: Callable[[Any], float] | None = None

    def keeps_dtype(self, position: int) -> bool:
        """Whether the input at `position` stays out of dtype promotion."""
        return position in self.apart or (self.all_apart_from is not None and position >= self.all_apart_from)


RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        # Elementwise, two or three inputs
        Rule("add", ar.add, ar.add_vjp, mixes=True),
        Rule("sub", ar.sub, ar.sub_vjp, mixes=True),
        Rule("mul", ar.mul, ar.mul_vjp, mixes=True),
        Rule("div", ar.div, ar.div_vjp, floating=True, mixes=True),
        # A sum over a count: the mean of what is not masked.
        Rule("ratio", ar.div, ar.ratio_vjp, floating=True, count=lambda saved: float(saved[0])),
        Rule("pow", ar.power, ar.power_vjp),
        Rule("maximum", ar.maximum, ar.choice_vjp),
        Rule("minimum", ar.minimum, ar.choice_vjp),
        Rule("arctan2", ar.arctan2, ar.arctan2_vjp, floating=True),
        Rule("where", ar.where, ar.where_vjp, apart=(0,)),
        Rule("complex", ar.make_complex, ar.make_complex_vjp, floating=True),
        # Elementwise, one input
        Rule("neg", ar.neg, ar.neg_vjp),
        Rule("abs", ar.absolute, ar.absolute_vjp),
        Rule("abs2", ar.abs2, ar.abs2_vjp),
        Rule("square", ar.square, ar.square_vjp),
        Rule("exp", ar.exp, ar.exp_vjp, floating=True),
        Rule("expm1", ar.expm1, ar.expm1_vjp, floating=True),
        Rule("log", ar.log, ar.log_vjp, floating=True),
        Rule("log1p", ar.log1p, ar.log1p_vjp, floating=True),
        Rule("sqrt", ar.sqrt, ar.sqrt_vjp, floating=True),
        Rule("sin", ar.sin, ar.sin_vjp, floating=True),
        Rule("cos", ar.cos, ar.cos_vjp, floating=True),
        Rule("tan", ar.tan, ar.tan_vjp, floating=True),
        Rule("arcsin", ar.arcsin, ar.arcsin_vjp, floating=True),
        Rule("arccos", ar.arccos, ar.arccos_vjp, floating=True),
        Rule("arctan", ar.arctan, ar.arctan_vjp, floating=True),
        Rule("sinh", ar.sinh, ar.sinh_vjp, floating=True),
        Rule("cosh", ar.cosh, ar.cosh_vjp, floating=True),
        Rule("tanh", ar.tanh, ar.tanh_vjp, floating=True),
        Rule("conj", ar.conjugate, ar.conjugate_vjp, view=True),
        Rule("real", ar.real, ar.real_vjp, view=True),
        Rule("imag", ar.imag, ar.imag_vjp, view=True),
        Rule("clip", ar.clip, ar.clip_vjp),
        Rule("cast", ar.cast, ar.cast_vjp),
        Rule("move", sh.move, sh.move_vjp, view=True),
        # Without a derivative
        Rule("equal", ar.plain("equal"), None),
        Rule("not_equal", ar.plain("not_equal"), None),
        Rule("less", ar.plain("less"), None),
        Rule("less_equal", ar.plain("less_equal"), None),
        Rule("greater", ar.plain("greater"), None),
        Rule("greater_equal", ar.plain("greater_equal"), None),
        Rule("and", ar.plain("bitwise_and"), None),
        Rule("or", ar.plain("bitwise_or"), None),
        Rule("not", ar.plain("invert"), None),
        Rule("isfinite", ar.plain("isfinite"), None),
        Rule("sign", ar.plain("sign"), None),
        Rule("floor", ar.plain("floor"), None),
        Rule("ceil", ar.plain("ceil"), None),
        Rule("round", ar.rounded, None),
        Rule("argmax", rd.argmax, None),
        Rule("argmin", rd.argmin, None),
        # Activations and losses
        Rule("relu", act.relu, act.relu_vjp),
        Rule("gelu", act.gelu, act.gelu_vjp, floating=True),
        Rule("gelu_tanh", act.gelu_tanh, act.gelu_tanh_vjp, floating=True),
        Rule("silu", act.silu, act.silu_vjp, floating=True),
        Rule("sigmoid", act.sigmoid, act.sigmoid_vjp, floating=True),
        Rule("softplus", act.softplus, act.softplus_vjp, floating=True),
        Rule("erf", act.erf, act.erf_vjp, floating=True),
        Rule("softmax", act.softmax, act.softmax_vjp, floating=True),
        Rule("log_softmax", act.log_softmax, act.log_softmax_vjp, floating=True),
        Rule("cross_entropy", act.cross_entropy, act.cross_entropy_vjp, floating=True, apart=(1,)),
        Rule("binary_cross_entropy", act.binary_cross_entropy, act.binary_cross_entropy_vjp, floating=True),
        Rule(
            "binary_cross_entropy_logits",
            act.binary_cross_entropy_logits,
            act.binary_cross_entropy_logits_vjp,
            floating=True,
        ),
        Rule("dropout", act.dropout, act.dropout_vjp),
        # Reductions
        Rule("sum", rd.sum_, rd.sum_vjp),
        Rule("mean", rd.mean, rd.mean_vjp, floating=True, count=math.prod),
        Rule("prod", rd.prod, rd.prod_vjp),
        Rule("max", rd.max_, rd.extreme_vjp),
        Rule("min", rd.min_, rd.extreme_vjp),
        Rule("logsumexp", rd.logsumexp, rd.logsumexp_vjp, floating=True),
        Rule("cumsum", rd.cumsum, rd.cumsum_vjp),
        # Products
        Rule("matmul", la.matmul, la.matmul_vjp, mixes=True),
        Rule("linear", la.linear, la.linear_vjp),
        Rule("einsum", la.einsum, la.einsum_vjp, mixes=True),
        # Shape, selection, joining
        Rule("reshape", sh.reshape, sh.reshape_vjp, view=True),
        Rule("transpose", sh.transpose, sh.transpose_vjp, view=True),
        Rule("expand", sh.expand, sh.expand_vjp, view=True),
        Rule("concatenate", sh.concatenate, sh.concatenate_vjp),
        Rule("stack", sh.stack, sh.stack_vjp),
        Rule("split", sh.split, sh.split_vjp, view=True),
        Rule("pad", sh.pad, sh.pad_vjp),
        Rule("flip", sh.flip, sh.flip_vjp, view=True),
        Rule("roll", sh.roll, sh.roll_vjp),
        Rule("tril", sh.tril, sh.tril_vjp),
        Rule("triu", sh.triu, sh.triu_vjp),
        Rule("index", sh.index, sh.index_vjp, all_apart_from=1, view=True),
        Rule("gather", sh.gather, sh.gather_vjp, apart=(1,)),
        Rule("scatter_add", sh.scatter_add, sh.scatter_add_vjp, apart=(1,)),
        Rule("embedding", sh.embedding, sh.embedding_vjp, apart=(1,)),
        # Networks
        Rule("conv2d", cv.conv2d, cv.conv2d_vjp),
        Rule("conv_transpose2d", cv.conv_transpose2d, cv.conv_transpose2d_vjp),
        Rule("max_pool2d", cv.max_pool2d, cv.max_pool2d_vjp),
        Rule("avg_pool2d", cv.avg_pool2d, cv.avg_pool2d_vjp),
        Rule("layer_norm", nm.layer_norm, nm.layer_norm_vjp),
        Rule("rms_norm", nm.rms_norm, nm.rms_norm_vjp),
        Rule("batch_norm", nm.batch_norm, nm.batch_norm_vjp),
        Rule("rotary", at.rotary, at.rotary_vjp, apart=(1, 2)),
        Rule("attention", at.attention, at.attention_vjp, all_apart_from=3),
    )
}
