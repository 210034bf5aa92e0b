"""What all tests share: where ranks come from, the device to test, and property tests that always answer the same."""

import gc
import logging
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import types_beside
from _pytest.runner import runtestprotocol

# Two files of tests may have eight ranks each at a time, and ranks that wait by spinning would take the cores from each
# other. qdist sees to it where one job has more ranks than cores, and knows nothing of the other job.
os.environ.setdefault("MPIR_CVAR_ENABLE_HEAVY_YIELD", "1")
os.environ.setdefault("MPIR_CVAR_POLLS_BEFORE_YIELD", "100")
os.environ.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")

# Matrices of tests are small: second threads of NumPy's would take cores from the other worker, and gain nothing.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Tests start hundreds of processes. Where an image sets this, each would compile qdist's sources: half of its start.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    sys.dont_write_bytecode = False

from qdist.comm import CommError, cuda_devices
from qdist.comm.launch import mpirun_command
from qdist.comm.transports.libmpi import Mpirun, find_mpirun

_within = np.testing.assert_allclose


def _within_what_is_said(actual, desired, rtol=None, atol=0, **options) -> None:
    """assert_allclose, whose relative bound is no wider than the absolute one that is given: NumPy's 1e-7 would let an
    error of 1e-9 pass where 1e-12 is asked for."""
    _within(actual, desired, rtol=(min(1e-7, atol) if atol else 1e-7) if rtol is None else rtol, atol=atol, **options)


np.testing.assert_allclose = _within_what_is_said

ON_RANKS = "QDIST_TEST_ON_RANKS"
"""Set where a test started this process: such processes are many, and have no property tests."""

if ON_RANKS not in os.environ:
    from hypothesis import HealthCheck, settings

    # How long inputs take to make is a matter of the machine's other work.
    for profile, examples in {"repeatable": 40, "thorough": 100}.items():
        settings.register_profile(
            profile,
            max_examples=examples,
            derandomize=True,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        )

WAITING = ("bootstrap", "guard", "launch")
"""Folders of tests/comm whose tests take several times as long as their processes compute."""

RunRanks = Callable[..., subprocess.CompletedProcess[str]]
PassOnRanks = Callable[..., None]


