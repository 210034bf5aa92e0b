"""Every entry point of the native module refuses sizes, positions and indices that would lead it past its memory.

The table below has one row for each entry point, with calls that must be refused; one that is forgotten fails the test.
Each wrong call is a right one with one argument changed, and the right ones are run too.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import row_programs as rows

from qdist.native import kernels
from qdist.plan.operations import Operation

BITS = 5
SIZE = 1 << BITS
LARGE = 1 << 61


def shard(dtype: str, size: int = SIZE) -> np.ndarray:
    return np.ones(size, dtype)


def doubles(size: int) -> np.ndarray:
    return np.zeros(size)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def masks(*values: int) -> np.ndarray:
    return np.array(values, np.uint64)


def flip(kind: str = "flip", mixes: int = 1, controls: tuple[tuple[int, int], ...] = ()) -> Operation:
    return Operation(kind, mixes, 0, 0, (0,), controls)


def form(**changes: Any) -> Any:
    """CRY of a control that must be 1, as kernels.GateForm takes it."""
    return kernels.GateForm(**form_arguments() | changes)


def form_arguments() -> dict[str, Any]:
    ry = 2
    return {
        **{"kind": 0, "swaps": False, "qubits": 2, "angles": 1, "mixes": 2, "x_like": 0, "z_like": 1, "targets": [1]},
        **{"controls": [(0, 1)], "formula": ry, "slots": [0], "matrix": [], "source": [], "phases": [], "wide": []},
        **{"letters": "", "sign": 1.0, "is_real": True, "is_pure": True, "pass_of": (2, 0, False, False)},
        "factors": [(12, [0], [0, 1], np.kron([[0, -1j], [1j, 0]], [[0, 0], [0, 1]]).ravel().tolist())],
    }


def pauli_plan(bits: int = BITS, **changes: Any) -> Any:
    arguments = {
        "bits": bits,
        "x": masks(1, 3),
        "z": masks(2, 0),
        "coefficients": np.array([1.0, 0.5], complex),
        "observable": ints(0, 1),
        "observables": 2,
        "tile_bits": 6,
    }
    return kernels.PauliPlan(**arguments | changes)


def device_numbers() -> dict[str, Any]:
    """Two matrices' numbers, a phase table and a rotation."""
    return {
        "matrices": matrices(),
        "constants": doubles(40),
        "to": ints(0, 39),
        "source": ints(0, 31),
        "sign": np.ones(2),
        "offsets": doubles(1),
        "owner": ints(0),
        "slot": ints(0),
        "coefficient": np.ones(1),
        "settings": 2,
        "tables": ints(4),
        "terms": ints(0, 1, 1, 0)[None],
        "rotations": ints(8, 0, 1, 1)[None],
        "cores": ints(12, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7)[None],
    }


def program(dtype: str, stage: bool = True, bind: bool = True, angles: int = 2) -> Any:
    """RX of angle 1 on bit 0 of a stage that has all bits."""
    p = (kernels.Program64 if dtype == "complex64" else kernels.Program128)(BITS)
    p.set_affine([(0, 0, 1.0), (1, 1, 1.0)][:angles], [0.0] * angles)
    if stage:
        p.begin_stage(list(range(BITS)))
        p.dense([0], 0, 0, 0, 0, [(1, [1], [0], [])])
    if bind:
        p.bind(np.zeros(angles))
    return p


RX = (1, [1], [0], [])
X = (0, [], [0], [0, 1, 1, 0])


def matrices() -> Any:
    found = kernels.MatrixList()
    found.add(2, [RX, (0, [], [1], [1, 0, 0, 1])])
    return found


class Wrong:
    """Right arguments, and for each of some of them values that must be refused."""

    def __init__(self, call: Callable[..., Any], right: Callable[[], dict[str, Any]], **wrong: list[Any]) -> None:
        self.call, self.right, self.wrong = call, right, wrong

    def calls(self) -> Iterator[tuple[str, dict[str, Any]]]:
        assert set(self.wrong) <= set(self.right()), "a name that the right call does not have"
        for name, values in self.wrong.items():
            for value in values:
                yield f"{name}={value!r:.60}", {**self.right(), name: value}


def method(name: str) -> Callable[..., Any]:
    return lambda it, **rest: getattr(it, name)(**rest)


