"""Traces: the file's format, that events nest, that counts are the plan's, who waits for whom, and no trace left."""

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

import qdist as qd
from qdist.cli import main
from qdist.comm.bootstrap.environment import without_launcher
from qdist.plan.cost import Machine
from qdist.tracing.clocks import offset_of
from qdist.tracing.points import POINTS
from qdist.tracing.recorder import Event
from qdist.tracing.roofline import Roofline, annotate, sizes_of
from qdist.tracing.summary import self_seconds, summary
from qdist.tracing.waits import attribute

HERE = Path(__file__).parent


def read(path: Path) -> tuple[dict, list[dict]]:
    """The file and its timed events; raises where it is not in the trace format."""
    found = json.loads(path.read_text())
    assert set(found) == {"traceEvents", "displayTimeUnit", "otherData"}
    timed = []
    for event in found["traceEvents"]:
        assert {"name", "ph", "pid", "tid", "args"} <= set(event)
        assert event["ph"] in "XM"
        if event["ph"] == "X":
            assert event["ts"] >= 0
            assert event["dur"] >= 0
            assert event["args"]["bytes"] >= 0
            assert event["args"]["flops"] >= 0
            assert event["args"]["roofline"] is None or event["args"]["roofline"] > 0
            timed.append(event)
    return found, timed


def check_nesting(events: list[dict]) -> None:
    """Of two events of one thread, one holds the other, or they do not overlap."""
    tracks = defaultdict(list)
    for event in events:
        tracks[event["pid"], event["tid"]].append((event["ts"], -event["dur"], event["ts"] + event["dur"]))
    for track in tracks.values():
        open_until: list[float] = []
        for start, _, end in sorted(track):
            while open_until and open_until[-1] <= start + 1e-3:
                open_until.pop()
            assert not open_until or end <= open_until[-1] + 1e-3
            open_until.append(end)


def of_kind(events: list[dict], category: str) -> list[dict]:
    return [event for event in events if event["cat"] == category]


def total(events: list[dict], name: str) -> float:
    return sum(event["args"][name] for event in events)


@pytest.fixture
def program(device: str) -> qd.Program:
    return qd.compile(qd.library.hardware_efficient(13, 3), device=device)  # One row would be one launch.


def test_counts_of_a_run_are_the_plans(program, tmp_path) -> None:
    theta = np.linspace(0, 2, program.circuit.num_parameters)
    plain = program.run(theta).amplitudes()
    path = tmp_path / "run.json"
    with qd.trace(path, table=False):
        state = program.run(theta)
    np.testing.assert_array_equal(state.amplitudes(), plain)
    _, events = read(path)
    check_nesting(events)
    kind = "gpu" if program.device != "cpu" else "stage"
    stages = [event for event in of_kind(events, kind) if event["name"].startswith("stage ")]
    assert len(stages) == program.plan.sweeps
    assert total(stages, "bytes") == program.plan.bytes_moved
    assert total(stages, "flops") == pytest.approx(program.plan.flops)
    assert all(event["args"]["roofline"] > 0 for event in stages)
    (run,) = of_kind(events, "run")
    assert run["args"]["sweeps"] == program.plan.sweeps
    assert len(of_kind(events, "bind")) == 1


def test_runs_into_given_memory_gradients_and_batches_are_seen(program, tmp_path) -> None:
    theta = np.linspace(0, 2, program.circuit.num_parameters)
    out = program.run(theta)
    plain = program.value_and_grad("Z0 Z1", theta)
    small = qd.compile(qd.library.hardware_efficient(3, 1), device=program.device)
    path = tmp_path / "gradient.json"
    with qd.trace(path, table=False):
        program.run(theta, out=out)
        value, gradient = program.value_and_grad("Z0 Z1", theta)
        small.value_and_grad("Z0", np.zeros((5, 6)))
        qd.compile(qd.Circuit(2).h(0))
    assert value == plain[0]
    np.testing.assert_array_equal(gradient, plain[1])
    _, events = read(path)
    check_nesting(events)
    names = [event["name"] for event in events]
    assert any(name.startswith("undo ") for name in names)
    assert {"observables and the bra", "plan", "run", "bind"} <= set(names)
    assert "rows and their gradients" in names or "undo 5 rows" in names
    kind = "gpu" if program.device != "cpu" else "stage"
    forward = [event for event in of_kind(events, kind) if event["name"].startswith("stage ")]
    assert len(forward) >= program.plan.sweeps + 1


