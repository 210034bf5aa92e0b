"""The training loop: what it saves, that a training goes on as if nothing had happened, and how it leaves."""

import json
import math
import os
import resource
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import qdist as qd
from qdist import checkpoint, data, nn, optim, parallel, training
from qdist.comm import Mesh, counting_communicator
from qdist.parallel.auto import ProcessMesh, shard_tensor
from qdist.tensor import Tensor, functional, manual_seed

STEPS = 9
X = np.random.default_rng(0).uniform(-1, 1, (22, 3)).astype(np.float32)
Y = np.random.default_rng(1).integers(0, 2, 22)


class Hybrid(nn.Module):
    """Everything that is random at once: dropout, and shots."""

    def __init__(self) -> None:
        super().__init__()
        x, w = qd.ParameterVector("x", 2), qd.ParameterVector("w", 2)
        circuit = qd.Circuit(2).ry(x[0], 0).ry(x[1], 1).cx(0, 1).ry(w[0], 0).ry(w[1], 1)
        self.first = nn.Linear(3, 2)
        self.drop = nn.Dropout(0.3)
        self.quantum = nn.QuantumLayer(circuit, ["Z0", "Z1"], inputs=x, weights=w, shots=50, seed=3)

    def forward(self, x: Tensor) -> Tensor:
        return self.quantum(self.drop(self.first(x)))