@pytest.fixture(scope="session")
def run_ranks() -> RunRanks:
    """run_ranks(n, [arguments of python]) runs a Python program on n real MPI ranks with plain mpirun."""
    try:
        mpirun = find_mpirun("bundled")
    except CommError:
        mpirun = find_mpirun()

    def run(
        ranks: int, arguments: Sequence[str | Path], timeout: float = 300, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        command = [*mpirun_command(mpirun, ranks), sys.executable, *map(str, arguments)]
        # Plugins of pytest, which no test on ranks needs, would double the time in which a rank starts.
        plain = {
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            ON_RANKS: "1",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        return subprocess.run(
            command, env=os.environ | plain | environ, capture_output=True, text=True, timeout=timeout
        )

    return run


@pytest.fixture(scope="session")
def bundled_mpich() -> Mpirun:
    """The launcher of the MPICH that comes with this Python environment; skips where there is none. Ranks that no
    launcher started meet over that library alone."""
    try:
        mpirun = find_mpirun("bundled")
    except CommError as error:
        pytest.skip(str(error))
    if mpirun.family != "mpich":
        pytest.skip(f"{mpirun.path} is {mpirun.family}, not MPICH")
    return mpirun


@pytest.fixture
def run_nccl_ranks(run_ranks: RunRanks, tmp_path: Path) -> RunRanks:
    """As run_ranks, for programs that talk over NCCL, on however few GPUs.

    NCCL refuses two ranks of one host on one GPU; told that each rank is a host of its own, it talks over sockets.
    """
    wrapper = tmp_path / "as_own_host.py"
    wrapper.write_text(
        "import os, sys\n"
        "rank = os.environ.get('PMI_RANK') or os.environ['OMPI_COMM_WORLD_RANK']\n"
        "os.environ['NCCL_HOSTID'] = 'host' + rank\n"
        "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])\n"
    )

    def run(ranks: int, arguments: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
        own_hosts = [wrapper] if ranks > cuda_devices() else []
        interface = os.environ.get("NCCL_SOCKET_IFNAME", "lo")
        return run_ranks(ranks, [*own_hosts, *arguments], QDIST_TEST_BACKEND="nccl", NCCL_SOCKET_IFNAME=interface)

    return run


@pytest.fixture(scope="session")
def pass_on_ranks(run_ranks: RunRanks, request: pytest.FixtureRequest) -> PassOnRanks:
    """pass_on_ranks(n, [files of tests, options of pytest]) runs tests on n ranks: on each of them all must pass."""
    return partial(_pass, run_ranks, request.config.getoption("--thorough"))


@pytest.fixture
def pass_on_nccl_ranks(run_nccl_ranks: RunRanks, request: pytest.FixtureRequest) -> PassOnRanks:
    """As pass_on_ranks, for tests that talk over NCCL."""
    return partial(_pass, run_nccl_ranks, request.config.getoption("--thorough"))


def _pass(run: RunRanks, thorough: bool, ranks: int, tests: Sequence[str | Path], **environ: str) -> None:
    # Nothing is captured: what a guard says before it ends the job, pytest would not live to show.
    options = ["-x", "-s", "-p", "no:cacheprovider", "-o", "addopts=--strict-markers -q"]
    done = run(ranks, ["-m", "pytest", *options, *["--thorough"] * thorough, *tests], **environ)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    assert done.stdout.count(" passed") == ranks


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--device", default="cpu", choices=["cpu", "cuda"], help="where the states of the shared suites are"
    )
    parser.addoption("--thorough", action="store_true", help="run what other tests show in a smaller way, too")


def pytest_configure(config: pytest.Config) -> None:
    # xdist would begin with the files of many tests, and at last one worker would wait for the other's one long test.
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False
    # Not in pyproject.toml: pytest would import NumPy before this file says how many threads it may have.
    config.addinivalue_line("filterwarnings", "error::numpy.exceptions.ComplexWarning")
    if ON_RANKS not in os.environ:
        settings.load_profile("thorough" if config.getoption("--thorough") else "repeatable")
    # Where workers run all tests.
    is_first = not hasattr(config, "workerinput") and config.args_source is pytest.Config.ArgsSource.TESTPATHS
    if is_first and config.getoption("numprocesses", None):
        folder = tempfile.TemporaryDirectory(prefix="qdist-types-")
        config.add_cleanup(folder.cleanup)
        config.add_cleanup(types_beside.start(Path(folder.name)).terminate)
    # What is collected, and what it imports, stays to the end: nothing there is garbage to look for.
    gc.disable()


def pytest_collection_finish() -> None:
    """Every later search for garbage, of which some tests ask for many, leaves out what has been collected: in a
    worker that has all tests it would take seconds."""
    if ON_RANKS not in os.environ:
        gc.collect()
    gc.freeze()
    # Graphs of tensors and random examples are made and dropped by the thousand, few of them in circles.
    gc.set_threshold(10_000)
    gc.enable()
    # pytest hangs its handlers on every logger that passes nothing on, six times a test. torch alone has forty, and a
    # quarter of the time of a short test would go there.
    for logger in list(logging.root.manager.loggerDict.values()):
        if isinstance(logger, logging.Logger) and not logger.name.startswith("qdist"):
            logger.propagate = True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what --thorough asks for. Tests that start ranks are marked so, and the files that have some come
    first: they take longest, and at the end one worker would wait for the other's. Those that mostly wait themselves,
    for a rank that is gone or for a time-out, take turns with those whose ranks compute: while one worker waits, the
    ranks of the other have both cores."""
    if not config.getoption("--thorough"):
        left_out = [item for item in items if item.get_closest_marker("thorough")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("thorough")]
    starts_ranks = {"run_ranks", "pass_on_ranks", "run_nccl_ranks", "pass_on_nccl_ranks", "bundled_mpich"}
    here = Path(__file__).parent
    files: dict[Path, None] = {}
    for item in items:
        if starts_ranks & set(getattr(item, "fixturenames", ())):
            item.add_marker("ranks")
        if item.get_closest_marker("ranks"):
            files[item.path] = None
    waiting = [file for file in files if file.parent in [here / "comm" / name for name in WAITING]]
    computing = [file for file in files if file not in waiting]
    places = {file: place / len(group) for group in (computing, waiting) for place, file in enumerate(group)}
    places[here / "test_style.py"] = 2  # Last: mypy runs beside the others.
    items.sort(key=lambda item: places.get(item.path, 1))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """A worker sends the report of the test, and of what was set up and torn down only what did not pass or took its
    time: half of the messages, each packed and read in Python, which take longer than many a test."""
    if not hasattr(item.config, "workerinput"):
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed or report.duration > 0.01:
            item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.fixture(scope="session")
def thorough(request: pytest.FixtureRequest) -> bool:
    """Whether --thorough is given: for tests that then do more of the same."""
    return request.config.getoption("--thorough")


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> str:
    """What --device says: cpu or cuda. Skips where there is no such device."""
    chosen = request.config.getoption("--device")
    if chosen == "cuda":
        pytest.importorskip("cupy", reason="--device cuda needs CuPy")
        if cuda_devices() == 0:
            pytest.skip("--device cuda: no CUDA device")
    return chosen


@pytest.fixture
def free_port() -> int:
    """A TCP port of this machine that nobody uses right now."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]
