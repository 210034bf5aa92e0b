"""Phases of the same bits as one."""

from __future__ import annotations

import numpy as np
import pytest
from test_folding import random_circuit
from test_joined_pairs import same_operator

import qdist as qd
from qdist.plan.operations import operations
from qdist.plan.rewrites.phases import with_phases_gathered


@pytest.mark.parametrize("seed", range(40))
def test_it_is_the_same_operator(seed: int) -> None:
    n = 4 + seed % 2
    circuit, values = random_circuit(n, 40, seed)
    before = list(operations(circuit))
    after = with_phases_gathered(before)
    same_operator(circuit, values, before, after)


def test_what_undoes_each_other_vanishes() -> None:
    circuit = qd.Circuit(3).t(0).cp(np.pi / 4, 0, 1).ccz(0, 1, 2).cx(0, 2).h(2).ccz(0, 1, 2).tdg(0).cp(-np.pi / 4, 0, 1)
    found = with_phases_gathered(list(operations(circuit)))
    assert [o.kind for o in found] == ["diagonal", "flip", "dense", "diagonal"]
    assert [(len(o.terms), len(o.wide)) for o in found if o.kind == "diagonal"] == [(0, 1), (0, 1)]


def test_phases_by_angles_stay() -> None:
    """Else the parity of RZZ would be divided into phases of its bits."""
    a, b = qd.ParameterVector("t", 2)
    before = list(operations(qd.Circuit(2).rz(a, 0).rz(a, 1).rzz(b, 0, 1)))
    assert with_phases_gathered(before) == before


def test_phases_stay_apart_where_a_qubit_is_mixed() -> None:
    before = list(operations(qd.Circuit(2).t(0).h(0).tdg(0)))
    assert len(with_phases_gathered(before)) == 3


def test_the_phase_of_all_amplitudes_is_no_operation_of_its_own() -> None:
    circuit = qd.Circuit(2).rz(np.pi / 2, 0).p(-np.pi / 2, 0).h(0).h(1).cp(0.3, 0, 1).t(1)
    found = with_phases_gathered(list(operations(circuit)))
    assert [o.kind for o in found] == ["dense", "dense", "diagonal", "diagonal"]
    assert dict(found[-1].terms)[()][0] == pytest.approx(-np.pi / 4)
