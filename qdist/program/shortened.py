"""Programs without their tail of last gates that only permute amplitudes: the observables are conjugated with it.

<psi|G^-1 O G|psi> is the value of O after the gates G, and if G are X, CX and SWAP, G^-1 O G has as many Pauli strings
as O. A gradient saves those gates in the forward run and in the adjoint sweep, and often whole passes over memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from qdist.backends import Backend
from qdist.plan.observables.plan import ObservablePlan
from qdist.plan.plan import Plan
from qdist.plan.tail import Tail
from qdist.state.measuring.expectation import Observable, as_pauli_sum
from qdist.state.recent import Recent

__all__ = ["Shortened"]

_PASSES_AN_EXCHANGE = 8
"""An exchange between ranks takes about as long as so many passes over a shard."""

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
        sums = [as_pauli_sum(o, self._whole.num_qubits) for o in observables]
        key = tuple(s.key for s in sums)
        pays = self._decisions.get(key)
        if pays is None:
            more = self._passes(self.plan.observables(sums, self.gates)) - self._passes(self._whole.observables(sums))
            # Fewer gates are a small gain even where no sweep is saved.
            pays = more < max(1, _PASSES_A_SWEEP * (self._whole.sweeps - self.plan.sweeps))
            self._decisions.put(key, pays)
        return pays

    def _passes(self, observables: ObservablePlan) -> int:
        """About how many passes over a state the product with observables takes."""
        bits, dtype = self.plan.shard_bits, self.plan.dtype
        kernels = (self._backend.observable(strings, bits, dtype, products=True) for strings in observables.strings)
        return _PASSES_AN_EXCHANGE * observables.exchanges + sum(kernel.passes for kernel in kernels)