def test_one_parameter_set_of_a_small_circuit_is_seen(program, tmp_path) -> None:
    small = qd.compile(qd.library.hardware_efficient(3, 2), device=program.device)
    theta = np.linspace(0, 2, 12)
    plain = small.expectation("Z0", theta), *small.value_and_grad("Z0", theta)
    path = tmp_path / "small.json"
    with qd.trace(path, table=False):
        assert small.expectation("Z0", theta) == plain[0]
        value, gradient = small.value_and_grad("Z0", theta)
    assert value == plain[1]
    np.testing.assert_array_equal(gradient, plain[2])
    _, events = read(path)
    if program.device == "cpu":
        assert [event["name"] for event in of_kind(events, "stage")] == ["rows", "rows and their gradients"]
        forward, both = of_kind(events, "stage")
        assert both["args"]["flops"] == 3 * forward["args"]["flops"] > 0
        assert forward["args"]["rows"] == 1
    assert events


def test_nothing_is_left_after_the_block(program, tmp_path) -> None:
    before = [vars(owner)[name] for owner, name, _ in POINTS]
    from qdist.program import compiled

    function = compiled.swap_bits
    with qd.trace(tmp_path / "a.json", table=False):
        assert all(vars(owner)[name] is not one for (owner, name, _), one in zip(POINTS, before))
        with pytest.raises(RuntimeError, match="a trace is on already"), qd.trace(tmp_path / "b.json"):
            pass
    assert all(vars(owner)[name] is one for (owner, name, _), one in zip(POINTS, before))
    assert compiled.swap_bits is function


def test_a_block_that_fails_writes_what_there_is(program, tmp_path) -> None:
    path = tmp_path / "failed.json"
    with pytest.raises(qd.CircuitError), qd.trace(path):
        program.run(np.zeros(program.circuit.num_parameters)).expectation("Q0")
    _, events = read(path)
    assert of_kind(events, "run")
    assert not hasattr(qd.Program.run, "__wrapped__")
    with pytest.raises(ValueError, match="there is no folder"), qd.trace(tmp_path / "none" / "x.json"):
        pass


def test_on_ranks(run_ranks, tmp_path) -> None:
    """One start of 4 ranks under plain mpirun: every check of a trace of several ranks."""
    path, plan_file = tmp_path / "ranks.json", tmp_path / "plan.json"
    script = HERE / "ranks_program.py"
    done = run_ranks(4, ["-m", "qdist", "trace", "--output", path, script, plan_file])
    assert done.returncode == 0, done.stdout + done.stderr
    plan = json.loads(plan_file.read_text())
    found, events = read(path)
    check_nesting(events)
    assert {event["pid"] for event in events} == {0, 1, 2, 3}
    stages = of_kind(events, "stage")
    assert len(stages) == 4 * plan["sweeps"]
    assert total(stages, "bytes") == plan["bytes_moved"]
    assert total(stages, "flops") == pytest.approx(plan["flops"])
    exchanges = of_kind(events, "exchange")
    assert plan["exchanges"] > 0
    assert len(exchanges) == 4 * plan["exchanges"]
    assert total(exchanges, "sent") == plan["bytes_sent"] == plan["sent"]
    messages = [event for event in of_kind(events, "message") if event["name"] == "isendrecv"]
    of_exchanges = [m for m in messages if any(_inside(m, e) for e in exchanges)]
    assert total(of_exchanges, "bytes") == plan["bytes_sent"]
    packed = [event for event in of_kind(events, "pack") if event["name"] == "unpack"]
    assert total(packed, "bytes") == 2 * plan["bytes_sent"]
    # Rank 2 came late to the sum of all, and rank 1 to its message with rank 3.
    late = {e["pid"]: e["args"] for e in events if e["name"] == "all_reduce" and e["args"].get("late", 0) > 0.2}
    assert set(late) == {0, 1, 3}
    assert {args["waits for rank"] for args in late.values()} == {2}
    (wait,) = [e for e in events if e["name"] == "wait for isendrecv" and e["args"].get("late", 0) > 0.2]
    assert (wait["pid"], wait["args"]["waits for rank"]) == (3, 1)
    waits = found["otherData"]["waits"]
    assert waits["0"]["2"] > 0.2
    assert waits["3"]["1"] > 0.2
    assert "of its time for rank 2" in done.stderr
    assert found["otherData"]["summary"] in done.stderr


