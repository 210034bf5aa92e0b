"""What notebooks show of a plan."""

import numpy as np

from qdist.circuit import Circuit
from qdist.plan.planner import make_plan


def test_notebooks_show_the_summary_of_a_plan() -> None:
    made = make_plan(Circuit(3).h(0).cx(0, 2), np.dtype(np.complex128))
    shown = made._repr_html_()
    assert shown.startswith("<pre>3 qubits, ")
    assert repr(made) == f"<Plan of {made.summary().splitlines()[0]}>"
    assert shown.removeprefix("<pre>").removesuffix("</pre>") == made.summary()  # Nothing in it needs escaping.
