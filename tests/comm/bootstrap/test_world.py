"""How ranks come together: launchers, rendezvous, the user's own communicator, init() again and shutdown()."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import qdist.comm as qc
from qdist.comm.bootstrap.environment import Launch, launched_by
from qdist.comm.bootstrap.rendezvous import _process_mapping
from qdist.comm.place import Place, core_share, crowded
from qdist.comm.store.client import Address
from qdist.comm.transports.libmpi import find_mpirun, library_for


def test_init_again_gives_the_same_and_shutdown_ends_it() -> None:
    assert not qc.is_initialized()
    comm = qc.init()
    assert qc.is_initialized()
    assert qc.init() is comm is qc.world()
    assert (comm.rank, comm.size, comm.backend, comm.host) == (0, 1, "solo", socket.gethostname())
    with pytest.raises(qc.CommError, match=r"with backend='solo' and not backend='mpi': call qdist.comm.shutdown\(\)"):
        qc.init(backend="mpi")
    qc.shutdown()
    assert not qc.is_initialized()
    assert qc.init() is not comm


def test_init_again_with_something_else_says_what_is_set() -> None:
    comm = qc.init(timeout=7, debug=True)
    assert (comm.timeout, comm.debug) == (7, True)
    for same in ({}, {"timeout": 7}, {"debug": True}, {"rank": 0, "world_size": 1}, {"backend": "solo"}):
        assert qc.init(**same) is comm
    assert qc.init(init_method="env://") is comm
    for other, has, asked in (
        ({"rank": 1, "world_size": 4}, "rank=0, world_size=1", "rank=1, world_size=4"),
        ({"timeout": 600}, "timeout=7", "timeout=600"),
        ({"debug": False}, "debug=True", "debug=False"),
        ({"backend": "nccl", "timeout": 8.5}, "backend='solo', timeout=7", "backend='nccl', timeout=8.5"),
        ({"init_method": "file:///tmp/x"}, "init_method='env://'", "init_method='file:///tmp/x'"),
        ({"comm": "mine"}, "comm=None", "comm='mine'"),
    ):
        with pytest.raises(qc.CommError) as raised:
            qc.init(**other)
        assert f"with {has} and not {asked}: call qdist.comm.shutdown()" in str(raised.value)
    assert qc.world() is comm


def test_a_check_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QDIST_DEBUG", "typo")
    with pytest.raises(ValueError, match="QDIST_DEBUG=typo: it is 'comm'"):
        qc.init()
    monkeypatch.setenv("QDIST_DEBUG", "comm")
    assert qc.init().debug


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"backend": "solo", "rank": 1, "world_size": 4}, "one process alone, not one of world_size=4"),
        ({"init_method": "tcp://127.0.0.1:1"}, "needs rank and world_size"),
        ({"comm": object(), "backend": "solo"}, "do not go together"),
        ({"comm": object(), "init_method": "env://"}, "do not go together"),
        ({"backend": "gloo"}, "use one of auto, mpi, nccl, solo"),
        ({"timeout": 0}, "greater than 0"),
        ({"timeout": float("inf")}, "greater than 0"),
        ({"rank": 1}, "go together"),
        ({"rank": 2, "world_size": 2}, "must be in 0..world_size-1"),
        ({"rank": 0, "world_size": 2, "init_method": "ftp://x"}, "use env://, tcp://host:port or file:///path"),
        ({"rank": 0, "world_size": 2, "init_method": "tcp://x"}, "expected tcp://host:port"),
        ({"rank": 0, "world_size": 2, "init_method": "file://x/y"}, "expected file:///absolute/path"),
    ],
)
def test_wrong_arguments_are_refused_at_once(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        qc.init(**arguments)
    assert not qc.is_initialized()


@pytest.mark.parametrize(
    ("environ", "launch"),
    [
        ({}, None),
        ({"PMI_RANK": "1", "PMI_SIZE": "4"}, Launch("MPICH's mpirun", 1, 4, True)),
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "3"}, Launch("Open MPI's mpirun", 2, 3, True)),
        ({"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "8"}, Launch("srun", 5, 8, True)),
        # Inside a batch script, but not started by srun: one process.
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, None),
        ({"RANK": "1", "WORLD_SIZE": "2"}, Launch("RANK and WORLD_SIZE", 1, 2, False)),
        ({"RANK": "0", "WORLD_SIZE": "1"}, None),
        # Started by mpirun inside an allocation.
        (
            {"PMI_RANK": "1", "PMI_SIZE": "4", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2"},
            Launch("MPICH's mpirun", 1, 4, True),
        ),
    ],
)
def test_launchers_are_known_by_their_variables(environ: dict[str, str], launch: Launch | None) -> None:
    assert launched_by(environ) == launch


def test_variables_that_are_no_ranks_are_refused() -> None:
    with pytest.raises(qc.CommError, match="RANK='7' and WORLD_SIZE='4' are not a rank and a size"):
        launched_by({"RANK": "7", "WORLD_SIZE": "4"})
    with pytest.raises(qc.CommError, match="WORLD_SIZE='many'"):
        launched_by({"RANK": "0", "WORLD_SIZE": "many"})


def test_the_library_follows_the_launcher(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "lib").mkdir()
    for name in ("libmpi.so.12", "libmpi.so.40"):
        (tmp_path / "lib" / name).touch()
    ours, theirs = Path(sys.prefix) / "bin" / "hydra_pmi_proxy", tmp_path / "bin" / "mpirun"
    assert library_for(ours, {}) is None
    assert library_for(None, {}) is None
    assert library_for(theirs, {}) == str(tmp_path / "lib" / "libmpi.so.12")
    open_mpi = {"OMPI_COMM_WORLD_SIZE": "2"}
    assert library_for(theirs, open_mpi) == str(tmp_path / "lib" / "libmpi.so.40")
    assert library_for(None, open_mpi) == "libmpi.so.40"


def test_places_number_nodes_as_they_first_appear() -> None:
    nodes = ["b", "b", "a", "b", "a"]
    places = [Place.among(rank, nodes) for rank in range(5)]
    assert [p.node for p in places] == [0, 0, 1, 0, 1]
    assert [p.local_rank for p in places] == [0, 1, 0, 2, 1]
    assert [p.local_size for p in places] == [3, 3, 2, 3, 2]
    assert {p.num_nodes for p in places} == {2}
    assert Place.among(1, nodes, cores=4).cores == 4
    assert _process_mapping(nodes) == "(vector,(0,1,2),(1,1,1),(0,1,1),(1,1,1))"


@pytest.mark.parametrize(
    ("masks", "quota", "shares"),
    [
        ([0xFF], None, [8]),
        ([0xFF] * 2, None, [4, 4]),
        ([0xFF] * 3, None, [2, 2, 2]),
        ([0xFF] * 16, None, [1] * 16),
        ([0x0F, 0xF0], None, [4, 4]),
        ([0x0F, 0x0F, 0xF0], None, [2, 2, 4]),
        ([0xFF] * 2, 6, [3, 3]),
        ([0x0F, 0xF0], 2, [1, 1]),
    ],
)
def test_processes_share_the_cores_that_they_have_in_common(
    masks: list[int], quota: int | None, shares: list[int]
) -> None:
    assert [core_share(own, masks, quota) for own in masks] == shares


@pytest.mark.parametrize(
    ("masks", "quota", "alone"),
    [
        ([0x3] * 2, None, [True, True]),
        ([0x3] * 3, None, [False] * 3),
        ([0x1, 0x2, 0x4], None, [True] * 3),
        ([0x1, 0x1, 0x6], None, [False, False, True]),
        ([0xFF] * 4, 2, [False] * 4),
    ],
)
def test_processes_with_less_than_a_core_each_are_crowded(
    masks: list[int], quota: int | None, alone: list[bool]
) -> None:
    assert [not crowded(own, masks, quota) for own in masks] == alone


WAIT = """
import ctypes, sys, numpy as np, os, qdist.comm as qc
os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:int(sys.argv[1])]))
comm = qc.init()
from qdist.comm.transports.libmpi import loaded_library
library = ctypes.CDLL(loaded_library())
index, handle, value = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_int(-1)
library.MPI_T_init_thread(0, ctypes.byref(ctypes.c_int()))
library.MPI_T_cvar_get_index(b"MPIR_CVAR_ENABLE_HEAVY_YIELD", ctypes.byref(index))
library.MPI_T_cvar_handle_alloc(index, None, ctypes.byref(handle), ctypes.byref(ctypes.c_int()))
library.MPI_T_cvar_read(handle, ctypes.byref(value))
sum = int(comm.all_reduce(np.array(value.value)))
if comm.rank == 0: print(sum)
"""


@pytest.mark.usefixtures("bundled_mpich")
def test_ranks_that_share_a_core_leave_it_to_others_while_they_wait(run_ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MPIR_CVAR_ENABLE_HEAVY_YIELD", "MPIR_CVAR_POLLS_BEFORE_YIELD"):
        monkeypatch.delenv(name, raising=False)
    assert run_ranks(2, ["-c", WAIT, "1"]).stdout == "2\n"
    if len(os.sched_getaffinity(0)) > 1:
        assert run_ranks(2, ["-c", WAIT, "2"]).stdout == "0\n"
    # The user's own setting stands.
    assert run_ranks(2, ["-c", WAIT, "1"], MPIR_CVAR_ENABLE_HEAVY_YIELD="0").stdout == "0\n"


MEET = """
import sys, numpy as np, qdist.comm as qc
rank, url = int(sys.argv[1]), sys.argv[2]
comm = qc.init(init_method=url, rank=rank, world_size=3, timeout=30)
assert (comm.rank, comm.size, comm.backend) == (rank, 3, "mpi")
assert comm.local_size == 3
print(int(comm.all_reduce(np.array(rank + 1))))
"""


@pytest.mark.skipif(find_mpirun().family != "mpich", reason="only MPICH can start without its own mpirun")
@pytest.mark.parametrize("scheme", ["tcp", "file", "stale file"])
def test_ranks_meet_by_tcp_and_by_file(scheme: str, free_port: int, tmp_path: Path) -> None:
    url = f"tcp://127.0.0.1:{free_port}" if scheme == "tcp" else f"file://{tmp_path}/meeting"
    if scheme == "stale file":
        (tmp_path / "meeting").write_text(Address(("127.0.0.1",), free_port, "old").to_json())
    processes = [
        subprocess.Popen([sys.executable, "-c", MEET, str(rank), url], stdout=subprocess.PIPE, text=True)
        for rank in (2, 1, 0)
    ]
    assert [p.communicate(timeout=60)[0] for p in processes] == ["6\n"] * 3
    assert [p.returncode for p in processes] == [0, 0, 0]
    assert not (tmp_path / "meeting").exists()


def test_a_rank_that_does_not_come_to_the_meeting_is_reported(free_port: int) -> None:
    with pytest.raises(qc.CommError, match=r"fewer than 2 ranks came .* within 0.3 s"):
        qc.init(init_method=f"tcp://127.0.0.1:{free_port}", rank=0, world_size=2, timeout=0.3)
    with pytest.raises(qc.CommError, match="no store answered"):
        qc.init(init_method=f"tcp://127.0.0.1:{free_port + 1}", rank=1, world_size=2, timeout=0.3)


def test_world_size_without_an_address_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with pytest.raises(qc.CommError, match="MASTER_ADDR is not"):
        qc.init()


OWN = """
from mpi4py import MPI
import numpy as np, qdist.comm as qc
mine = MPI.COMM_WORLD.Split(MPI.COMM_WORLD.rank % 2)
comm = qc.init(comm=mine)
assert (comm.rank, comm.size) == (mine.rank, mine.size)
assert int(comm.all_reduce(np.array(1))) == mine.size
qc.shutdown()
assert not MPI.Is_finalized()
assert mine.allreduce(1) == mine.size
print("fine")
"""


def test_the_users_communicator_is_used_and_left_alone(run_ranks) -> None:
    done = run_ranks(4, ["-c", OWN])
    assert done.stdout.count("fine") == 4, done.stderr


LARGE = """
import numpy as np, qdist.comm as qc
comm = qc.init(timeout=200)
n = 2**31 + 11
x = np.zeros(n, np.uint8)
x[-1], x[7] = comm.rank + 1, comm.rank
comm.all_reduce(x, "bor", out=x)
assert (x[-1], x[7], x.sum(dtype=np.int64)) == (3, 1, 4)
comm.broadcast(x, 1, out=x)
if comm.rank == 0:
    comm.send(x, 1)
else:
    x[:] = 9
    comm.recv(x, 0)
assert (x[-1], x[7], x[0]) == (3, 1, 0)
del x
row = np.full((2, 2**30 + 1), comm.rank, np.uint8)
got = comm.all_to_all(row)
assert got[0, -1] == 0 and got[1, -1] == 1 and got[1, 0] == 1
print("fine")
"""


@pytest.mark.large
@pytest.mark.thorough
def test_messages_of_more_than_two_to_the_31_elements(run_ranks) -> None:
    free = int(Path("/proc/meminfo").read_text().split("MemAvailable:")[1].split()[0]) / 2**20
    if free < 16:
        pytest.skip(f"needs 16 GiB of free memory, {free:.0f} are")
    done = run_ranks(2, ["-c", LARGE])
    assert done.stdout.count("fine") == 2, done.stderr[-3000:]