@pytest.mark.parametrize("fails", [False, True])
def test_ranks_that_never_meet_are_traced_alone(fails: bool, tmp_path) -> None:
    script, path = tmp_path / "program.py", tmp_path / "t.json"
    script.write_text(f"import qdist as qd\nqd.simulate(qd.Circuit(3).h(0))\n{'1 / 0' if fails else ''}\n")
    command = [sys.executable, "-m", "qdist", "trace", "-o", str(path), str(script)]
    told = []
    for rank in range(2):
        environ = without_launcher(os.environ) | {"RANK": str(rank), "WORLD_SIZE": "2"}
        told.append(subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60).stderr)
    written = {p.name for p in tmp_path.glob("t.json*")}
    if fails:
        assert written == {"t.json.rank0", "t.json.rank1"}
        return
    assert written == {"t.json"}
    assert {event["pid"] for event in read(path)[1]} == {0}
    assert "never called qdist.comm.init(), so each of the 2 ranks did all of it" in told[0]
    assert "trace" not in told[1]


def test_a_groups_trace_has_the_worlds_numbers(run_ranks, tmp_path) -> None:
    """Ranks 3, 1 and 2 of 4 trace what they do: no first rank of the node is among them, and their order is another."""
    script = tmp_path / "group.py"
    script.write_text(
        "import sys, time, numpy as np, qdist as qd\n"
        "comm = qd.comm.init()\n"
        "group = comm.split([[0], [3, 1, 2]])\n"
        "group.barrier()\n"
        "with qd.trace(sys.argv[1] + str(group.size), comm=group, table=False):\n"
        "    if comm.rank == 1:\n"
        "        time.sleep(0.3)\n"
        "        group.send(np.ones(4), 2)\n"
        "    elif comm.rank == 2:\n"
        "        group.recv(np.empty(4), 1)\n"
        "    elif comm.rank == 3:\n"
        "        time.sleep(0.6)\n"
        "    group.barrier()\n"
    )
    done = run_ranks(4, [script, tmp_path / "t"])
    assert done.returncode == 0, done.stdout + done.stderr
    found, events = read(tmp_path / "t3")
    assert {event["pid"] for event in events} == {1, 2, 3}
    waits = found["otherData"]["waits"]
    assert waits["2"]["1"] > 0.1  # for its message
    assert min(waits["1"]["3"], waits["2"]["3"]) > 0.1
    assert {event["pid"] for event in read(tmp_path / "t1")[1]} == {0}


def test_a_folder_in_the_place_of_the_file_is_told_before_the_block(tmp_path) -> None:
    ran = []
    with pytest.raises(ValueError, match="is a folder"), qd.trace(tmp_path):
        ran.append(1)
    assert not ran


def _inside(inner: dict, outer: dict) -> bool:
    ends = [e["ts"] + e["dur"] for e in (inner, outer)]
    return inner["pid"] == outer["pid"] and outer["ts"] <= inner["ts"] and ends[0] <= ends[1]


