"""The records of a row program (plan/rows/records.py) as tables that kernels read: places, signs, sparse matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qdist.backends.cuda.lowering.records.rows import ROW_ENTRY, ROW_OP, ROW_ROOM, ROW_TERM, ROW_UNEVEN
from qdist.plan.rows.records import DIAGONAL, GROUP, RowRecords

__all__ = ["RowTables", "far_bytes", "row_tables", "sparse", "state_bytes", "state_numbers", "swizzled"]

OF_ROW, EVERYWHERE = 1, 2
"""Traits of an angle: it depends on parameters of rows; all rows have it, and it turns all amplitudes."""

_BANK_BITS = 5
"""Shared memory has 32 banks."""


class RowTables(NamedTuple):
    """arrays: by the names of RowLaunch's fields. first_op: the first operation that derivatives need, by whether those
    by parameters of rows and by shared ones are wanted; undo_start: whether they need the start."""

    arrays: dict[str, NDArray[Any]]
    num_diagonals: int
    first_op: dict[tuple[bool, bool], int]
    undo_start: dict[tuple[bool, bool], bool]


def state_bytes(num_qubits: int, real_bytes: int, back: bool) -> int:
    """Shared memory of a row: its room for sums, ket, bra and work, and the qubits of its start."""
    return far_bytes(num_qubits, real_bytes) + real_bytes * state_numbers(num_qubits, back)


def far_bytes(num_qubits: int, real_bytes: int) -> int:
    """Shared memory of a row whose states are elsewhere."""
    return 8 * ROW_ROOM + real_bytes * 8 * num_qubits


def state_numbers(num_qubits: int, back: bool) -> int:
    """Of ket, bra and work."""
    return (5 if back else 3) << num_qubits


def swizzled(index: Any) -> Any:
    """The place of a number in shared memory: linear over XOR (sources/rows.cu has the same)."""
    return index ^ (index >> _BANK_BITS & (1 << _BANK_BITS) - 1)


def sparse(
    keys: NDArray[np.int64], others: NDArray[np.int64], coefficients: NDArray[np.float64], count: int
) -> tuple[NDArray[np.int32], NDArray[Any]]:
    """Where the entries of each of ``count`` keys begin, then the end; and the entries, in their order."""
    order = np.argsort(keys, kind="stable")
    entries = np.zeros(len(keys), ROW_ENTRY.dtype)
    entries["other"], entries["coefficient"] = others[order], coefficients[order]
    return np.searchsorted(keys[order], np.arange(count + 1)).astype(np.int32), entries


def row_tables(records: RowRecords, threads: int, far: bool = False) -> RowTables:
    """For rows that have so many threads each. far: whether their states are in global memory."""
    per_row, num_angles = records.per_row, len(records.constants)
    num_slots = len(records.slot_constants)
    (angle, of_angle), (slot, parameter) = records.entries.T, records.slot_entries.T
    arrays: dict[str, NDArray[Any]] = {"constants": records.constants, "slot_constants": records.slot_constants}
    arrays["begins"], arrays["entries"] = sparse(angle, of_angle, records.coefficients, num_angles)
    # No output depends on the global phase, and nothing sums its derivative.
    seen = angle != records.phase
    of: dict[str, list[int]] = {}
    for name, own, first, count in (
        ("shared", parameter >= per_row, per_row, records.num_shared),
        ("row", parameter < per_row, 0, per_row),
    ):
        chosen, coefficients = parameter[own] - first, records.slot_coefficients[own]
        slot_begins, entries = sparse(slot[own], chosen, coefficients, num_slots)
        arrays[f"{name}_begins"], arrays[f"{name}_entries"] = slot_begins, entries
        # The product of both: for each slot of an angle, all entries of the slot.
        lengths = np.diff(slot_begins)[of_angle[seen]]
        which = np.repeat(slot_begins[of_angle[seen]] - np.cumsum(lengths) + lengths, lengths) + np.arange(
            lengths.sum()
        )
        users = np.repeat(angle[seen], lengths)
        weights = np.repeat(records.coefficients[seen], lengths) * entries["coefficient"][which]
        of[name] = np.unique(users).tolist()
        arrays[f"{name}_uses"], arrays[f"{name}_users"] = sparse(entries["other"][which], users, weights, count)
    traits = np.zeros(num_angles, np.int32)
    traits[angle[np.isin(of_angle, slot[parameter < per_row])]] = OF_ROW
    order = np.argsort(records.start[:, 0], kind="stable")
    begins = np.searchsorted(records.start[order, 0], np.arange(records.num_qubits + 1))
    arrays["start_begins"] = begins.astype(np.int32)
    arrays["factors"] = records.start[order, 1:].astype(np.int32).ravel()
    ops = _Ops(records, threads, _close_together if far else _without_conflicts)
    arrays |= ops.arrays()
    everywhere = np.array([*records.start[:, 2].tolist(), *ops.everywhere], np.int64)
    traits[everywhere] |= np.where(traits[everywhere] == OF_ROW, 0, EVERYWHERE).astype(np.int32)
    arrays["traits"] = traits
    arrays["matrices"] = records.matrices
    arrays["logical"] = swizzled(records.logical).astype(np.uint32)
    both = [(r, s) for r in (False, True) for s in (False, True)]
    depends = {(r, s): {*of["row"] * r, *of["shared"] * s} for r, s in both}
    undo_start = {key: bool(found & set(records.start[:, 2].tolist())) for key, found in depends.items()}
    first_op = {key: 0 if undo_start[key] else ops.first_with(found) for key, found in depends.items()}
    return RowTables(arrays, ops.num_diagonals, first_op, undo_start)


class _Ops:
    """Operations, with the places of their walks."""

    def __init__(self, records: RowRecords, threads: int, basis: Callable[[Sequence[int]], list[int]]) -> None:
        self._records, self._threads, self._basis = records, threads, basis
        self._starts: list[NDArray[np.int64]] = []
        self._columns: list[int] = []
        self._known: dict[tuple[int, ...], tuple[int, int, int]] = {}
        self._diagonals: list[int] = []
        self._angles: list[list[int]] = []
        self.everywhere: list[int] = []
        """Angles of rotations that turn all amplitudes."""
        walk = matrix = 0
        rows = []
        trained = set(records.entries[:, 0].tolist())
        for kind, first, count in records.operations.tolist():
            op: dict[str, Any] = {"kind": kind, "count": count, "first": first}
            if kind == DIAGONAL:
                op["first"] = self.num_diagonals
                self._diagonals += [first, first + count]
                self._angles.append(records.terms[first : first + count, 1].tolist())
                op["wanted"] = not trained.isdisjoint(self._angles[-1])
                rows.append(op)
                continue
            base, columns = self._walk(walk)
            walk += 1
            op["columns"] = len(columns)
            op["starts"], op["high"] = self._places(base, columns)
            if kind == GROUP:
                rotations = records.rotations[first : first + count].tolist()
                op["signs"], op["flips"] = _signs(base, rotations), _flips(rotations)
                op["direction"] = [swizzled(d) for d, _, _ in rotations]
                op["angle"] = [angle for _, _, angle in rotations]
                self._angles.append(op["angle"])
                if len(columns) + count == records.num_qubits + 1:
                    self.everywhere += op["angle"]
            else:
                op["matrix"] = matrix
                matrix += 4**count
                self._angles.append([])
            rows.append(op)
        self._ops = np.zeros(len(rows), ROW_OP.dtype)
        for record, op in zip(self._ops, rows):
            for name, value in op.items():
                if isinstance(value, list):
                    record[name][: len(value)] = value
                else:
                    record[name] = value

    @property
    def num_diagonals(self) -> int:
        return len(self._diagonals) // 2

    def first_with(self, angles: set[int]) -> int:
        """The first operation with one of these angles; the number of operations if there is none."""
        return next((k for k, own in enumerate(self._angles) if not angles.isdisjoint(own)), len(self._angles))

    def arrays(self) -> dict[str, NDArray[Any]]:
        records = self._records
        terms = np.zeros(len(records.terms), ROW_TERM.dtype)
        terms["place"], terms["angle"] = swizzled(records.terms[:, 0]), records.terms[:, 1]
        return {
            "ops": self._ops,
            "starts": np.concatenate([np.zeros(0, np.int64), *self._starts]).astype(np.uint32),
            "columns": np.array(self._columns, np.uint32),
            "terms": terms,
            "diagonals": np.array(self._diagonals, np.int32),
            "targets": swizzled(records.targets).astype(np.uint32),
        }

    def _walk(self, number: int) -> tuple[int, tuple[int, ...]]:
        walks, columns = self._records.walks, self._records.columns
        end = walks[2 * number + 3] if 2 * number + 3 < len(walks) else len(columns)
        return int(walks[2 * number]), tuple(columns[walks[2 * number + 1] : end].tolist())

    def _places(self, base: int, columns: tuple[int, ...]) -> tuple[int, int]:
        """Where the first places of all threads are listed, and the columns of their further steps."""
        key = (base, *columns)
        if key not in self._known:
            basis = self._basis([swizzled(c) for c in columns])
            inside = min(len(basis), self._threads.bit_length() - 1)
            places = np.full(1, swizzled(base), np.int64)
            for column in basis[:inside]:
                places = np.concatenate([places, places ^ column])
            # Threads without a step read something, and do nothing with it.
            padded = np.zeros(self._threads, np.int64)
            padded[: len(places)] = places
            self._known[key] = self._threads * len(self._starts), len(self._columns), 0
            self._starts.append(padded)
            self._columns += basis[inside:]
        return self._known[key][:2]


def _without_conflicts(columns: Sequence[int]) -> list[int]:
    """Another basis of the same space: the first columns, which a warp's lanes are numbered by, reach as many banks as
    they can."""
    first: list[int] = []
    rest = list(columns)
    for bank in range(_BANK_BITS):
        pivot = next((c for c in rest if c >> bank & 1), None)
        if pivot is not None:
            rest.remove(pivot)
            first.append(pivot)
            rest = [c ^ pivot if c >> bank & 1 else c for c in rest]
    return first + rest


def _close_together(columns: Sequence[int]) -> list[int]:
    """Another basis of the same space: the first columns, which a warp's lanes are numbered by, change the lowest bits
    alone if they can, so that a warp reaches few lines of memory."""
    by_highest: dict[int, int] = {}
    for column in columns:
        while column.bit_length() in by_highest:
            column ^= by_highest[column.bit_length()]
        by_highest[column.bit_length()] = column
    return [by_highest[bits] for bits in sorted(by_highest)]


def _signs(base: int, rotations: list[list[int]]) -> int:
    """Bit 4 j + r: whether the first number of pair r of rotation j has odd parity."""
    signs = 0
    for j, (_, functional, _) in enumerate(rotations):
        for r in range(1 << len(rotations) - 1):
            first = r >> j << j + 1 | r & (1 << j) - 1
            place = base
            for k, (direction, _, _) in enumerate(rotations):
                if first >> k & 1:
                    place ^= direction
            signs |= ((place & functional).bit_count() & 1) << 4 * j + r
    return signs


def _flips(rotations: list[list[int]]) -> int:
    """Bit o: whether number o of a group, the one at the XOR of the directions in o, has the other sign, so that all
    pairs of each rotation turn the same way; ROW_UNEVEN where rotations do not commute.

    The pairs of rotation j turn the other way where the parity of directions under its functional is odd. If that of
    k under j is that of j under k, it is the change of sum_{j<k} parity_jk o_j o_k when bit j of o changes.
    """
    odd = [
        [(direction & functional).bit_count() & 1 for direction, _, _ in rotations] for _, functional, _ in rotations
    ]
    pairs = [(j, k) for j in range(len(rotations)) for k in range(j)]
    if any(odd[j][k] != odd[k][j] for j, k in pairs):
        return ROW_UNEVEN
    return sum((sum(odd[j][k] & o >> j & o >> k & 1 for j, k in pairs) & 1) << o for o in range(1 << len(rotations)))
