"""What a mean over targets is divided by is known before there are outputs."""

import numpy as np
import pytest

from qdist import nn
from qdist.tensor import Tensor

LOSSES = [
    nn.CrossEntropyLoss(),
    nn.CrossEntropyLoss(ignore_index=2, label_smoothing=0.1),
    nn.CrossEntropyLoss(weight=[0.5, 1.0, 2.0, 0.25]),
    nn.CrossEntropyLoss(weight=[0.5, 1.0, 2.0, 0.25], ignore_index=0),
    nn.NLLLoss(ignore_index=-100),
    nn.MSELoss(),
    nn.BCEWithLogitsLoss(),
]


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_denominator_is_that_of_the_terms(loss) -> None:
    row = np.random.default_rng(3)
    if hasattr(loss, "ignore_index"):
        output, targets = row.standard_normal((5, 7, 4)), row.integers(0, 4, (5, 7))
        if loss.ignore_index == -100:
            targets[1:3] = -100
    else:
        output, targets = row.standard_normal((5, 7)), row.uniform(size=(5, 7))
    wanted = float(loss.terms(Tensor(output), Tensor(targets)).denominator)
    assert loss.denominator(targets) == pytest.approx(wanted, rel=1e-6)
    assert loss.denominator(Tensor(targets)) == pytest.approx(wanted, rel=1e-6)
