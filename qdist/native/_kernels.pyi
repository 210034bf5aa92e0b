"""Types of ``qdist.native.kernels``, for type checkers alone: no module of this name is ever loaded.

All variants (_kernels_x86_64_v4 and its siblings) are built from the same bindings, src/bind/*.cpp, which also have the
docstrings. Arrays are C-contiguous; of images only the rows are. tests/native/test_stub.py compares this file with the
module that was built.
"""

import builtins
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

_T = TypeVar("_T", bound=np.generic)
_C = TypeVar("_C", np.complex64, np.complex128)
_R = TypeVar("_R", np.float32, np.float64)
_Stored = TypeVar("_Stored", bound=np.complex64 | np.complex128)

_Vector: TypeAlias = np.ndarray[tuple[int], np.dtype[_T]]
_Rows: TypeAlias = np.ndarray[tuple[int, int], np.dtype[_T]]
_Matrices: TypeAlias = np.ndarray[tuple[int, int, int], np.dtype[_T]]
_Images: TypeAlias = np.ndarray[tuple[int, int, int, int], np.dtype[_T]]

_Real: TypeAlias = np.float32 | np.float64
"""Of arrays that kernels read and write in either precision."""

_Factor: TypeAlias = tuple[int, Sequence[int], Sequence[int], Sequence[complex]]
"""Formula, slots of its angles, bits of the block it acts on, and its matrix where the formula is a constant."""
_Products: TypeAlias = Sequence[tuple[int, float]]
"""Slots of angles with their coefficients."""

variant: str
lane_bits: tuple[int, int]
"""Bits of the index within a vector register: of complex64 and of complex128."""
formulas: tuple[tuple[str, int, int, bool], ...]
"""The formulas of gates with angles, in the order of their numbers: name, bits, angles, whether the matrix is real."""

def max_threads() -> int: ...
def set_beyond_caches(bytes: int) -> int: ...
def set_threads(threads: int) -> None: ...
def crc32(data: _Vector[np.uint8], before: int = 0) -> int: ...
def direct_call(context: tuple[Any, ...]) -> Callable[[Any, Any], Any]: ...

# The graph of operations on tensors (bind/graph.cpp)

class NodeFields:
    rule: Any
    inputs: tuple[Any, ...]
    attributes: dict[str, Any]
    saved: Any
    guards: Any
    xp: Any
    shape: tuple[int, ...] | None
    dtype: Any
    hooks: list[Callable[[Any], Any]] | None
    unpack: Callable[[Any], Any] | None
    digests: dict[int, Any] | None
    freed: bool
    sequence: int  # Never assigned: it is read-only.

def make_apply(library: dict[str, Any]) -> Callable[..., Any]: ...
def make_walk(library: dict[str, Any]) -> Callable[[Any, bool, Any, bool], dict[Any, Any]]: ...
def watch_saved(node: NodeFields) -> None: ...

# Launches of CUDA kernels, and what they write to the host (bind/cuda.cpp)

def launch(function: int, blocks: int, threads: int, stream: int, numbers: Sequence[int]) -> int: ...
def landed(address: int, ticket: int, seconds: float) -> float | None: ...

# Reading and collapsing a state (bind/measure.cpp)

def squared_norm(shard: _Vector[_C]) -> float: ...
def inner(bra: _Vector[_C], ket: _Vector[_C]) -> complex: ...
def permuted_inner(bra: _Vector[_C], ket: _Vector[_C], positions: Sequence[int]) -> complex: ...
def permuted_copy(source: _Vector[_C], positions: Sequence[int], out: _Vector[_C]) -> None: ...
def project(shard: _Vector[_C], first: int, mask: int, value: int, scale: float) -> None: ...
def reset_bit(shard: _Vector[_C], position: int, outcome: bool, scale: float) -> None: ...
def add_probabilities(shard: _Vector[_C], first: int, positions: Sequence[int], out: _Vector[np.float64]) -> None: ...
def add_weighted(
    ket: _Vector[_C], first: int, positions: Sequence[int], weights: _Vector[np.float64], bra: _Vector[_C]
) -> None: ...
def add_leaves(
    shard: _Vector[_C], first: int, bases: _Vector[np.int64], positions: Sequence[int], trees: _Vector[np.float64]
) -> None: ...
def descend(
    trees: _Vector[np.float64],
    depth: int,
    row: _Vector[np.int64],
    shot: _Vector[np.int64],
    key: int,
    level: int,
    out: _Vector[np.int64],
) -> None: ...

