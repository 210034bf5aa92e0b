"""Every operator, divided as a strategy says, beside the same operator on whole tensors: values and gradients.

Run on four ranks. The document divides one product; its text says that every operator can be divided.
"""

import numpy as np

from qdist.interop import mindspore as ms
from qdist.interop.mindspore import ops
from qdist.interop.mindspore.communication import get_rank, init
from qdist.tensor import Tensor

RNG = np.random.default_rng(0)
X, Y = RNG.uniform(0.2, 0.9, (4, 8)), RNG.uniform(0.2, 0.9, (4, 8))
CUBE, IMAGES = RNG.normal(size=(4, 6, 8)), RNG.normal(size=(4, 4, 6, 6))
BITS = RNG.integers(0, 2, (4, 8)).astype(bool)
HALVES = (2, 2)

ONE = (
    "Abs ACos Asin Atan Ceil Conj Cos Cosh Erf Exp Expm1 Floor GeLU IsFinite Log Log1p Neg ReLU Round Sigmoid Sign "
    "SiLU Sin Sinh Softplus Sqrt Square Tan Tanh Real Imag"
)
TWO = "Add Atan2 Complex Div Equal Greater GreaterEqual Less LessEqual Maximum Minimum Mul NotEqual Pow RealDiv Sub"

# name: (how it is made, its arguments, in_strategy, out_strategies that it is asked for).
CASES = {
    **{name: ((), (X,), (HALVES,), [(HALVES,), ((4, 1),), ((1, 1),)]) for name in ONE.split()},
    **{name: ((), (X, Y), (HALVES, HALVES), [(HALVES,), ((1, 4),)]) for name in TWO.split()},
    "LogicalAnd": ((), (BITS, ~BITS), (HALVES, HALVES), [(HALVES,)]),
    "LogicalOr": ((), (BITS, ~BITS), (HALVES, HALVES), [(HALVES,)]),
    "LogicalNot": ((), (BITS,), (HALVES,), [((1, 4),)]),
    "MatMul": ((False, True), (X, Y), (HALVES, (1, 2)), [((2, 1),), ((2, 2),), ((4, 1),)]),
    "BatchMatMul": ((True, False), (CUBE, CUBE), ((2, 2, 1), (2, 2, 1)), [((2, 1, 1),), ((2, 2, 1),), ((4, 1, 1),)]),
    "Einsum": (("ij,kj->ik",), ((X, Y),), (HALVES, (1, 2)), [((2, 1),), ((2, 2),)]),
    "BiasAdd": ((), (X, Y[0]), (HALVES, (2,)), [(HALVES,)]),
    "Gather": ((), (X, np.array([3, 0, 1, 3]), 0), ((2, 1), (2,)), [((2, 1),), ((2, 2),)]),
    "Conv2D": ((8, 3), (IMAGES, RNG.normal(size=(8, 4, 3, 3))), ((2, 1, 1, 1), (2, 1, 1, 1)), [((2, 2, 1, 1),)]),
    "MaxPool": ((2, 2), (IMAGES,), ((2, 2, 1, 1),), [((4, 1, 1, 1),)]),
    "AvgPool": ((2, 2), (IMAGES,), ((2, 2, 1, 1),), [((1, 4, 1, 1),)]),
    **{
        name: ((), (CUBE, 1), ((2, cut, 2 // cut),), [((2, 1),), ((1, 2),)])
        for name, cut in (("ReduceSum", 2), ("ReduceMean", 2), ("ReduceProd", 1), ("ReduceMax", 1), ("ReduceMin", 1))
    },
    "Softmax": ((0,), (CUBE,), ((1, 2, 2),), [((1, 2, 2),), ((4, 1, 1),)]),
    "LogSoftmax": ((-1,), (X,), ((4, 1),), [((1, 4),)]),
    "Argmax": ((-1,), (X,), ((4, 1),), [((4,),), ((1,),)]),
    "Argmin": ((0,), (X,), ((1, 4),), [((4,),)]),
    "CumSum": ((), (X, 1), ((4, 1),), [((2, 1),), ((4, 1),)]),
    "Reshape": ((), (X, (2, 2, 8)), ((2, 2),), [((2, 1, 2),), ((2, 1, 1),)]),
    "ExpandDims": ((), (X, 1), (HALVES,), [((2, 1, 2),)]),
    "Squeeze": ((1,), (X[:, None],), ((2, 1, 2),), [(HALVES,)]),
    "Transpose": ((), (CUBE, (2, 0, 1)), ((2, 1, 2),), [((2, 2, 1),)]),
    "BroadcastTo": (((3, 4, 8),), (X,), (HALVES,), [((1, 2, 2),)]),
    "Concat": ((1,), ((X, Y),), ((4, 1), (4, 1)), [((4, 1),), ((1, 4),)]),
    "Stack": ((0,), ((X, Y),), (HALVES, HALVES), [((1, 2, 2),), ((2, 2, 1),)]),
    "Split": ((1, 2), (X,), ((4, 1),), [((4, 1), (4, 1)), ((4, 1), (1, 4))]),
    "Pad": ((((0, 0), (1, 2)),), (X,), ((4, 1),), [((4, 1),)]),
    "ReverseV2": (((1,),), (X,), ((4, 1),), [((1, 4),)]),
    "Tril": ((1,), (CUBE,), ((4, 1, 1),), [((4, 1, 1),)]),
    "Triu": ((-1,), (CUBE,), ((4, 1, 1),), [((1, 2, 2),)]),
    "GatherD": ((), (X, 1, RNG.integers(0, 8, (4, 5))), ((4, 1), (4, 1)), [((4, 1),)]),
    "Select": ((), (BITS, X, Y), (HALVES,) * 3, [(HALVES,)]),
    "Cast": ((), (X, np.float32), (HALVES,), [(HALVES,), ((4, 1),)]),
}


def tensors(arguments):
    """The arguments with real arrays as tensors that get gradients, and a list of those."""
    made = []

    def one(value):
        if isinstance(value, tuple) and value and isinstance(value[0], np.ndarray):
            return tuple(map(one, value))
        if not isinstance(value, np.ndarray):
            return value
        tensor = Tensor(value.copy(), requires_grad=value.dtype.kind == "f")
        if tensor.requires_grad:
            made.append(tensor)
        return tensor

    return tuple(map(one, arguments)), made


def run(operator, arguments):
    """Values and gradients."""
    given, leaves = tensors(arguments)
    made = operator(*given)
    outputs = made if isinstance(made, tuple) else (made,)
    values = [output.numpy() for output in outputs]
    if all(output.requires_grad for output in outputs):
        total = sum((output * Tensor(weight_of(output))).real.sum() for output in outputs)
        total.backward()
    return outputs, values, [None if leaf.grad is None else leaf.grad.numpy() for leaf in leaves]


def weight_of(output):
    return np.random.default_rng(1).normal(size=output.shape).astype(output.dtype)


def parts(output):
    """Into how many parts each dimension is cut."""
    counts = [1] * output.ndim
    for placement, degree in zip(output.placements, output.mesh.shape):
        if getattr(placement, "dim", None) is not None:
            counts[placement.dim] *= degree
    return tuple(counts)


def main():
    init("mpi")
    assert set(CASES) == set(ops.__all__) - {"Primitive"}
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel")
    for name, (options, arguments, in_strategy, outs) in CASES.items():
        kind = getattr(ops, name)
        _, values, gradients = run(kind(*options), arguments)
        for out_strategy in (None, *outs):
            outputs, got, slopes = run(kind(*options).shard(in_strategy, out_strategy), arguments)
            if out_strategy is not None:
                assert tuple(map(parts, outputs)) == out_strategy, (name, out_strategy)
            told = f"{name} {out_strategy}"
            for a, b in zip(got, values, strict=True):
                np.testing.assert_allclose(a, b, atol=1e-12, err_msg=told)
            for a, b in zip(slopes, gradients, strict=True):
                assert (a is None) == (b is None), told
                if a is not None:
                    np.testing.assert_allclose(a, b, atol=1e-6 if name == "Cast" else 1e-12, err_msg=told)
    if get_rank() == 0:
        print("all equal")


if __name__ == "__main__":
    main()
