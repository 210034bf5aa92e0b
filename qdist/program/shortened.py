"""Programs without their tail of last gates that only permute amplitudes: the observables are conjugated with it.

<psi|G^-1 O G|psi> is the value of O after the gates G, and if G are X, CX and SWAP, G^-1 O G has as many Pauli strings
as O. A gradient saves those gates in the forward run and in the adjoint sweep, and often whole passes over memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from qdist.backends import Backend
from qdist.plan.observables.tail import Tail
from qdist.plan.plan import Plan
from qdist.state.measuring import expectation
from qdist.state.measuring.expectation import Observable
from qdist.state.recent import Recent

__all__ = ["Shortened"]

_PASSES_A_SWEEP = 2
"""The cost of one sweep of the forward run and one of the adjoint sweep, in passes of the product with an observable,
which read two states and write one."""


class Shortened:
    """A plan without its tail, and the decision for which observables that pays."""

    def __init__(self, plan: Plan, gates: Tail, whole: Plan, backend: Backend) -> None:
        self.plan, self.gates = plan, gates
        self._whole, self._backend = whole, backend
        self._decisions: Recent[bool] = Recent(32)

    def gains(self, observables: Sequence[Observable]) -> bool:
        """Whether it is faster, although conjugated strings may flip more qubits."""
        sums = [expectation.as_pauli_sum(o, self._whole.num_qubits) for o in observables]
        key = tuple(s.key for s in sums)
        pays = self._decisions.get(key)
        if pays is None:
            plan, bits, backend = self.plan, self._whole.shard_bits, self._backend
            before = expectation.passes(backend, sums, self._whole.segments[-1].layout, bits, plan.dtype)
            after = expectation.passes(backend, sums, plan.segments[-1].layout, bits, plan.dtype, self.gates)
            # Fewer gates are a small gain even where no sweep is saved.
            pays = after - before < max(1, _PASSES_A_SWEEP * (self._whole.sweeps - plan.sweeps))
            self._decisions.put(key, pays)
        return pays