class Run:
    """A training, as a program would write it."""

    def __init__(self) -> None:
        manual_seed(5)
        self.model = Hybrid()
        self.optimizer = optim.Adam(self.model.parameters(), lr=0.05)
        self.schedule = optim.CosineLR(self.optimizer, STEPS)
        self.batches = training.Batches(data.DataLoader(data.ArrayDataset(X, Y), 4, shuffle=True, seed=2))
        self.parts = {
            "model": self.model,
            "optimizer": self.optimizer,
            "schedule": self.schedule,
            "batches": self.batches,
        }
        self.seen: list[float] = []

    def take(self, step: training.Step) -> None:
        x, y = next(self.batches)
        loss = functional.cross_entropy(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.schedule.step()
        self.seen.append(loss.item())
        step.record(loss=loss.item())

    def to_the_end(self, *args, **options) -> training.Loop:
        loop = training.steps(STEPS, self.parts, *args, **options)
        for step in loop:
            self.take(step)
        return loop

    def values(self) -> list[np.ndarray]:
        return [parameter.numpy().copy() for parameter in self.model.parameters()]


@pytest.fixture(scope="module")
def undisturbed() -> tuple[list[float], list[np.ndarray]]:
    run = Run()
    run.to_the_end()
    return run.seen, run.values()


def check_equal(run: Run, loop: training.Loop, undisturbed) -> None:
    losses, values = undisturbed
    assert loop.history.values["loss"] == losses
    for got, want in zip(run.values(), values, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("died", [1, 4, 6, 8])
def test_a_run_that_died_goes_on_bit_by_bit(tmp_path: Path, undisturbed, died: int, behind: bool) -> None:
    first = Run()
    with pytest.raises(ZeroDivisionError):  # noqa: PT012 - the loop is what is left
        for step in training.steps(STEPS, first.parts, tmp_path, every=2, behind=behind):
            first.take(step)
            if step == died:
                raise ZeroDivisionError
    second = Run()
    manual_seed(77)  # What is drawn next comes from the checkpoint, whatever the program does before.
    if died < 2:
        second = Run()
    loop = second.to_the_end(tmp_path, every=2, behind=behind)
    # With a thread, the save that was under way when the run died does not count.
    assert len(second.seen) in ({STEPS - died // 2 * 2} if not behind else range(STEPS - died // 2 * 2, STEPS + 1))
    check_equal(second, loop, undisturbed)


def test_behind_writes_the_bytes_that_were_there_when_it_began(tmp_path: Path) -> None:
    for behind in (False, True):
        Run().to_the_end(tmp_path / str(behind), every=1, keep=STEPS, behind=behind)
    files = sorted(path.name for path in (tmp_path / "True").glob("step-*"))
    assert files == [f"step-{n:08d}.safetensors" for n in range(1, STEPS + 1)]
    for name in files:
        assert (tmp_path / "True" / name).read_bytes() == (tmp_path / "False" / name).read_bytes()


def test_behind_takes_memory_for_one_copy_alone(tmp_path: Path) -> None:
    run = Run()
    loop = training.steps(STEPS, run.parts, tmp_path, every=1, behind=True)
    taken = []
    for step in loop:
        run.take(step)
        taken.append({name: id(copy) for name, copy in loop._writer._copies.items() if "history" not in name})
    assert len(taken[2]) >= 6
    assert taken[2] == taken[-1]


def test_the_last_few_are_kept_and_other_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    Run().to_the_end(tmp_path, every=1, keep=2)
    names = sorted(os.listdir(tmp_path))
    assert names == ["log.jsonl", "notes.txt", "step-00000008.safetensors", "step-00000009.safetensors"]


def test_seconds_save_too(tmp_path: Path) -> None:
    Run().to_the_end(tmp_path, seconds=1e-9, keep=STEPS)
    assert len(list(tmp_path.glob("step-*"))) == STEPS


def test_a_crashed_or_damaged_save_is_never_chosen(tmp_path: Path, undisturbed, capsys) -> None:
    first = Run()
    for step in training.steps(STEPS, first.parts, tmp_path, every=2, keep=9):
        first.take(step)
        if step == 6:
            break
    left = tmp_path / ".step-00000008.safetensors.0a1b2c3d.part"
    left.write_bytes((tmp_path / "step-00000006.safetensors").read_bytes()[:-5])
    damaged = tmp_path / "step-00000006.safetensors"
    whole = bytearray(damaged.read_bytes())
    whole[-3] ^= 4
    damaged.write_bytes(whole)
    second = Run()
    loop = second.to_the_end(tmp_path)
    assert len(second.seen) == STEPS - 4
    assert not left.exists()
    assert "step-00000006.safetensors is left out" in capsys.readouterr().err
    check_equal(second, loop, undisturbed)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_ends_it_after_the_step_and_it_goes_on(tmp_path: Path, undisturbed, number: int, capsys) -> None:
    before = signal.getsignal(number)
    first = Run()
    with pytest.raises(training.Preempted) as left:  # noqa: PT012 - the loop is what is left
        for step in training.steps(STEPS, first.parts, tmp_path):
            if step == 3:
                os.kill(os.getpid(), number)
            first.take(step)
    assert left.value.code == training.EXIT_REQUEUE == 75
    assert len(first.seen) == 4
    assert signal.getsignal(number) == before
    told = capsys.readouterr().err
    assert signal.Signals(number).name in told
    assert "step-00000004.safetensors" in told
    second = Run()
    check_equal(second, second.to_the_end(tmp_path), undisturbed)
    assert len(second.seen) == STEPS - 4


def test_the_log_has_every_step_once_and_says_what_happened(tmp_path: Path, undisturbed, monkeypatch) -> None:
    first = Run()
    for step in training.steps(STEPS, first.parts, tmp_path, every=3):
        first.take(step)
        if step == 4:
            break
    with open(tmp_path / "log.jsonl", "a") as file:
        file.write('{"step": 4, "lo')  # Cut off by a crash.
    monkeypatch.setenv("QDIST_RESTART", "1")
    monkeypatch.setenv("QDIST_RESTART_REASON", "rank 2 was killed")
    Run().to_the_end(tmp_path, every=3)
    entries = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [(e["step"], e["loss"]) for e in entries if "step" in e] == list(enumerate(undisturbed[0]))
    resumed = next(e for e in entries if e.get("event") == "resumed")
    assert (resumed["at"], resumed["restart"], resumed["reason"]) == (3, 1, "rank 2 was killed")
    assert sum(e.get("event") == "saved" for e in entries) == 3


@pytest.mark.parametrize("end", ["\n", ""])
def test_a_log_goes_on_after_lines_of_any_kind(tmp_path: Path, end: str) -> None:
    """What a crash has left there keeps no training from going on; end="": it cut off the last line's end alone."""
    list(training.steps(1, {}, tmp_path))
    log = tmp_path / "log.jsonl"
    step, note = '{"step": 0, "loss": 1.0}', '{"event": "note", "why": "\\u2028"}'
    odd = ["\0\0\0", "[1, 2]", '{"step": "first"}', '{"step": null}', '{"text": 1}', '"step"', "{"]
    log.write_bytes("\n".join([step, *odd, note, ""]).encode() + b"\xff\xfe\n" + (note + end).encode())
    for again in training.steps(2, {}, tmp_path):
        again.record(loss=0.5)
    lines = log.read_text().splitlines()
    assert lines[:3] == [step, note, note]
    assert [json.loads(line).get("event", "step") for line in lines[3:]] == ["resumed", "step", "saved"]


@pytest.mark.parametrize("text", ["my notes\n", '{"text": "a"}\n{"text": "b"}\n', "a,b\n1,2\n", "\x89PNG\n\x1a\n"])
def test_a_file_that_is_no_log_is_left_alone(tmp_path: Path, text: str) -> None:
    (tmp_path / "other").write_text(text)
    with pytest.raises(ValueError, match=r"other.*no line of a log.*another file"):
        list(training.steps(2, {}, tmp_path / "run", log=tmp_path / "other"))
    assert (tmp_path / "other").read_text() == text
    # The very first line of a log, cut off, is no reason.
    (tmp_path / "cut").write_text('{"step": 0, "lo')
    assert len(list(training.steps(2, {}, log=tmp_path / "cut"))) == 2


def test_early_stopping_counts_over_restarts(tmp_path: Path) -> None:
    values = [3.0, 2.0, 2.5, math.nan, 1.9999, 2.2, 9, 9]
    taken = []
    for stop in (2, None):
        loop = training.steps(None, {}, tmp_path / "a", every=1, patience=3, least=0.01)
        for step in loop:
            taken.append(int(step))
            step.record(loss=values[step])
            if stop == step:
                break
    # Broken off in step 2, which is taken again; no step after 1 got smaller by more than 0.01.
    assert taken == [0, 1, 2, 2, 3, 4]
    assert list(training.steps(None, {}, tmp_path / "a", patience=3)) == []


def test_stop_and_a_finished_run(tmp_path: Path) -> None:
    loop = training.steps(None, {}, tmp_path)
    for step in loop:
        if step == 2:
            step.stop()
    assert loop.done == 3
    assert list(training.steps(3, {}, tmp_path)) == []
    assert [int(s) for s in training.steps(2, {}, tmp_path, resume=False)] == [0, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"total": -1}, "total=-1"),
        ({"every": 0, "folder": "x"}, "every=0"),
        ({"every": 2}, "there is no folder"),
        ({"folder": "x", "keep": 0}, "keep=0"),
        ({"keep": 5}, "there is no folder"),
        ({"patience": 0}, "patience=0"),
        ({"total": 2.5}, "total=2.5: must be a whole number"),
        ({"total": float("nan")}, "total=nan"),
        ({"total": "3"}, "total='3': must be a whole number"),
        ({"every": 1.5, "folder": "x"}, "every=1.5: must be a whole number"),
        ({"folder": "x", "keep": 2.5}, "keep=2.5"),
        ({"patience": 1.5}, "patience=1.5"),
        ({"seconds": float("nan"), "folder": "x"}, "seconds=nan: must be positive"),
        ({"patience": 2, "least": float("nan")}, "least=nan"),
        ({"least": 0.1}, "there is no patience="),
        ({"watch": "accuracy"}, "there is no patience="),
        ({"behind": True}, "there is no folder"),
    ],
)
def test_wrong_options_are_refused(options, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        training.steps(**{"total": 3, **options})


@pytest.mark.parametrize("name", ["step", "event", "time"])
def test_metrics_do_not_take_the_names_that_lines_of_the_log_have(tmp_path: Path, name: str) -> None:
    stream = iter(training.steps(2, {}, tmp_path))
    first = next(stream)
    with pytest.raises(ValueError, match=rf"record\({name}=...\): .*step, event and time"):
        first.record(loss=1.0, **{name: 2.0})
    stream.close()
    loop = training.steps(2, {}, tmp_path)
    for step in loop:
        step.record(seconds=2.0)
    assert loop.history.values == {"seconds": [2.0, 2.0]}


def test_parts_that_differ_and_checkpoints_that_are_none_are_refused(tmp_path: Path) -> None:
    for _ in training.steps(1, {"a": optim.SGD([Tensor(np.zeros(2), requires_grad=True)], lr=1)}, tmp_path):
        pass
    with pytest.raises(ValueError, match=r"has the parts \['a'\], and this training has \['b'\]"):
        list(training.steps(2, {"b": Run().model}, tmp_path))
    with pytest.raises(ValueError, match="there is no checkpoint"):
        list(training.steps(2, {}, resume=tmp_path / "nowhere"))
    checkpoint.save(tmp_path / "other", {"x": 1})
    with pytest.raises(training.SaveFailed, match="not one checkpoint"):
        list(training.steps(2, {}, resume=tmp_path / "other"))


FULL = """
import resource, signal, sys
import numpy as np
from qdist import training
from qdist.tensor import Generator

class Big:
    def state_dict(self):
        return {"x": np.zeros(50_000 if grown else 500)}
    def load_state_dict(self, state):
        pass

grown = False
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
for step in training.steps(20, {"big": Big()}, sys.argv[1], every=2, behind=sys.argv[2] == "behind"):
    grown = step >= 4
    step.record(loss=step)
"""


@pytest.mark.parametrize("how", ["at once", "behind"])
def test_a_full_disk_ends_in_one_message_that_names_the_last_good_one(tmp_path: Path, how: str) -> None:
    done = subprocess.run([sys.executable, "-c", FULL, tmp_path, how], capture_output=True, text=True, timeout=200)
    assert done.returncode == training.EXIT_SAVE_FAILED == 74
    good = tmp_path / "step-00000004.safetensors"
    (told,) = done.stderr.splitlines()
    assert "File too large" in told
    assert f"the last good checkpoint is {good}" in told
    assert checkpoint.load(good)["loop"]["done"] == 4
    assert sorted(path.name for path in tmp_path.glob("*step*")) == ["step-00000002.safetensors", good.name]
    assert resource.getrlimit(resource.RLIMIT_FSIZE) != (100_000, 100_000)


def test_a_folder_that_cannot_be_is_told_before_the_first_step(tmp_path: Path, capsys) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(training.SaveFailed) as failed:  # noqa: PT012 - the loop is what is left
        for _ in training.steps(2, {}, tmp_path / "file" / "folder"):
            raise AssertionError("a step was taken")
    assert failed.value.code == 74
    assert "no checkpoint can be written to" in capsys.readouterr().err


def test_parts_that_cannot_be_saved_are_named_at_the_start():
    net = nn.Linear(2, 2)
    with pytest.raises(TypeError, match=r"parts is a dict, .* got Linear"):
        training.steps(2, net)
    with pytest.raises(TypeError, match=r"part 'lr' has no state_dict\(\) to save: it is float"):
        training.steps(2, {"model": net, "lr": 0.1})


def test_parts_of_which_each_rank_has_a_share_are_not_saved_as_if_they_were_whole() -> None:
    comm, mesh = counting_communicator(4), Mesh(counting_communicator(4), dp=4)
    rule = partial(optim.Adam, lr=0.1)

    def placed() -> nn.Module:
        net = nn.Linear(8, 8)
        shard_tensor(net.weight, ProcessMesh([0, 1, 2, 3], ["mp"], comm), ["mp", None])
        return net

    zero = parallel.Zero(net := nn.Linear(8, 8), rule(net.parameters()), 1, comm)
    layers = nn.Sequential(*[nn.Linear(8, 8) for _ in range(4)])
    pipeline = parallel.Pipeline(layers, nn.MSELoss(), comm, micro_batches=2)
    spread = parallel.parallelize(nn.Linear(8, 8), mesh, parallel.Plan(zero=1), optimizer=rule, loss=nn.MSELoss())
    column = parallel.ColumnParallelLinear(8, 8, comm)
    for part, instead in (
        (zero, r"parallel.Saved\(zero\)"),
        (zero.optimizer, r"parallel.Saved\(zero\)"),
        (pipeline.make_optimizer(rule), r"parallel.Saved\(pipeline, optimizer\)"),
        (spread.optimizer, "the ParallelModel alone"),
        (column, "a ParallelModel"),
        (rule(column.parameters()), "a ParallelModel"),
        (placed(), "an Engine"),
        (rule(placed().parameters()), "an Engine"),
    ):
        with pytest.raises(ValueError, match=rf"part 'x' \(\w+\) is divided over ranks, .*: give .*{instead}"):
            training.steps(2, {"x": part})
    training.steps(2, {"zero": parallel.Saved(zero), "model": spread})


def test_messages_have_the_name_of_the_training_and_not_of_a_part(tmp_path: Path) -> None:
    net = nn.Linear(2, 1)
    parts = {"model": net, "optimizer": optim.SGD(net.parameters())}
    for name, options in (("mine", {"name": "mine"}), ("training", {})):
        stream = iter(training.steps(9, parts, tmp_path, **options))
        next(stream)
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(training.Preempted, match=f"^{name}: SIGTERM"):
            next(stream)


def test_the_number_of_a_step_can_be_saved(tmp_path: Path) -> None:
    for step in training.steps(3):
        checkpoint.save(tmp_path / "c", {"step": step, "seen": [step]})
    found = checkpoint.load(tmp_path / "c")
    assert found == {"step": 2, "seen": [2]}
    assert type(found["step"]) is int