# Kernels of the tensor package (bind/tensor.cpp)

def multiply(
    a: _Matrices[np.float32],
    b: _Matrices[np.float32],
    row: _Vector[np.float32] | None,
    add: bool,
    threads: int,
    out: _Matrices[np.float32],
) -> None: ...
def rational(
    x: _Vector[np.float32],
    times: _Vector[np.float32],
    limit: float,
    p: Sequence[float],
    q: Sequence[float],
    out: _Vector[np.float32],
    threads: int = 1,
) -> None: ...
def word_sums(a: _Rows[np.uint64], along: _Vector[np.uint64], across: _Vector[np.uint64]) -> None: ...
def column_sums(a: _Rows[_R], out: _Vector[_R], threads: int = 1) -> None: ...
def positive(a: _Vector[_R], out: _Vector[_R], threads: int = 1) -> None: ...
def times_positive(g: _Vector[_R], y: _Vector[_R], out: _Vector[_R], threads: int = 1) -> None: ...
def adam(
    p: _Vector[_R],
    g: _Vector[_R],
    m: _Vector[_R],
    v: _Vector[_R],
    beta1: float,
    beta2: float,
    root_scale: float,
    eps: float,
    rate: float,
    keep: float,
    decay: float,
    threads: int = 1,
) -> None: ...
def softmax(a: _Rows[_R], scale: float, queries: int, out: _Rows[_R], threads: int = 1) -> None: ...
def softmax_back(g: _Rows[_R], y: _Rows[_R], scale: float, out: _Rows[_R], threads: int = 1) -> None: ...
def cross_entropy(
    a: _Rows[_R], targets: _Vector[np.int64], p: _Rows[_R], loss: _Vector[_R], threads: int = 1
) -> None: ...
def cross_entropy_back(
    g: _Vector[_R], p: _Rows[_R], targets: _Vector[np.int64], out: _Rows[_R], threads: int = 1
) -> None: ...
def layer_norm(
    x: _Rows[_R],
    weight: _Vector[_R] | None,
    bias: _Vector[_R] | None,
    eps: float,
    hat: _Rows[_R],
    rstd: _Vector[_R],
    out: _Rows[_R],
    threads: int = 1,
) -> None: ...
def layer_norm_back(
    g: _Rows[_R],
    hat: _Rows[_R],
    rstd: _Vector[_R],
    weight: _Vector[_R] | None,
    out: _Rows[_R],
    weight_sum: _Vector[_R],
    bias_sum: _Vector[_R],
    threads: int = 1,
) -> None: ...
def add_rows(places: _Vector[np.int64], values: _Rows[_R], target: _Rows[_R]) -> None: ...
def gather_windows(
    x: _Images[_R],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
    out: _Rows[_R],
    threads: int = 1,
) -> None: ...
def add_windows(
    rows: _Rows[_R],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
    x: _Images[_R],
    threads: int = 1,
) -> None: ...
def max_pool(
    x: _Images[_R],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    best: _Images[_R],
    winner: _Images[np.uint8],
    threads: int = 1,
) -> None: ...
def max_pool_back(
    g: _Images[_R],
    winner: _Images[np.uint8],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    x: _Images[_R],
    threads: int = 1,
) -> None: ...

# Sums of Pauli strings (bind/pauli.cpp)

class PauliPlan:
    def __init__(
        self,
        bits: int,
        x: _Vector[np.uint64],
        z: _Vector[np.uint64],
        coefficients: _Vector[np.complex128],
        observable: _Vector[np.int64],
        observables: int,
        tile_bits: int,
        as_product: bool = False,
    ) -> None: ...
    @property
    def passes(self) -> int: ...
    def add_expectations(self, shard: _Vector[_C], first: int, out: _Vector[np.float64]) -> None: ...
    def apply(
        self,
        shard: _Vector[_C],
        first: int,
        weights: _Vector[np.float64],
        out: _Vector[_C],
        add: bool,
        values: _Vector[np.float64] | None,
    ) -> None: ...

