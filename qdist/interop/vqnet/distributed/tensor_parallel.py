"""VQNet's tensor-parallel layers over qdist.parallel's.

They take and give whole tensors on every rank, so that they stand wherever a Linear stands.
"""

from __future__ import annotations

from typing import Any

from .... import parallel
from ....comm import Communicator
from ..module import Module
from ..nn import Linear, as_vqnet
from ..utils.initializer import Initializer, normal, zeros
from .controller import CommController

__all__ = ["ColumnParallelLinear", "RowParallelLinear"]


class _OfWholeLinear(Module):
    """The constructor that both have, before that of the layer it is mixed into."""

    def __init__(
        self,
        input_size: int,
        output_size: int,
        weight_initializer: Initializer = normal,
        bias_initializer: Initializer = zeros,
        use_bias: bool = True,
        dtype: Any = None,
        name: str = "",
        tp_comm: CommController | None = None,
    ) -> None:
        comm = _ranks(type(self).__name__, tp_comm)
        whole = Linear(input_size, output_size, weight_initializer, bias_initializer, use_bias, dtype)
        super().__init__(input_size, output_size, comm, whole=whole)  # type: ignore[call-arg]
        as_vqnet(self, name)


class ColumnParallelLinear(_OfWholeLinear, parallel.ColumnParallelLinear):
    """A Linear whose outputs are computed by different ranks.

    Args:
        input_size, output_size: of the whole layer; the number of ranks divides output_size.
        weight_initializer, bias_initializer: take the shape of the whole weight (output_size, input_size) or bias and
            give its values, which are then divided. As VQNet documents it, the weight is standard normal and the bias
            0 without them: for deep networks give the weight `utils.initializer.he_uniform`, say.
        use_bias: whether there is a bias.
        dtype: a VQNet or NumPy dtype; float32 when not given.
        name: the layer's.
        tp_comm: the controller of the ranks that share the layer.
    """


class RowParallelLinear(_OfWholeLinear, parallel.RowParallelLinear):
    """A Linear whose inputs are taken by different ranks; arguments as of ColumnParallelLinear, except that the number
    of ranks divides input_size."""


def _ranks(layer: str, tp_comm: CommController | None) -> Communicator:
    if not isinstance(tp_comm, CommController):
        raise TypeError(f"{layer} needs tp_comm, the CommController of the ranks that share it; got {tp_comm!r}")
    return tp_comm.comm
