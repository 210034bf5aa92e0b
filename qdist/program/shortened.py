"""Programs without their last gates, where those only move amplitudes: observables take them over.

<psi|G^-1 O G|psi> is the value of O after the gates G, and if G are X, CX and SWAP, G^-1 O G has as many Pauli strings
as O. A gradient saves those gates in the forward run and in the sweep of ket and bra, and often whole sweeps.
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
"""Passes of the product with an observable, which read two states and write one, that a sweep of the forward run and
one of ket and bra are worth."""


class Shortened:
    """A plan that lacks the gates of the whole one's tail, and for which observables that pays."""

    def __init__(self, plan: Plan, gates: Tail, whole: Plan, backend: Backend) -> None:
        self.plan, self.gates = plan, gates
        self._whole, self._backend = whole, backend
        self._decisions: Recent[bool] = Recent(32)

    def gains(self, observables: Sequence[Observable]) -> bool:
        """Whether strings that now flip more qubits leave a gain."""
        sums = [expectation.as_pauli_sum(o, self._whole.num_qubits) for o in observables]
        key = tuple(s.key for s in sums)
        pays = self._decisions.get(key)
        if pays is None:
            plan, bits, backend = self.plan, self._whole.shard_bits, self._backend
            before = expectation.passes(backend, sums, self._whole.segments[-1].layout, bits, plan.dtype)
            after = expectation.passes(backend, sums, plan.segments[-1].layout, bits, plan.dtype, self.gates)
            # Without a sweep less there is still a little gain.
            pays = after - before < max(1, _PASSES_A_SWEEP * (self._whole.sweeps - plan.sweeps))
            self._decisions.put(key, pays)
        return pays