def apply_batch(
    plan: PauliPlan, kets: _Rows[_C], weights: _Rows[np.float64], bras: _Rows[_C], values: _Rows[np.float64]
) -> None: ...

# Moving amplitudes (bind/exchange.cpp)

def pack(shard: _Vector[_C], base: int, within: int, out: _Vector[_C]) -> None: ...
def unpack(source: _Vector[_C], shard: _Vector[_C], base: int, within: int) -> None: ...
def swap_parts(a: _Vector[_C], base_a: int, b: _Vector[_C], base_b: int, within: int) -> None: ...
def swap_positions(shard: _Vector[_C], partner: Sequence[int]) -> None: ...

# Matrices and angles (bind/matrices.cpp)

def reduce_angles(rows: _Rows[np.float64]) -> None: ...
def add_affine(
    slots: _Vector[np.int64],
    parameters: _Vector[np.int64],
    coefficients: _Vector[np.float64],
    theta: _Rows[np.float64],
    angles: _Rows[np.float64],
) -> None: ...

class MatrixList:
    def __init__(self) -> None: ...
    def add(self, num_bits: int, factors: Sequence[_Factor], everywhere: bool = False) -> None: ...
    @property
    def size(self) -> int: ...
    def at(
        self, angles: _Vector[np.float64], out: _Vector[np.complex128], single: bool = False, scale: float = 1.0
    ) -> None: ...
    def add_gradients(
        self, transitions: _Vector[np.complex128], angles: _Vector[np.float64], gradient: _Vector[np.float64]
    ) -> None: ...

class DeviceNumbers:
    def __init__(
        self,
        matrices: MatrixList,
        constants: _Vector[np.float64],
        to: _Vector[np.int64],
        source: _Vector[np.int64],
        sign: _Vector[np.float64],
        offsets: _Vector[np.float64],
        owner: _Vector[np.int64],
        slot: _Vector[np.int64],
        coefficient: _Vector[np.float64],
        settings: int,
        tables: _Vector[np.int64],
        terms: _Rows[np.int64],
        rotations: _Rows[np.int64],
        cores: _Rows[np.int64],
    ) -> None: ...
    def in_single(self, angles: _Rows[np.float64], reals: _Rows[np.float32], turns: _Rows[np.uint32]) -> None: ...
    def in_double(self, angles: _Rows[np.float64], reals: _Rows[np.float64], turns: _Rows[np.uint64]) -> None: ...

# Programs (bind/program.cpp)

class _Program(Generic[_Stored]):
    def __init__(self, num_bits: int) -> None: ...
    @property
    def num_bits(self) -> int: ...
    @property
    def num_stages(self) -> int: ...
    @property
    def tile_bits(self) -> int: ...
    @property
    def is_trainable(self) -> bool: ...
    def begin_stage(self, positions: Sequence[int], is_unitary: bool = True) -> None: ...
    def dense(
        self, targets: Sequence[int], mask: int, value: int, far_mask: int, far_value: int, factors: Sequence[_Factor]
    ) -> None: ...
    def pair(self, targets: Sequence[int], numbers: Sequence[float]) -> None:
        """A two-qubit matrix as backends/pairs.py divides it."""
    def diagonal(
        self,
        terms: Sequence[tuple[int, int, float, _Products]],
        wide: Sequence[tuple[int, int, int, int, float, _Products]],
    ) -> None: ...
    def permutation(self, source: Sequence[int], flips: Sequence[tuple[int, int, int]]) -> None: ...
    def rotations(
        self,
        x: int,
        mask: int,
        value: int,
        far_mask: int,
        far_value: int,
        strings: Sequence[tuple[int, int, _Products]],
    ) -> None: ...
    def table(
        self,
        inside: Sequence[tuple[int, int]],
        outside: Sequence[tuple[int, int]],
        mask: int,
        value: int,
        far_mask: int,
        far_value: int,
        table: Sequence[complex],
    ) -> None: ...
    def set_affine(self, entries: Sequence[tuple[int, int, float]], constants: Sequence[float]) -> None: ...
    def bind(self, angles: _Vector[np.float64]) -> None: ...
    def bind_parameters(self, theta: _Vector[np.float64]) -> bool: ...
    def run_from_zero(self, shard: _Vector[_Stored]) -> None: ...
    def run(self, shard: _Vector[_Stored], offset: int, live: int, first: int, last: int) -> int: ...
    def run_batch(self, states: _Rows[_Stored], angles: _Rows[np.float64]) -> None: ...
    def run_back(
        self,
        ket: _Vector[_Stored],
        bra: _Vector[_Stored],
        offset: int,
        live: int,
        recover: bool,
        shift: float,
        gradient: _Vector[np.float64],
    ) -> None: ...
    def run_back_batch(
        self,
        kets: _Rows[_Stored],
        bras: _Rows[_Stored],
        angles: _Rows[np.float64],
        shifts: _Vector[np.float64],
        gradients: _Rows[np.float64],
    ) -> None: ...

