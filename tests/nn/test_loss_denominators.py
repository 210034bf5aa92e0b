"""What a mean over targets is divided by is known before there are outputs."""

import numpy as np
import pytest

from qdist import nn
from qdist.parallel.loss_terms import check_mean_over
from qdist.tensor import Tensor, functional

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


def masked_mean(output: Tensor, targets: Tensor) -> Tensor:
    seen = (targets != 0).to(output.dtype)
    return (functional.cross_entropy(output, targets, "none") * seen).sum() / seen.sum()


def test_a_mean_that_masks_is_refused_also_where_all_losses_are_nearly_equal() -> None:
    row = np.random.default_rng(4)
    output, targets = row.normal(0, 0.1, (8, 6, 5)).astype("f"), row.integers(1, 5, (8, 6))
    check_mean_over(masked_mean, Tensor(output), Tensor(targets), (0, 1))  # Nothing is masked here.
    targets[6:, 4:] = 0
    for axes in ((0,), (1,)):
        with pytest.raises(ValueError, match=r"so it is no mean over (rows|positions)"):
            check_mean_over(masked_mean, Tensor(output), Tensor(targets), axes)
    targets[4:] = 0  # The mean of nothing.
    with pytest.raises(ValueError, match="so it is no mean over rows"), np.errstate(invalid="ignore"):
        check_mean_over(masked_mean, Tensor(output), Tensor(targets), (0,))


def _of_small(output: Tensor, targets: Tensor) -> Tensor:
    assert float(abs(output).max()) <= 1, "probabilities"
    return (output - targets).abs2().mean()


@pytest.mark.parametrize(
    "loss",
    [
        lambda output, targets: functional.binary_cross_entropy(output, targets),
        lambda output, targets: -(targets * output.log() + (1 - targets) * (1 - output).log()).mean(),
        lambda output, targets: (output - targets).mean(),
        _of_small,
    ],
    ids=["probabilities", "logarithms", "differences", "asserted"],
)
def test_means_that_take_no_large_outputs_are_none_the_worse(loss) -> None:
    row = np.random.default_rng(5)
    output, targets = (Tensor(row.uniform(0.1, 0.9, (6, 3)).astype("f")) for _ in range(2))
    with np.errstate(all="ignore"):
        check_mean_over(loss, output, targets, (0,))
