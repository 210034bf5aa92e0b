"""What tests of more than one library use."""

from __future__ import annotations

from typing import Any

import pytest

from qdist.program import program


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of qubits of the circuits that are planned from now on."""
    found: list[int] = []
    plan = program.Program.__init__

    def noted(self: Any, circuit: Any, **options: Any) -> None:
        found.append(circuit.num_qubits)
        plan(self, circuit, **options)

    monkeypatch.setattr(program.Program, "__init__", noted)
    return found