def functions(dtype: str) -> dict[str, Wrong]:
    short, long, odd = shard(dtype, SIZE // 2), shard(dtype, 2 * SIZE), shard(dtype, SIZE - 1)
    none = shard(dtype, 0)
    same = shard(dtype)
    bits = list(range(BITS))
    rows = np.ones((3, SIZE), dtype)
    gates = {"mixes": masks(1, 2), "x_like": masks(0, 2), "z_like": masks(2, 0)}
    return {
        "add_affine": Wrong(
            kernels.add_affine,
            lambda: {
                "slots": ints(0, 2),
                "parameters": ints(1, 0),
                "coefficients": doubles(2),
                "theta": np.zeros((3, 2)),
                "angles": np.zeros((3, 4)),
            },
            slots=[ints(0), ints(0, 4), ints(-1, 0)],
            parameters=[ints(0), ints(0, 2), ints(-1, 0)],
            coefficients=[doubles(1), doubles(3)],
            theta=[np.zeros((2, 2)), np.zeros((3, 1))],
            angles=[np.zeros((2, 4)), np.zeros((3, 2))],
        ),
        "add_leaves": Wrong(
            kernels.add_leaves,
            lambda: {
                "shard": shard(dtype),
                "first": 0,
                "bases": ints(0, 4),
                "positions": [0, 1],
                "trees": doubles(16),
            },
            shard=[odd, none],
            first=[1, SIZE // 2, 1 << 63],
            positions=[[0], [0, 64], [0, -1], [0, 0], list(range(62))],
            trees=[doubles(15), doubles(8), doubles(0)],
        ),
        "add_probabilities": Wrong(
            kernels.add_probabilities,
            lambda: {"shard": shard(dtype), "first": 0, "positions": [4, 0], "out": doubles(4)},
            shard=[odd, none],
            first=[SIZE - 1, 1 << 62],
            positions=[[0], [0, 1, 2], [0, -1], [0, 62], [0, 200], [1, 1]],
            out=[doubles(3), doubles(8), doubles(0)],
        ),
        "add_weighted": Wrong(
            kernels.add_weighted,
            lambda: {
                "ket": shard(dtype),
                "first": 0,
                "positions": [4, 0],
                "weights": doubles(4),
                "bra": shard(dtype),
            },
            ket=[odd, none, short],
            bra=[short, long],
            first=[2],
            positions=[[0], [0, -1], [0, 64], [0, 0]],
            weights=[doubles(2), doubles(0)],
        ),
        "alternations": Wrong(
            kernels.alternations,
            lambda: {**gates, "kinds": [True, False]},
            x_like=[masks(0)],
            z_like=[masks()],
            kinds=[[True]],
        ),
        "fuse": Wrong(
            kernels.fuse,
            lambda: {"operations": [flip()], "parities": 6, "flags": None},
            operations=[[flip(kind="x")], [flip(mixes=-1)], [flip(mixes=1 << 64)], [flip(controls=((64, 1),))]],
            parities=[-1, 63],
            flags=[[], [0, 0]],
        ),
        "GateForm": Wrong(
            kernels.GateForm,
            form_arguments,
            kind=[-1, 6, 4, 5],
            qubits=[-1, 1, 63],
            angles=[0],
            mixes=[4],
            x_like=[4],
            z_like=[4],
            targets=[[2], [-1], [0, 1], [1, 1], []],
            controls=[[(2, 1)], [(-1, 1)], [(0, 2)]],
            formula=[-1, 1000, 0],
            slots=[[1], [-1], [0, 0], []],
            phases=[[([2], 0.0, [])], [([0], 0.0, [(1, 1.0)])], [([0, 0], 0.0, [])]],
            wide=[[([(2, 1)], 0.0, [])], [([(0, 2)], 0.0, [])], [([(0, 1)], 0.0, [(1, 1.0)])]],
            letters=["XX"],
            pass_of=[(-1, 0, False, False), (6, 0, False, False), (0, 0, False, False), (3, 4, False, False)],
            factors=[[(2, [1], [1], [])], [(2, [0], [2], [])], [(2, [], [1], [])], [(0, [], [0], [1, 0, 0])]],
        ),
        "GateForm.num_mixed": Wrong(lambda: form().num_mixed, dict),
        "add_gates": Wrong(
            kernels.add_gates,
            lambda: {
                **{"program": program(dtype, stage=False, bind=False), "forms": [form()]},
                **{"which": np.array([0, 0], np.int32), "qubits": np.array([0, 1, 4, 2], np.int32)},
                **{"tile": BITS, "contiguous": BITS, "parities": 6},
            },
            program=[program(dtype)],
            forms=[[]],
            which=[np.array([0, 1], np.int32), np.array([0, -1], np.int32), np.array([0], np.int32)],
            qubits=[np.array(some, np.int32) for some in ([0, 1, 4], [0, 1, 4, 5], [0, 1, 4, -1], [0, 1, 2, 2])],
            tile=[-1, BITS + 1, BITS - 1],
            contiguous=[-1, BITS + 1],
            parities=[-1, 63],
        ),
        "pair_runs": Wrong(
            kernels.pair_runs,
            lambda: {
                **{"qubits": masks(1, 3), "kinds": np.array([0, 4], np.int32), "flips": masks(0, 0)},
                **{"odd_ys": [False, False], "simple": [True, False], "close": 3},
            },
            qubits=[masks(1), masks(3, 3)],
            kinds=[np.array([0], np.int32), np.array([-1, 4], np.int32), np.array([0, 6], np.int32)],
            flips=[masks()],
            odd_ys=[[True]],
            simple=[[]],
            close=[-1, 65],
        ),
        "apply_batch": Wrong(
            kernels.apply_batch,
            lambda: {
                "plan": pauli_plan(),
                "kets": rows,
                "weights": np.ones((3, 2)),
                "bras": rows.copy(),
                "values": np.zeros((3, 2)),
            },
            plan=[pauli_plan(BITS - 1), pauli_plan(BITS + 1), pauli_plan(2, x=masks(1, 1))],
            kets=[np.ones((3, SIZE // 2), dtype), np.ones((2, SIZE), dtype), np.ones((3, 4), dtype)],
            weights=[np.ones((3, 1)), np.ones((2, 2))],
            bras=[rows[:2], np.ones((3, SIZE // 2), dtype), rows],
            values=[np.zeros((3, 1)), np.zeros((1, 2))],
        ),
        "descend": Wrong(
            kernels.descend,
            lambda: {
                "trees": np.ones(16),
                "depth": 2,
                "row": ints(0, 1),
                "shot": ints(0, 1),
                "key": 7,
                "level": 0,
                "out": ints(0, 0),
            },
            trees=[np.ones(8), np.ones(15), np.ones(0)],
            depth=[-1, 3, 62, 100],
            row=[ints(0, 2), ints(-1, 0), ints(0)],
            shot=[ints(0)],
            level=[-1, 63],
            out=[ints(0), ints()],
        ),
        "inner": Wrong(
            kernels.inner,
            lambda: {"bra": shard(dtype), "ket": shard(dtype)},
            bra=[short, long],
            ket=[short, long, none],
        ),
        "max_threads": Wrong(kernels.max_threads, dict),
        "pack": Wrong(
            kernels.pack,
            lambda: {"shard": shard(dtype), "base": 1, "within": 6, "out": shard(dtype, 4)},
            base=[SIZE, 2, 1 << 63],
            within=[SIZE, 3, (1 << 64) - 1],
            out=[shard(dtype, 2), shard(dtype, 8), none],
        ),
        "permuted_copy": Wrong(
            kernels.permuted_copy,
            lambda: {"source": shard(dtype), "positions": bits, "out": shard(dtype)},
            source=[short, long, odd],
            positions=[bits[:-1], [*bits[:-1], BITS], [*bits[:-1], -1], [0, *bits[:-1]]],
            out=[short, odd, none],
        ),
        "permuted_inner": Wrong(
            kernels.permuted_inner,
            lambda: {"bra": shard(dtype), "ket": shard(dtype), "positions": bits},
            bra=[short, odd],
            ket=[short, none],
            positions=[bits[:-1], [*bits[:-1], BITS], [0] * BITS, []],
        ),
        "project": Wrong(
            kernels.project,
            lambda: {"shard": shard(dtype), "first": 0, "mask": 3, "value": 1, "scale": 1.0},
            shard=[odd, none],
            first=[1],
            mask=[0, 1 << 63],
            value=[4],
        ),
        "reset_bit": Wrong(
            kernels.reset_bit,
            lambda: {"shard": shard(dtype), "position": 0, "outcome": True, "scale": 1.0},
            shard=[odd, none, shard(dtype, 1)],
            position=[-1, BITS, 64],
        ),
        "schedule": Wrong(
            kernels.schedule,
            lambda: {**gates, "weight": doubles(2), "num_qubits": 3, "close": 2, "forced": 1},
            mixes=[masks(1), masks(1, 8)],
            x_like=[masks(1)],
            z_like=[masks()],
            weight=[doubles(1)],
            num_qubits=[-1, 1, 65],
            close=[-1],
            forced=[8],
        ),
        "schedule_cheapest": Wrong(
            kernels.schedule_cheapest,
            lambda: {
                **{**gates, "weight": doubles(2), "num_qubits": 3, "close": 2, "forced": 1},
                **{"support": 0, "tries": 2, "work": 0.1},
            },
            mixes=[masks(1), masks(1, 8)],
            x_like=[masks(1)],
            z_like=[masks()],
            weight=[doubles(1)],
            num_qubits=[-1, 1, 65],
            close=[-1],
            forced=[8],
            support=[8],
            tries=[0],
        ),
        "schedule_moving": Wrong(
            kernels.schedule_moving,
            lambda: {
                **{**gates, "weight": doubles(2), "num_qubits": 4, "close": 3},
                **{"low": 1, "support": 0, "tries": 2, "work": 0.1},
            },
            mixes=[masks(1), masks(1, 16), masks(7, 1)],
            x_like=[masks(1)],
            z_like=[masks()],
            weight=[doubles(1)],
            num_qubits=[-1, 1, 65],
            close=[-1],
            low=[16, 7],
            support=[16],
            tries=[0],
        ),
        "search": Wrong(
            kernels.search,
            lambda: {**gates, "num_qubits": 3, "close": 2, "start": None, "limit": 1000},
            mixes=[masks(1), masks(7, 1), masks(1, 8)],
            x_like=[masks(1)],
            z_like=[masks()],
            num_qubits=[-1, 1, 65],
            close=[-1, 0],
            start=[8],
            limit=[-1],
        ),
        "set_beyond_caches": Wrong(kernels.set_beyond_caches, lambda: {"bytes": 1 << 26}, bytes=[-1]),
        "set_threads": Wrong(kernels.set_threads, lambda: {"threads": kernels.max_threads()}, threads=[0, -1, 1 << 20]),
        "squared_norm": Wrong(kernels.squared_norm, lambda: {"shard": shard(dtype)}),
        "swap_parts": Wrong(
            kernels.swap_parts,
            lambda: {"a": shard(dtype), "base_a": 1, "b": shard(dtype), "base_b": 0, "within": 6},
            a=[shard(dtype, 4)],
            b=[shard(dtype, 4)],
            base_a=[2, SIZE],
            base_b=[4, 1 << 62],
            within=[SIZE, 7],
        ),
        "swap_positions": Wrong(
            kernels.swap_positions,
            lambda: {"shard": shard(dtype), "partner": [1, 0, 2, 3, 4]},
            shard=[short, odd],
            partner=[[1, 0], [1, 2, 0, 3, 4], [5, 1, 2, 3, 0], [-1, 1, 2, 3, 0], list(range(64))],
        ),
        "unpack": Wrong(
            kernels.unpack,
            lambda: {"source": shard(dtype, 4), "shard": shard(dtype), "base": 1, "within": 6},
            source=[shard(dtype, 2), none],
            base=[SIZE, 2],
            within=[SIZE, 3],
        ),
        "reduce_angles": Wrong(kernels.reduce_angles, lambda: {"rows": np.zeros((2, 3))}),
        "MatrixList": Wrong(kernels.MatrixList, dict),
        "MatrixList.add": Wrong(
            method("add"),
            lambda: {"it": kernels.MatrixList(), "num_bits": 2, "factors": [RX, X]},
            num_bits=[-1, 0, 40],
            factors=[
                [(1, [1], [2], [])],
                [(1, [1], [-1], [])],
                [(1, [], [0], [])],
                [(1, [-1], [0], [])],
                [(1, [0, 1], [0], [])],
                [(8, [0], [0], [])],
                [(8, [0], [0, 0], [])],
                [(-1, [0], [0], [])],
                [(99, [0], [0], [])],
                [(0, [], [0], [1, 0, 0])],
                [(0, [0], [0], [0, 1, 1, 0])],
            ],
        ),
        "MatrixList.at": Wrong(
            method("at"),
            lambda: {"it": matrices(), "angles": doubles(2), "out": np.zeros(16, complex)},
            angles=[doubles(1), doubles(0)],
            out=[np.zeros(15, complex), np.zeros(0, complex)],
        ),
        "MatrixList.add_gradients": Wrong(
            method("add_gradients"),
            lambda: {
                "it": matrices(),
                "transitions": np.zeros(16, complex),
                "angles": doubles(2),
                "gradient": doubles(2),
            },
            transitions=[np.zeros(4, complex)],
            angles=[doubles(1), doubles(3)],
            gradient=[doubles(1), doubles(0)],
        ),
        "MatrixList.size": Wrong(lambda: matrices().size, dict),
        "DeviceNumbers": Wrong(
            kernels.DeviceNumbers,
            device_numbers,
            to=[ints(0, 40), ints(0, -1), ints(0)],
            source=[ints(0, 32), ints(-1, 0), ints(0)],
            sign=[doubles(1)],
            offsets=[doubles(0)],
            owner=[ints(1), ints(-1), ints(0, 0)],
            slot=[ints(-1), ints(LARGE), ints(0, 0)],
            coefficient=[doubles(0)],
            settings=[0, -1, 3, 1 << 40],
            tables=[ints(38), ints(-1)],
            terms=[ints(1, 0, 0, 0)[None], ints(0, 0, 0, 1)[None], ints(-1, 0, 0, 0)[None], ints(0, 0, 0)[None]],
            rotations=[ints(38, 0, 0, 0)[None], ints(-1, 0, 0, 0)[None], ints(0, 1, 0, 0)[None], ints(0, 0, 0)[None]],
            cores=[
                ints(25, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7)[None],
                ints(12, 1, 0, 0, 1, 2, 3, 4, 5, 6, 7)[None],
                ints(12, 0, 0, 0, 1, 2, 3, 4, 5, 6, LARGE)[None],
                ints(12, 0, 0, 0, 1, 2, 3, 4, 5, 6, -1)[None],
                ints(12, 0, 0, 0, 1, 2)[None],
            ],
        ),
        "DeviceNumbers.in_single": Wrong(
            method("in_single"),
            lambda: {
                "it": kernels.DeviceNumbers(**device_numbers()),
                "angles": np.zeros((2, 2)),
                "reals": np.zeros((2, 40), np.float32),
                "turns": np.zeros((2, 1), np.uint32),
            },
            angles=[np.zeros((2, 1)), np.zeros((1, 2)), np.zeros((3, 2))],
            reals=[np.zeros((2, 39), np.float32), np.zeros((1, 40), np.float32)],
            turns=[np.zeros((2, 2), np.uint32), np.zeros((3, 1), np.uint32)],
        ),
        "DeviceNumbers.in_double": Wrong(
            method("in_double"),
            lambda: {
                "it": kernels.DeviceNumbers(**device_numbers()),
                "angles": np.zeros((2, 2)),
                "reals": np.zeros((2, 40)),
                "turns": np.zeros((2, 1), np.uint64),
            },
            angles=[np.zeros((2, 1)), np.zeros((1, 2))],
            reals=[np.zeros((2, 39)), np.zeros((1, 40))],
            turns=[np.zeros((2, 2), np.uint64)],
        ),
        "PauliPlan": Wrong(
            pauli_plan,
            dict,
        ),
        "PauliPlan.add_expectations": Wrong(
            method("add_expectations"),
            lambda: {"it": pauli_plan(), "shard": shard(dtype), "first": 0, "out": doubles(2)},
            it=[pauli_plan(BITS + 1), pauli_plan(BITS - 1), pauli_plan(2)],
            shard=[short, long, odd, none],
            first=[1, 1 << 63],
            out=[doubles(1), doubles(0)],
        ),
        "PauliPlan.apply": Wrong(
            method("apply"),
            lambda: {
                "it": pauli_plan(),
                "shard": same,
                "first": 0,
                "weights": doubles(2),
                "out": shard(dtype),
                "add": False,
                "values": doubles(2),
            },
            it=[pauli_plan(BITS + 1), pauli_plan(2)],
            shard=[short, long, none],
            first=[3],
            weights=[doubles(1), doubles(0)],
            out=[short, long, same],
            values=[doubles(1)],
        ),
        "PauliPlan.passes": Wrong(lambda: pauli_plan().passes, dict),
        **program_methods(dtype),
        **call_table_methods(),
        **tensor_kernels("float32" if dtype == "complex64" else "float64"),
    }


def row_kernels(dtype: str) -> dict[str, Wrong]:
    """Of softmax, cross entropy and layer norm: three rows of four numbers."""

    def rows() -> np.ndarray:
        return np.ones((3, 4), dtype)

    def each(size: int = 3) -> np.ndarray:
        return np.ones(size, dtype)

    def targets(*given: int) -> np.ndarray:
        return np.array(given or (0, 3, 1))

    shapes = [np.ones((2, 4), dtype), np.ones((3, 5), dtype), np.ones((4, 3), dtype).T, np.ones((3, 4), "int64")]
    lengths = [each(2), each(4), each(6)[::2]]
    columns = [each(3), each(5), each(8)[::2]]
    classes = [targets(0, 1), targets(0, 1, 2, 3), targets(0, 4, 1), targets(-1, 0, 1), np.ones(3, "int32")]
    norm = {"weight": columns, "rstd": lengths, "hat": shapes, "out": shapes}
    return {
        "softmax": Wrong(
            kernels.softmax,
            lambda: {"a": rows(), "scale": 1.0, "queries": 3, "out": rows()},
            a=shapes,
            out=shapes,
            queries=[-1],
        ),
        "softmax_back": Wrong(
            kernels.softmax_back,
            lambda: {"g": rows(), "y": rows(), "scale": 1.0, "out": rows()},
            g=shapes,
            y=shapes,
            out=shapes,
        ),
        "cross_entropy": Wrong(
            kernels.cross_entropy,
            lambda: {"a": rows(), "targets": targets(), "p": rows(), "loss": each()},
            a=shapes,
            targets=classes,
            p=shapes,
            loss=lengths,
        ),
        "cross_entropy_back": Wrong(
            kernels.cross_entropy_back,
            lambda: {"g": each(), "p": rows(), "targets": targets(), "out": rows()},
            g=lengths,
            p=shapes,
            targets=classes,
            out=shapes,
        ),
        "layer_norm": Wrong(
            kernels.layer_norm,
            lambda: {
                **{"x": rows(), "weight": each(4), "bias": each(4), "eps": 1e-5},
                **{"hat": rows(), "rstd": each(), "out": rows()},
            },
            x=shapes,
            bias=[*columns, None],
            **norm,
        ),
        "layer_norm_back": Wrong(
            kernels.layer_norm_back,
            lambda: {
                **{"g": rows(), "hat": rows(), "rstd": each(), "weight": each(4)},
                **{"out": rows(), "weight_sum": each(4), "bias_sum": each(4)},
            },
            g=shapes,
            weight_sum=columns,
            bias_sum=columns,
            **norm,
        ),
        "add_rows": Wrong(
            kernels.add_rows,
            lambda: {"places": targets(), "values": rows(), "target": np.ones((4, 4), dtype)},
            places=classes,
            values=shapes,
            target=[np.ones((3, 4), dtype), np.ones((4, 3), dtype), np.ones((4, 8), dtype)[:, ::2]],
        ),
        "column_sums": Wrong(
            kernels.column_sums,
            lambda: {"a": rows(), "threads": 1, "out": each(4)},
            a=shapes[1:],
            threads=[0, -1, 1 << 20],
            out=columns,
        ),
    }


def matrices_of(*shape: int) -> np.ndarray:
    return np.ones(shape, "float32")


def product_kernels() -> dict[str, Wrong]:
    """Two products of (3, 4) by (4, 5)."""
    return {
        "multiply": Wrong(
            kernels.multiply,
            lambda: {
                **{"a": matrices_of(2, 3, 4), "b": matrices_of(2, 4, 5), "row": matrices_of(5)},
                **{"add": True, "threads": 1, "out": matrices_of(2, 3, 5)},
            },
            a=[matrices_of(1, 3, 4), matrices_of(2, 2, 4), matrices_of(2, 3, 5), matrices_of(2, 3, 4).astype(float)],
            b=[matrices_of(1, 4, 5), matrices_of(2, 3, 5), matrices_of(2, 4, 6), matrices_of(2, 4, 5).astype(float)],
            row=[matrices_of(4), matrices_of(6), matrices_of(10)[::2]],
            threads=[0, -1, 1 << 20],
            out=[
                *(matrices_of(3, 3, 5), matrices_of(2, 4, 5), matrices_of(2, 3, 4), matrices_of(2, 3, 10)[..., ::2]),
                np.broadcast_to(matrices_of(1, 1, 5), (2, 3, 5)),
                np.lib.stride_tricks.as_strided(matrices_of(50), (2, 3, 5), (64, 16, 4)),
            ],
        ),
    }


def words(*shape: int) -> np.ndarray:
    return np.ones(shape, "uint64")


def word_kernels() -> dict[str, Wrong]:
    return {
        "word_sums": Wrong(
            kernels.word_sums,
            lambda: {"a": words(3, 4), "along": words(3), "across": words(4)},
            a=[words(2, 4), words(3, 5), words(4, 3).T, words(3, 4).astype("int64")],
            along=[words(2), words(6)[::2], words(3).astype("float64")],
            across=[words(3), words(8)[::2], words(4).astype("int64")],
        )
    }


def window_kernels(dtype: str) -> dict[str, Wrong]:
    """Of convolutions: windows of 2 x 2 in images of two channels, three of 4 x 5."""

    def images(*shape: int) -> np.ndarray:
        return np.ones(shape or (2, 3, 4, 5), dtype)

    def rows(*shape: int) -> np.ndarray:
        return np.ones(shape or (8, 3 * 3 * 4), dtype)

    wrong = {
        "kernel": [(0, 2), (2, 0), (-1, 2), (5, 2), (3, 2)],
        "stride": [(0, 1), (1, 0), (-1, 1), (2, 1)],
        "padding": [(-1, 0), (0, 1 << 40), (1, 0)],
        "dilation": [(0, 1), (1, 0), (4, 1), (2, 1)],
        "x": [images(2, 2, 4, 5), images(2, 3, 3, 5), images(2, 3, 5, 4).swapaxes(2, 3)],
    }
    pairs = {"kernel": (2, 2), "stride": (1, 1), "padding": (0, 0), "dilation": (1, 1)}
    return {
        "gather_windows": Wrong(
            kernels.gather_windows,
            lambda: {"x": images(), **pairs, "out": rows()},
            out=[rows(9, 36), rows(7, 36), rows(8, 35), rows(36, 8).T],
            **wrong,
        ),
        "add_windows": Wrong(
            kernels.add_windows,
            lambda: {"rows": rows(), **pairs, "x": images()},
            rows=[rows(7, 36), rows(8, 35), rows(36, 8).T],
            **{**wrong, "x": [*wrong["x"], images(1, 3, 4, 5)]},
        ),
    }


def tensor_kernels(dtype: str) -> dict[str, Wrong]:
    def numbers(size: int = 20, kind: str = dtype) -> np.ndarray:
        return np.ones(size, kind)

    def images(*shape: int, kind: str = dtype) -> np.ndarray:
        return np.zeros(shape, kind)

    lengths = [numbers(19), numbers(0), numbers(40)[::2], numbers(20, "int64")]
    singles = [numbers(19, "float32"), numbers(20, "float64"), numbers(40, "float32")[::2]]
    six = [0.5] * 6
    windows = {
        "kernel": [(0, 2), (2, 0), (2, 4), (300, 1), (20, 20), (-1, 2)],
        "stride": [(0, 2), (2, 0), (3, 2), (2, 3), (-1, 2), (1 << 62, 1)],
    }
    small = [
        images(2, 3, 2, 4),
        images(2, 3, 3, 3),
        images(1, 3, 2, 3),
        images(2, 4, 2, 3),
        images(2, 3, 3, 2).swapaxes(2, 3),
    ]
    small_bytes = [a.astype(np.uint8) for a in small[:4]]
    large = [images(2, 3, 3, 6), images(2, 3, 4, 5), images(3, 3, 4, 6), images(2, 3, 6, 4).swapaxes(2, 3)]
    return {
        **row_kernels(dtype),
        **product_kernels(),
        **word_kernels(),
        **window_kernels(dtype),
        "rational": Wrong(
            kernels.rational,
            lambda: {
                "x": numbers(20, "float32"),
                "times": numbers(20, "float32"),
                "limit": 5.0,
                "p": six,
                "q": six,
                "out": numbers(20, "float32"),
            },
            x=singles,
            times=singles,
            p=[six[1:], [*six, 1.0], []],
            q=[six[1:], [*six, 1.0], []],
            out=singles,
        ),
        "positive": Wrong(kernels.positive, lambda: {"a": numbers(), "out": numbers()}, a=lengths, out=lengths),
        "times_positive": Wrong(
            kernels.times_positive,
            lambda: {"g": numbers(), "y": numbers(), "out": numbers()},
            g=lengths,
            y=lengths,
            out=lengths,
        ),
        "adam": Wrong(
            kernels.adam,
            lambda: {
                **{name: numbers() for name in "pgmv"},
                **{"beta1": 0.9, "beta2": 0.99, "root_scale": 1.0, "eps": 1e-8, "rate": 0.1, "keep": 1.0, "decay": 0.0},
            },
            p=lengths,
            g=lengths,
            m=lengths,
            v=lengths,
        ),
        "max_pool": Wrong(
            kernels.max_pool,
            lambda: {
                "x": images(2, 3, 4, 6),
                "kernel": (2, 2),
                "stride": (2, 2),
                "best": images(2, 3, 2, 3),
                "winner": images(2, 3, 2, 3, kind="uint8"),
            },
            x=large,
            best=small,
            winner=small_bytes,
            **windows,
        ),
        "max_pool_back": Wrong(
            kernels.max_pool_back,
            lambda: {
                "g": images(2, 3, 2, 3),
                "winner": images(2, 3, 2, 3, kind="uint8"),
                "kernel": (2, 2),
                "stride": (2, 2),
                "x": images(2, 3, 4, 6),
            },
            g=small,
            winner=[*small_bytes, images(2, 3, 2, 3, kind="uint8") + np.uint8(4)],
            x=large,
            **windows,
        ),
    }


def call_table_methods() -> dict[str, Wrong]:
    nbytes = kernels.CallTable.bytes(2)
    buffer = np.zeros(nbytes + 128, np.uint8)
    start = -buffer.ctypes.data % 64
    memory = buffer[start : start + nbytes]

    def table() -> Any:
        return kernels.CallTable(memory, 2, 0, [0, 1], False)

    attributes = ("compared", "differs", "is_due", "why_broken", "count", "digest")
    return {
        "CallTable": Wrong(
            kernels.CallTable,
            lambda: {"memory": memory, "size": 2, "rank": 0, "near": [0, 1], "spans": False},
            memory=[memory[:-1], memory[:0], buffer[start + 1 : start + 1 + nbytes], np.zeros(nbytes, np.int8)],
            size=[0, -1, 3],
            rank=[-1, 2],
            near=[[2], [-1]],
        ),
        "CallTable.bytes": Wrong(kernels.CallTable.bytes, lambda: {"size": 2}),
        "CallTable.enter": Wrong(
            method("enter"),
            lambda: {
                "it": table(),
                "op": 1,
                "reduction": 1,
                "dtype": 0,
                "flags": 0,
                "root": -1,
                "shape": (1,) * 70,
                "more": 0,
            },
            shape=[[1], 3, ("x",), (1 << 70,)],
        ),
        "CallTable.calls": Wrong(method("calls"), lambda: {"it": table(), "rank": 1}, rank=[-1, 2]),
        "CallTable.break_group": Wrong(method("break_group"), lambda: {"it": table(), "why": "x" * 5000}),
        **{f"CallTable.{name}": Wrong(lambda name=name: getattr(table(), name), dict) for name in attributes},
    }


def program_methods(dtype: str) -> dict[str, Wrong]:
    name = "Program64" if dtype == "complex64" else "Program128"
    tile = max(BITS, kernels.lane_bits[dtype == "complex128"])
    short, long = shard(dtype, SIZE // 2), shard(dtype, 2 * SIZE)
    empty = program(dtype, stage=False, bind=False)
    free = program(dtype, bind=False)
    rows, angles = np.zeros((3, SIZE), dtype), np.zeros((3, 2))
    ket = shard(dtype)
    condition = {"mask": 2, "value": 2, "far_mask": 1 << 9, "far_value": 0}
    far = {"far_mask": [1 << 63], "far_value": [1]}
    identity = list(range(1 << tile))
    found = {
        "": Wrong(getattr(kernels, name), lambda: {"num_bits": BITS}, num_bits=[-1, 63, 1000]),
        "num_bits": Wrong(lambda: empty.num_bits, dict),
        "num_stages": Wrong(lambda: empty.num_stages, dict),
        "is_trainable": Wrong(lambda: empty.is_trainable, dict),
        "tile_bits": Wrong(lambda p: p.tile_bits, lambda: {"p": free}, p=[empty]),
        "begin_stage": Wrong(
            method("begin_stage"),
            lambda: {"it": program(dtype), "positions": list(range(BITS))},
            positions=[[], [*range(BITS), BITS], [*range(BITS - 1), -1], [*range(BITS), 0], [*range(1, BITS)]],
        ),
        "dense": Wrong(
            method("dense"),
            lambda: {"it": program(dtype), "targets": [0], **condition, "factors": [RX]},
            it=[empty],
            targets=[[BITS], [-1], [], [70]],
            mask=[1, 3, 1 << tile, 0],
            value=[1],
            **far,
            factors=[
                [(1, [0], [1], [])],
                [(1, [], [0], [])],
                [(1, [-1], [0], [])],
                [(8, [0], [0], [])],
                [(17, [0], [0], [])],
                [(0, [], [0], [])],
            ],
        ),
        "diagonal": Wrong(
            method("diagonal"),
            lambda: {
                "it": program(dtype),
                "terms": [(0, 1, 0.0, [(0, 1.0)]), (-1, -1, 1.0, [])],
                "wide": [(3, 1, 1 << 7, 0, 0.0, [(1, 1.0)])],
            },
            it=[empty],
            terms=[
                [(1, 0, 0.0, [])],
                [(-2, 0, 0.0, [])],
                [(-1, 0, 0.0, [])],
                [(0, tile + 63, 0.0, [])],
                [(0, 0, 0.0, [(-1, 1.0)])],
            ],
            wide=[
                [(1 << tile, 0, 0, 0, 0.0, [])],
                [(1, 2, 0, 0, 0.0, [])],
                [(1, 1, 1, 2, 0.0, [])],
                [(1, 1, 0, 0, 0.0, [(-5, 1.0)])],
            ],
        ),
        "pair": Wrong(
            method("pair"),
            lambda: {"it": program(dtype), "targets": [2, 0], "numbers": [0.5] * 15},
            it=[empty],
            targets=[[0], [0, 0], [0, BITS], [-1, 0], [0, 1, 2]],
            numbers=[[0.5] * 14, [0.5] * 16],
        ),
        "permutation": Wrong(
            method("permutation"),
            lambda: {"it": program(dtype), "source": identity, "flips": [(1 << 8, 0, 1)]},
            it=[empty],
            source=[identity[:-1], [*identity[:-1], 1 << tile], [0, *identity[:-1]], []],
            flips=[[(1, 2, 1)], [(1 << 8, 0, 1 << tile)]],
        ),
        "rotations": Wrong(
            method("rotations"),
            lambda: {
                "it": program(dtype),
                "x": 1,
                **condition,
                "strings": [(1, 1 << 8, [(0, 1.0)])],
            },
            it=[empty],
            x=[1 << tile, 2],
            mask=[1 << tile],
            value=[1],
            **far,
            strings=[
                [],
                [(1 << tile, 0, [(0, 1.0)])],
                [(2, 0, [(0, 1.0)])],
                [(1, 1 << 63, [(0, 1.0)])],
                [(1, 0, [(-1, 1.0)])],
                # Neither do a Y and an X commute, nor has a table room for nine parities.
                [(1, 0, [(0, 1.0)]), (0, 0, [(0, 1.0)])],
                [(1, 1 << k, [(0, 1.0)]) for k in range(9)],
            ],
        ),
        "table": Wrong(
            method("table"),
            lambda: {
                "it": program(dtype),
                "inside": [(0, 0)],
                "outside": [(9, 1)],
                **condition,
                "table": [1, 1, 1, -1],
            },
            it=[empty],
            inside=[[(tile, 0)], [(0, 2)], [(-1, 0)], [(0, -1)]],
            outside=[[(62, 0)], [(9, 2)]],
            mask=[1 << tile],
            value=[1],
            **far,
            table=[[1], [1, 1], [1, 1, 1], []],
        ),
        "bind": Wrong(
            method("bind"), lambda: {"it": program(dtype), "angles": doubles(2)}, angles=[doubles(1), doubles(0)]
        ),
        "set_affine": Wrong(
            method("set_affine"),
            lambda: {
                "it": program(dtype, stage=False, bind=False),
                "entries": [(0, 0, 1.0)],
                "constants": [0.0],
            },
            it=[program(dtype)],
            entries=[[(1, 0, 1.0)], [(-1, 0, 1.0)], [(0, -1, 1.0)]],
            constants=[[]],
        ),
        "bind_parameters": Wrong(
            method("bind_parameters"),
            lambda: {"it": program(dtype), "theta": doubles(2)},
            it=[program(dtype, bind=False, angles=0), program(dtype, bind=False, angles=1)],
            theta=[doubles(1), doubles(0)],
        ),
        "run_from_zero": Wrong(
            method("run_from_zero"),
            lambda: {"it": program(dtype), "shard": shard(dtype)},
            it=[free],
            shard=[short, long, shard(dtype, 0)],
        ),
        "run": Wrong(
            method("run"),
            lambda: {
                "it": program(dtype),
                "shard": shard(dtype),
                "offset": 0,
                "live": SIZE - 1,
                "first": 0,
                "last": 1,
            },
            it=[free],
            shard=[short, long],
            offset=[1, 1 << 63],
            live=[SIZE],
        ),
        "run_batch": Wrong(
            method("run_batch"),
            lambda: {"it": program(dtype), "states": rows, "angles": angles},
            states=[rows[:2], np.zeros((3, SIZE // 2), dtype)],
            angles=[angles[:2], np.zeros((3, 1)), np.zeros((3, 0))],
        ),
        "run_back": Wrong(
            method("run_back"),
            lambda: {
                "it": program(dtype),
                "ket": ket,
                "bra": shard(dtype),
                "offset": 0,
                "live": SIZE - 1,
                "recover": True,
                "shift": 0.5,
                "gradient": doubles(2),
            },
            it=[free],
            ket=[short, long],
            bra=[short, long, ket],
            offset=[5],
            live=[1 << 40],
            gradient=[doubles(1), doubles(0)],
        ),
        "run_back_batch": Wrong(
            method("run_back_batch"),
            lambda: {
                "it": program(dtype),
                "kets": rows,
                "bras": rows.copy(),
                "angles": angles,
                "shifts": doubles(3),
                "gradients": angles.copy(),
            },
            kets=[rows[:2], np.zeros((3, SIZE // 2), dtype)],
            bras=[rows[:2], np.zeros((3, 2 * SIZE), dtype), rows],
            angles=[angles[:2], np.zeros((3, 1))],
            shifts=[doubles(2), doubles(0)],
            gradients=[angles[:1], np.zeros((3, 3))],
        ),
    }
    return {f"{name}.{key}".rstrip("."): wrong for key, wrong in found.items()}


def row_programs(dtype: str) -> dict[str, Wrong]:
    name = rows.kind(dtype).__name__
    states = {k: v for k, v in rows.call(dtype).items() if k in ("it", "row_values", "shared")}
    refused = {k: v for k, v in rows.wrong_calls(dtype).items() if k in states}
    return {
        "RowOutputs": Wrong(kernels.RowOutputs, rows.output_arguments, **rows.wrong_outputs()),
        "RowOutputs.count": Wrong(lambda it: it.count, lambda: {"it": rows.outputs()}),
        name: Wrong(rows.kind(dtype), rows.right, **rows.wrong_records()),
        f"{name}.kept_size": Wrong(method("kept_size"), lambda: {"it": states["it"], "batch": 3}, batch=[-1, LARGE]),
        f"{name}.forward": Wrong(method("forward"), lambda: rows.call(dtype), **rows.wrong_calls(dtype)),
        f"{name}.backward": Wrong(method("backward"), lambda: rows.back(dtype), **rows.wrong_back(dtype)),
        f"{name}.states": Wrong(
            method("states"),
            lambda: {**states, "out": np.zeros((rows.ROWS, 8), dtype)},
            out=[np.zeros((rows.ROWS - 1, 8), dtype), np.zeros((rows.ROWS, 4), dtype)],
            **refused,
        ),
    }


DTYPES = ["complex64", "complex128"]
TABLE = {dtype: {**functions(dtype), **row_programs(dtype)} for dtype in DTYPES}
ELSEWHERE = {
    "crc32": "tests/native/test_native.py",
    "direct_call": "tests/comm/test_direct_call.py",
    "formulas": "tests/native/test_formulas.py",
    "lane_bits": "a constant",
    "launch": "tests/native/test_native.py",
    "make_apply": "tests/tensor/test_graph.py",
    "make_walk": "tests/tensor/test_graph.py",
    "NodeFields": "tests/tensor/test_graph.py",
    "watch_saved": "tests/tensor/test_graph.py",
    "landed": "tests/tensor/test_landing.py",
    "variant": "a constant",
    "xla_function": "tests/native/test_xla_call_frame.py",
}


def test_the_table_has_every_entry_point() -> None:
    found = set()
    for name in dir(kernels):
        entry = getattr(kernels, name)
        if name.startswith("_") or name in ELSEWHERE:
            continue
        found.add(name)
        if isinstance(entry, type):
            found |= {f"{name}.{m}" for m in dir(entry) if not m.startswith("__")}
    assert found == {name for table in TABLE.values() for name in table}


@pytest.mark.parametrize("dtype", DTYPES)
def test_right_calls_run(dtype: str) -> None:
    for wrong in TABLE[dtype].values():
        wrong.call(**wrong.right())


@pytest.mark.parametrize(
    ("dtype", "name"), [(dtype, name) for dtype in DTYPES for name, wrong in TABLE[dtype].items() if wrong.wrong]
)
def test_wrong_calls_are_refused(dtype: str, name: str) -> None:
    wrong = TABLE[dtype][name]
    for what, arguments in wrong.calls():
        try:
            wrong.call(**arguments)
        except (ValueError, TypeError, IndexError, OverflowError):
            # TypeError: what nanobind itself refuses, as a negative number for an unsigned one.
            continue
        pytest.fail(f"{name} takes {what}")


def test_tensor_kernels_refuse_threads_that_cannot_be() -> None:
    table = {**row_kernels("float32"), **window_kernels("float32"), **tensor_kernels("float32")}
    for name in (
        "add_rows",
        "word_sums",
        "multiply",
    ):  # The first two run on one thread, of the last it is in the table.
        table.pop(name, None)
    for wrong in table.values():
        for threads in (0, -1, 1 << 20):
            with pytest.raises(ValueError, match="threads"):
                wrong.call(**{**wrong.right(), "threads": threads})
        wrong.call(**{**wrong.right(), "threads": 2})


@pytest.mark.parametrize(
    "changes",
    [
        {"bits": -1},
        {"bits": 63},
        {"x": masks(1)},
        {"z": masks(1, 2, 3)},
        {"coefficients": np.ones(1, complex)},
        {"observable": ints(0)},
        {"observable": ints(0, 2)},
        {"observable": ints(-1, 0)},
        {"observables": -1},
        {"observables": 0},
        {"x": masks(SIZE, 1)},
        {"z": masks(1 << 63, 1)},
        {"tile_bits": 5},
        {"tile_bits": 17},
    ],
    ids=str,
)
def test_plans_of_strings_that_reach_beyond_the_shard_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        pauli_plan(**changes)


def test_programs_in_double_run_on_complex64_in_place_but_never_on_both() -> None:
    single, double, bound = shard("complex64"), shard("complex128"), program("complex128")
    bound.run_from_zero(single)
    bound.run_from_zero(double)
    np.testing.assert_array_equal(single, double.astype(np.complex64))
    for ket, bra in ((single, double), (double, single)):
        with pytest.raises(TypeError):
            bound.run_back(ket, bra, 0, 0, True, 0.0, np.zeros(2))


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_written_to_is_never_a_converted_copy(dtype: str) -> None:
    other = "complex128" if dtype == "complex64" else "float64"
    for result in (shard(other), shard(dtype, 2 * SIZE)[::2]):
        with pytest.raises(TypeError):
            program(dtype).run_from_zero(result)
        with pytest.raises(TypeError):
            program(dtype).run(result, 0, 0, 0, 1)
    with pytest.raises(TypeError):
        program(dtype).run_batch(np.zeros((1, SIZE), other), np.zeros((1, 2)))
    with pytest.raises(TypeError):
        matrices().at(doubles(2), np.zeros(16, np.complex64))
    with pytest.raises(TypeError):
        matrices().add_gradients(np.zeros(16, complex), doubles(2), np.zeros(2, np.float32))


def test_schedules_take_gates_with_controls_beyond_the_shard() -> None:
    # On several ranks: CX with a far control at position 8 of a shard of 8 qubits.
    mixes, x_like, z_like = masks(8, 1), masks(8, 0), masks(1 << 8, 0)
    assert kernels.schedule(mixes, x_like, z_like, np.ones(2), 8, 5, 15) == [(31, [0, 1])]


def test_matrices_of_many_bits_depend_on_no_parameter() -> None:
    """Their transition matrices would have too many entries, and derivatives would be lost without a word."""
    p = program("complex64", bind=False)
    p.dense([2, 3, 4], 0, 0, 0, 0, [X])
    with pytest.raises(ValueError, match="matrix on 3 bits must not depend on parameters"):
        p.dense([2, 3, 4], 0, 0, 0, 0, [RX])