class Program64(_Program[np.complex64]): ...
class Program128(_Program[np.complex64 | np.complex128]): ...

# Batches of small circuits (bind/batch.cpp)

class RowOutputs:
    def __init__(
        self,
        num_qubits: int,
        num_outputs: int,
        strings: _Rows[np.int64],
        coefficients: _Vector[np.float64],
        marginals: _Rows[np.int64],
    ) -> None: ...
    @property
    def count(self) -> int: ...

class RowProgram64:
    def __init__(
        self,
        num_qubits: int,
        per_row: int,
        num_shared: int,
        slot_constants: _Vector[np.float64],
        slot_entries: _Rows[np.int64],
        slot_coefficients: _Vector[np.float64],
        constants: _Vector[np.float64],
        entries: _Rows[np.int64],
        coefficients: _Vector[np.float64],
        start: _Rows[np.int64],
        operations: _Rows[np.int64],
        rotations: _Rows[np.int64],
        terms: _Rows[np.int64],
        targets: _Vector[np.int64],
        matrices: _Vector[np.complex128],
        walks: _Vector[np.int64],
        columns: _Vector[np.int64],
        logical: _Vector[np.int64],
        phase: int,
    ) -> None: ...
    def kept_size(self, batch: int) -> int: ...
    def forward(
        self,
        row_values: _Rows[_Real],
        shared: _Vector[_Real],
        outputs: RowOutputs,
        kets: _Vector[np.float32] | None,
        values: _Rows[_Real],
    ) -> bool: ...
    def backward(
        self,
        row_values: _Rows[_Real],
        shared: _Vector[_Real],
        outputs: RowOutputs,
        kets: _Vector[np.float32] | None,
        values: _Rows[_Real],
        cotangents: _Rows[_Real],
        row_gradient: _Rows[_Real] | None,
        shared_gradient: _Vector[_Real] | None,
    ) -> bool: ...
    def states(self, row_values: _Rows[np.float64], shared: _Vector[np.float64], out: _Rows[_C]) -> bool: ...

class RowProgram128:
    def __init__(
        self,
        num_qubits: int,
        per_row: int,
        num_shared: int,
        slot_constants: _Vector[np.float64],
        slot_entries: _Rows[np.int64],
        slot_coefficients: _Vector[np.float64],
        constants: _Vector[np.float64],
        entries: _Rows[np.int64],
        coefficients: _Vector[np.float64],
        start: _Rows[np.int64],
        operations: _Rows[np.int64],
        rotations: _Rows[np.int64],
        terms: _Rows[np.int64],
        targets: _Vector[np.int64],
        matrices: _Vector[np.complex128],
        walks: _Vector[np.int64],
        columns: _Vector[np.int64],
        logical: _Vector[np.int64],
        phase: int,
    ) -> None: ...
    def kept_size(self, batch: int) -> int: ...
    def forward(
        self,
        row_values: _Rows[_Real],
        shared: _Vector[_Real],
        outputs: RowOutputs,
        kets: _Vector[np.float64] | None,
        values: _Rows[_Real],
    ) -> bool: ...
    def backward(
        self,
        row_values: _Rows[_Real],
        shared: _Vector[_Real],
        outputs: RowOutputs,
        kets: _Vector[np.float64] | None,
        values: _Rows[_Real],
        cotangents: _Rows[_Real],
        row_gradient: _Rows[_Real] | None,
        shared_gradient: _Vector[_Real] | None,
    ) -> bool: ...
    def states(self, row_values: _Rows[np.float64], shared: _Vector[np.float64], out: _Rows[_C]) -> bool: ...

