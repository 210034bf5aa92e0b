"""Pipelines in one process; on ranks, see test_parallel_on_ranks.py."""

from types import SimpleNamespace

import numpy as np
import pytest

import qdist as qd
from qdist import nn
from qdist.parallel import Pipeline, PipelineTraining, make_schedule
from qdist.parallel.pipeline.micro_batches import cut_by_count, cut_by_size
from qdist.parallel.pipeline.stage_messages import DOWN, Channels, Spec
from qdist.tensor import Tensor, concatenate


def sizes(parts: list[range]) -> list[int]:
    assert [row for part in parts for row in part] == list(range(parts[-1].stop))
    return [len(part) for part in parts]


def test_micro_batches() -> None:
    assert sizes(cut_by_count(8, 4)) == [2, 2, 2, 2]
    assert sizes(cut_by_count(9, 4)) == [3, 2, 2, 2]
    assert sizes(cut_by_count(11, 4)) == [3, 3, 3, 2]
    assert sizes(cut_by_count(3, 4)) == [1, 1, 1]
    assert sizes(cut_by_size(8, 3)) == [3, 3, 2]
    assert sizes(cut_by_size(6, 3)) == [3, 3]
    assert sizes(cut_by_size(2, 3)) == [2]
    assert cut_by_count(0, 4) == cut_by_size(0, 3) == []


@pytest.mark.parametrize(
    ("backend", "device", "may"),
    [("mpi", "cpu", True), ("mpi", "cuda", True), ("nccl", "cpu", True), ("nccl", "cuda", False)],
)
def test_only_nccls_receives_wait_on_the_gpu(backend: str, device: str, may: bool) -> None:
    channels = Channels()
    channels._pairs[DOWN, 0] = SimpleNamespace(backend=backend)
    assert channels.may_receive_ahead(DOWN, 0, [Spec((2,), "<f8", device, True)]) is may


LAYERS = [nn.Linear(2, 2), nn.Tanh()]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give either micro_batches or micro_batch_size"),
        ({"micro_batches": 2, "micro_batch_size": 2}, "give either"),
        ({"micro_batches": 0}, "micro_batches=0: at least 1"),
        ({"micro_batch_size": 0}, "micro_batch_size=0: at least 1"),
        ({"micro_batches": 2, "schedule": "gpipe"}, "'gpipe' is not known"),
        ({"micro_batches": 2, "virtual_stages": 2}, "'interleaved' takes 2 or more"),
        ({"micro_batches": 2, "partition": "size"}, "'size' is not known"),
        ({"micro_batches": 2, "schedule": "interleaved", "virtual_stages": 3}, "2 layers do not make 3 stages"),
        ({"micro_batches": 2, "reduction": "none"}, "reduction 'none'"),
        ({"micro_batches": 2, "schedule": make_schedule("1f1b", 1, 2)}, "says how many micro-batches"),
        ({"virtual_stages": 2, "schedule": make_schedule("1f1b", 1, 2)}, "and virtual stages there are"),
        ({"micro_batches": 2, "layers": nn.Tanh()}, "takes a list of layers, a Sequential, or any model with example="),
        ({"schedule": make_schedule("1f1b", 2, 2)}, "the schedule is for 2 ranks, the pipeline has 1"),
        ({"micro_batches": 2, "layers": [3]}, "layer 0 is a int, not a Module or a function"),
        ({"micro_batches": 2, "loss": nn.MSELoss("none")}, "reduction 'none'"),
    ],
)
def test_wrong_options_are_refused(options: dict, message: str) -> None:
    arguments = {"layers": LAYERS, "loss": nn.MSELoss(), "comm": qd.comm.counting_communicator(1)} | options
    with pytest.raises((TypeError, ValueError), match=message):
        Pipeline(**arguments)


def test_a_mesh_needs_an_axis_for_the_stages() -> None:
    with pytest.raises(ValueError, match="has no axis 'pp'"):
        Pipeline(LAYERS, nn.MSELoss(), qd.comm.Mesh(qd.comm.counting_communicator(1), dp=1), micro_batches=1)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"optimizer": {"type": "Adamant"}}, "optimizer type 'Adamant': use one of sgd, adam"),
        ({"optimizer": {"type": "SGD", "lr": 0.1}}, "optimizer: unknown key lr"),
        ({"pipeline_parallel_size": 3}, "pipeline_parallel_size=3 does not divide 4 ranks"),
        ({"train_batch_size": 0}, "train_batch_size=0 of 1 rows of data"),
        ({"steps": 0}, "steps=0"),
        ({"zero": 1}, "config: unknown key zero"),
        ({"local_rank": 1}, "local_rank=1, but this is local rank 0"),
    ],
)
def test_wrong_entries_are_refused(entries: dict, message: str) -> None:
    config = {
        "train_batch_size": 8,
        "train_micro_batch_size_per_gpu": 2,
        "optimizer": {"type": "SGD", "params": {"lr": 0.1}},
        "loss": nn.MSELoss(),
    }
    with pytest.raises(ValueError, match=message):
        PipelineTraining(config | entries, LAYERS, [(0, 0)], qd.comm.counting_communicator(4))


class Growing(nn.Module):
    """Gives a column more every time."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return concatenate([x] * self.calls, axis=1)


@pytest.mark.parametrize(
    ("layers", "loss", "message"),
    [
        ([Growing(), nn.Tanh()], nn.MSELoss(), "stage 0 gave .* for one of as many rows before"),
        ([nn.Tanh(), lambda x: x.tolist()], nn.MSELoss(), "layer 1 ends a stage and gave a list"),
        ([nn.Tanh(), nn.Tanh()], lambda output, target: output, r"a loss gives one number, .* not shape \(2, 3\)"),
        ([nn.Tanh(), nn.Tanh()], lambda output, target: 1.0, "a loss gives one number, .* not float"),
    ],
)
def test_layers_and_losses_that_do_not_fit_are_named(layers: list, loss: object, message: str) -> None:
    comm = qd.comm.counting_communicator(1)
    pipeline = Pipeline(layers, loss, comm, micro_batches=2, schedule="interleaved", virtual_stages=2)
    with pytest.raises((TypeError, ValueError), match=message):
        pipeline.train_batch(np.ones((4, 3)), np.ones((4, 3)))


def test_dropout_differs_from_micro_batch_to_micro_batch_and_ends_with_training() -> None:
    seen: list[bytes] = []

    def loss(output: Tensor, target: Tensor) -> Tensor:
        # Not the halves, nor the larger values, that tell whether it is a mean over rows.
        if len(output) == 2 and float(output.max()) <= 2:
            seen.append(output.numpy().tobytes())
        return output.mean()

    ones = np.ones((4, 64))
    pipeline = Pipeline([nn.Dropout(0.5)], loss, qd.comm.counting_communicator(1), micro_batches=2)
    pipeline.train_batch(ones, ones)
    pipeline.train_batch(ones, ones)
    trained = set(seen)
    assert len(trained) == 4
    seen.clear()
    pipeline.eval_batch(ones, ones)
    assert set(seen) == {ones[:2].tobytes()}
    seen.clear()
    again = Pipeline([nn.Dropout(0.5)], loss, qd.comm.counting_communicator(1), micro_batches=2, seed=1)
    again.train_batch(ones, ones)
    assert len(set(seen)) == 2
    assert not set(seen) & trained
