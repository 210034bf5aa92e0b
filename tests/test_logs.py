"""Logging under the name qdist, and the variable that turns it on."""

import logging
import subprocess
import sys

import numpy as np
import pytest

import qdist as qd
from qdist.logs import set_up

PROGRAM = (
    "import qdist as qd; c = qd.comm.init(); qd.simulate(qd.Circuit(3).h(0).cx(0, 1), comm=c); print(qd.__version__)"
)


def of_a_process(level: str) -> str:
    done = subprocess.run([sys.executable, "-c", PROGRAM], env={"QDIST_LOG": level}, capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.strip() == qd.__version__
    return done.stderr


def test_the_variable_tells_of_kernels_ranks_device_and_plan() -> None:
    text = of_a_process("info")
    assert f"INFO qdist.native: CPU kernels: {qd.native.variant} (built: " in text
    assert "INFO qdist.comm: rank 0 of 1 on " in text
    assert "INFO qdist.program: device cpu (asked for: auto), 3 qubits, complex64" in text
    assert "INFO qdist.program: plan on cpu in " in text
    assert "3 qubits, complex64: 1 sweep of 64 B" in text


def test_nothing_is_said_without_it_and_a_wrong_level_is_told_of() -> None:
    assert of_a_process("") == ""
    text = of_a_process("loud")
    assert "qdist: QDIST_LOG=loud: one of error, warning, info, debug; taken as info" in text
    assert "INFO qdist.program" in text


def test_programs_may_use_the_loggers_as_of_any_library(caplog, tmp_path) -> None:
    with caplog.at_level(logging.INFO, "qdist"):
        state = qd.simulate(qd.Circuit(3).h(0))
        state.save(tmp_path / "state.safetensors")
        qd.StateVector.load(tmp_path / "state.safetensors")
        qd.checkpoint.save(tmp_path / "x.safetensors", {"x": np.zeros(4)})
        qd.checkpoint.load(tmp_path / "x.safetensors")
    said = [(record.name, record.getMessage()) for record in caplog.records]
    assert ("qdist.state", f"saved {tmp_path}/state.safetensors: 3 qubits, complex64") in said
    assert ("qdist.state", f"read {tmp_path}/state.safetensors: 3 qubits, complex64") in said
    assert ("qdist.checkpoint", f"saved checkpoint {tmp_path}/x.safetensors: 32 bytes by 1 ranks") in said
    assert ("qdist.checkpoint", f"read checkpoint {tmp_path}/x.safetensors") in said


def test_levels_ranks_and_handlers() -> None:
    logger = logging.getLogger("qdist")
    before = logger.handlers[:], logger.level, logger.propagate
    try:
        set_up({"QDIST_LOG": "debug", "PMI_RANK": "3"})
        handler = logger.handlers[-1]
        record = logging.LogRecord("qdist.comm", logging.INFO, "", 0, "met", (), None)
        assert handler.format(record).endswith(" rank 3 INFO qdist.comm: met")
        assert (logger.level, logger.propagate) == (logging.DEBUG, False)
    finally:
        logger.handlers[:], logger.level, logger.propagate = before


def test_exchanges_are_told_of_at_debug_only(caplog) -> None:
    comm = qd.comm.counting_communicator(4)
    circuit = qd.library.hardware_efficient(8, 3)
    program = qd.compile(circuit.bind(np.ones(circuit.num_parameters)), comm=comm)
    assert program.plan.exchanges
    for level, number in ((logging.INFO, 0), (logging.DEBUG, program.plan.exchanges)):
        caplog.clear()
        with caplog.at_level(level, "qdist"):
            program.run()
        assert sum("exchange of positions" in record.getMessage() for record in caplog.records) == number


@pytest.mark.parametrize("code", [1, 0])
def test_restarts_are_told_of(caplog, code) -> None:
    from qdist.comm.launch.restarts import Restarts

    codes = iter([1, code])
    with caplog.at_level(logging.INFO, "qdist"):
        Restarts(1, backoff=0.0).run(lambda ranks, hosts: next(codes), 4, [])
    assert [r.getMessage() for r in caplog.records] == ["restart 1 of 1 with 4 ranks: exit code 1"]