def test_the_command_runs_programs_with_their_arguments_and_exit_codes(tmp_path) -> None:
    script, path = tmp_path / "script.py", tmp_path / "t.json"
    (tmp_path / "beside.py").write_text("CODE = 7\n")
    script.write_text(
        "import sys, qdist as qd, beside\nqd.simulate(qd.Circuit(2).h(0))\nprint(sys.argv[1:], __name__)\n"
        "if sys.argv[1] == 'fail': raise ValueError('of the program')\nsys.exit(beside.CODE)\n"
    )
    command = [sys.executable, "-m", "qdist", "trace", "-o", str(path), str(script)]
    done = subprocess.run([*command, "--output", "x"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (7, "['--output', 'x'] __main__\n")
    _, events = read(path)
    assert of_kind(events, "run")
    done = subprocess.run([*command, "fail"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert done.stderr.rstrip().endswith("ValueError: of the program")


def test_a_missing_program_is_refused(tmp_path, capsys) -> None:
    assert main(["trace", str(tmp_path / "none.py")]) == 2
    assert "no such file; give a Python program" in capsys.readouterr().err


# The parts, on events made by hand -----------------------------------------------------------------------------------


def event(name: str, category: str, start: float, end: float, **args: object) -> Event:
    return Event(name, category, round(start * 1e9), round(end * 1e9), 1, dict(args))


def collective(start: float, end: float, sequence: int, **args: object) -> Event:
    told = {"comm": "world 1", "group": [0, 1, 2], "sequence": sequence, "enters": True, "waits": True}
    return event("barrier", "wait", start, end, **(told | args))


def test_waits_are_for_the_last_to_come() -> None:
    events = {
        0: [collective(0.0, 3.1, 1), collective(4.0, 4.5, 2)],
        1: [collective(3.0, 3.1, 1), collective(4.4, 4.5, 2)],
        2: [collective(1.0, 3.1, 1), collective(4.0, 4.5, 2, enters=True)],
    }
    found = attribute(events)
    assert found[0] == pytest.approx({1: 3.4})
    assert found[2] == pytest.approx({1: 2.4})
    assert found[1] == {}
    assert "rank 0 waits 76 % of its time for rank 1" in summary(events, found)


def test_messages_are_matched_by_ends_tag_and_order() -> None:
    def message(start: float, end: float, number: int, **args: object) -> Event:
        told = {"comm": "world 1", "group": [0, 1], "tag": 5, "enters": True, "waits": False, "number": number}
        return event("isendrecv", "message", start, end, **(told | args))

    def wait(start: float, end: float, number: int) -> Event:
        return event("wait", "wait", start, end, number=number, enters=False, waits=True, comm="", group=[])

    events = {
        0: [
            message(0, 0.1, 1, to=1, **{"from": 1}),
            message(0.1, 0.2, 2, to=1, **{"from": 1}),
            wait(0.2, 2, 1),
            wait(2, 5, 2),
        ],
        1: [message(1, 1.1, 1, to=0, **{"from": 0}), message(4, 4.1, 2, to=0, **{"from": 0}), wait(4.1, 4.2, 1)],
    }
    assert attribute(events) == {0: {1: pytest.approx(0.8 + 2.0)}, 1: {}}


def test_time_of_an_event_is_without_those_inside() -> None:
    events = [
        event("run", "run", 0, 10),
        event("a", "stage", 1, 4),
        event("b", "stage", 4, 5),
        event("c", "pack", 2, 3),
    ]
    assert self_seconds(events) == {"run": 6, "stage": 3, "pack": 1}


def test_shares_of_the_roofline() -> None:
    roofline = Roofline({1 << 16: Machine(100e9, 1e12, 5e11), 1 << 26: Machine(10e9, 1e12, 5e11)})
    small, large = {"bytes": 2e4, "flops": 0, "touched": 1.0}, {"bytes": 1e9, "flops": 1e9, "touched": 0.5}
    assert roofline.share(small, 1e-6) == pytest.approx(0.2)
    assert roofline.share(large, 0.1) == pytest.approx(0.5)
    assert roofline.share({"flops": 1e9, "double": True}, 0.01) == pytest.approx(0.2)
    assert roofline.share({}, 1.0) is None
    events = [event("s", "stage", 0, 1, **large), event("bind", "bind", 0, 1), event("x", "exchange", 0, 1, sent=5e9)]
    annotate(events, roofline, None, one_node=True)
    assert [e.args["roofline"] for e in events] == [0.05, None, 1.0]
    assert [e.args["bytes"] for e in events] == [1e9, 0, 5e9]
    assert sizes_of(events[:1]) == [1 << 26]


def test_clocks_are_compared_by_the_quickest_round() -> None:
    assert offset_of([(100, 5000, 200), (300, 5160, 320), (400, 9000, 900)]) == 5160 - 310


def test_the_picture_has_every_rank(tmp_path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "run.json"
    with qd.trace(path, table=False):
        qd.simulate(qd.Circuit(3).h(0).cx(0, 1))
    figure = qd.plots.plot_trace(path)
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["rank 0"]
    assert len(axes.collections) >= len([e for e in read(path)[1]])
    with pytest.raises(ValueError, match="no list of traceEvents"):
        qd.plots.plot_trace({"x": 1})
    with pytest.raises(ValueError, match="no event"):
        qd.plots.plot_trace(path, begin=1e6)