# Planning (bind/search.cpp)

def schedule(
    mixes: _Vector[np.uint64],
    x_like: _Vector[np.uint64],
    z_like: _Vector[np.uint64],
    weight: _Vector[np.float64],
    num_qubits: int,
    close: int,
    forced: int,
) -> list[tuple[int, list[int]]]: ...
def schedule_cheapest(
    mixes: _Vector[np.uint64],
    x_like: _Vector[np.uint64],
    z_like: _Vector[np.uint64],
    weight: _Vector[np.float64],
    num_qubits: int,
    close: int,
    forced: int,
    support: int,
    tries: int,
    work: float,
) -> list[tuple[int, list[int]]]: ...
def schedule_moving(
    mixes: _Vector[np.uint64],
    x_like: _Vector[np.uint64],
    z_like: _Vector[np.uint64],
    weight: _Vector[np.float64],
    num_qubits: int,
    close: int,
    low: int,
    support: int,
    tries: int,
    work: float,
) -> list[tuple[int, list[int]]]: ...
def search(
    mixes: _Vector[np.uint64],
    x_like: _Vector[np.uint64],
    z_like: _Vector[np.uint64],
    num_qubits: int,
    close: int,
    start: int | None,
    limit: int,
) -> tuple[list[int], list[int], int]: ...
def alternations(
    mixes: _Vector[np.uint64], x_like: _Vector[np.uint64], z_like: _Vector[np.uint64], kinds: Sequence[bool]
) -> list[int]: ...

class GateForm:
    def __init__(
        self,
        kind: int,
        swaps: bool,
        qubits: int,
        angles: int,
        mixes: int,
        x_like: int,
        z_like: int,
        targets: Sequence[int],
        controls: Sequence[tuple[int, int]],
        formula: int,
        slots: Sequence[int],
        matrix: Sequence[complex],
        source: Sequence[int],
        phases: Sequence[tuple[Sequence[int], float, Sequence[tuple[int, float]]]],
        wide: Sequence[tuple[Sequence[tuple[int, int]], float, Sequence[tuple[int, float]]]],
        letters: str,
        sign: float,
        is_real: bool,
        is_pure: bool,
        pass_of: tuple[int, int, bool, bool],
        factors: Sequence[tuple[int, Sequence[int], Sequence[int], Sequence[complex]]],
    ) -> None: ...
    @property
    def num_mixed(self) -> int: ...

def add_gates(
    program: _Program,
    forms: Sequence[GateForm],
    which: _Vector[np.int32],
    qubits: _Vector[np.int32],
    tile: int,
    contiguous: int,
    parities: int,
) -> tuple[int, int, int]: ...
def pair_runs(
    qubits: _Vector[np.uint64],
    kinds: _Vector[np.int32],
    flips: _Vector[np.uint64],
    odd_ys: Sequence[bool],
    simple: Sequence[bool],
    close: int,
) -> list[list[int]]: ...
def fuse(
    operations: list[Any], parities: int, flags: Sequence[int] | None
) -> tuple[list[tuple[int, list[int], int, int, int]], int]: ...

# Collectives of a group (bind/calls.cpp)

class CallTable:
    def __init__(self, memory: _Vector[np.uint8], size: int, rank: int, near: Sequence[int], spans: bool) -> None: ...
    @staticmethod
    def bytes(size: int) -> int: ...
    def enter(
        self, op: int, reduction: int, dtype: int, flags: int, root: int, shape: tuple[int, ...] | None, more: int
    ) -> bool: ...
    def calls(self, rank: int) -> list[tuple[int, builtins.bytes]]: ...
    def compared(self) -> None: ...
    def break_group(self, why: str) -> None: ...
    @property
    def differs(self) -> bool: ...
    @property
    def is_due(self) -> bool: ...
    @property
    def why_broken(self) -> str: ...
    @property
    def count(self) -> int: ...
    @property
    def digest(self) -> int: ...

# Calls from XLA (bind/xla.cpp)

def xla_function(receiver: Callable[[str, list[Any], list[Any]], None]) -> object: ...
