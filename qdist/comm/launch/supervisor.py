"""`qdist run`: starts a program on many ranks, sees that all of them start, and says which one failed first."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from qdist.comm import standalone
from qdist.comm.errors import CommError
from qdist.comm.guard.endings import FAILED, FOLDER, JOINED, LEFT, REQUEUE, SAVES, ended_before, read_endings
from qdist.comm.guard.naming import ranks_text
from qdist.comm.launch.command import check_output, environment_of_ranks, mpirun_command, with_python
from qdist.comm.launch.exit_codes import KILLED, exit_code_of, job_code
from qdist.comm.launch.hosts import Host, check_hosts, check_reachable, host_of_rank, other_machines, widened
from qdist.comm.launch.job import GRACE, Job, Signalled
from qdist.comm.launch.restarts import Restarts, note_reason
from qdist.comm.store.server import StoreServer
from qdist.comm.transports.libmpi import find_mpirun

__all__ = ["START_TIMEOUT", "run"]

START_TIMEOUT = 30.0
"""Seconds for all ranks to start, where nothing else is said."""
_LONGEST = 1e9
"""Seconds that every timer takes."""

_SIGNALLED = {128 + number for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}


def run(
    program: Sequence[str],
    ranks: int | None = None,
    *,
    hosts: Sequence[Host] = (),
    output: str | None = None,
    verbose: bool = False,
    start_timeout: float = START_TIMEOUT,
    mpi: str = "auto",
    master: tuple[str | None, int | None] = (None, None),
    local_rank_option: str = "",
    restarts: Restarts | None = None,
    grace: float = GRACE,
) -> int:
    """Runs ``program`` on ``ranks`` ranks (default: one a slot of ``hosts``, else one) and returns its exit code.

    hosts: where, and how many on each; default this machine. More ranks than that are shared out among them, and a note
    says how. output: rank r writes to file ``output.r`` instead of
    here. verbose: show what is done, and first check that the hosts can be reached and talk to each other.
    start_timeout: seconds within which all ranks must have started. mpi: see ``find_mpirun``. local_rank_option: an
    option of the program, such as ``--local-rank``, that tells a rank its number on its host.

    Each rank finds RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE in its environment, and ``master`` as MASTER_ADDR
    and MASTER_PORT: the first host and a port that is free here, where not given.

    However it ends, no process of the job is left. After Ctrl-C, SIGTERM or SIGHUP the exit code is 128 + the signal's
    number, and so it is where a signal ends the rank that fails first; it is 1 where that rank ends with code 0 without
    leaving the job. But where Linux before 6.15 does not tell how a rank ended, or it was on another host, the code is
    the launcher's: of MPICH's the bare number of the signal, mixed with those of others. Raises ValueError for
    wrong arguments and CommError when the ranks cannot be started.

    Where ranks save their work when they are told to end (qdist.training), SIGTERM and SIGUSR1 are handed on to them,
    and the exit code is theirs: 75, for a scheduler to start the job again. grace: seconds that they have for it; then,
    or at a second signal, they are ended within ten more.

    restarts: whether a job that fails is started again; see there.
    """
    if restarts is not None:
        given: dict[str, Any] = {
            "output": output,
            "verbose": verbose,
            "start_timeout": start_timeout,
            "mpi": mpi,
            "master": master,
        }
        given |= {"local_rank_option": local_rank_option, "grace": grace}
        return restarts.run(lambda n, h: run(program, n, hosts=h, **given), ranks, check_hosts(hosts))
    for option, seconds in (("--grace", grace), ("--start-timeout", start_timeout)):
        if not 0 < seconds <= _LONGEST:
            raise ValueError(f"{option} {seconds:g}: more than 0 and at most {_LONGEST:g} seconds")
    hosts = check_hosts(hosts)
    slots = sum(n for _, n in hosts)
    ranks = ranks if ranks is not None else max(1, slots)
    if ranks < 1:
        raise ValueError(f"-n {ranks}: at least one rank")
    check_output(output)
    program = with_python(program)
    if hosts and ranks > slots:
        hosts = widened(hosts, ranks)
        taken = ", ".join(f"{name} takes {n}" for name, n in hosts)
        print(f"qdist run: note: {ranks} ranks on hosts with {slots} slots: {taken}", file=sys.stderr)
    launcher = find_mpirun(mpi)
    command = [*mpirun_command(launcher, ranks, hosts), sys.executable, "-S", str(standalone.FOLDER / "start.py")]
    environ = environment_of_ranks(ranks, hosts, output) | _master(master, hosts)
    environ["QDIST_LOCAL_RANK_OPTION"] = local_rank_option
    if verbose:
        print(
            f"qdist run: {launcher.path} ({launcher.family} {launcher.version}), {ranks} ranks",
            file=sys.stderr,
        )
        check_reachable(hosts, start_timeout)
        check = [*command, json.dumps([sys.executable, "-m", "qdist.comm.launch.link_check"])]
        plain = {"QDIST_OUTPUT": "", "QDIST_LOCAL_RANK_OPTION": ""}
        code = _supervise(check, environ | plain, ranks, hosts, start_timeout, verbose)
        if code in _SIGNALLED:
            return code
        if code != 0:
            raise CommError(f"the ranks cannot talk to each other: the check ended with code {code}")
        print(f"qdist run: {' '.join([*command, *program])}", file=sys.stderr)
    # As one word: mpirun would take a ':' among the program's arguments for the beginning of another program.
    return _supervise([*command, json.dumps(program)], environ, ranks, hosts, start_timeout, verbose, grace)


def _master(given: tuple[str | None, int | None], hosts: Sequence[Host]) -> dict[str, str]:
    """MASTER_ADDR and MASTER_PORT."""
    first = hosts[0][0] if other_machines(hosts) else "127.0.0.1"
    return {"MASTER_ADDR": given[0] or first, "MASTER_PORT": str(_free_port() if given[1] is None else given[1])}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def _supervise(
    command: Sequence[str],
    environ: dict[str, str],
    ranks: int,
    hosts: Sequence[Host],
    start_timeout: float,
    verbose: bool,
    grace: float = GRACE,
) -> int:
    """Runs the launcher's command; sees that all ranks start, and says which rank broke off."""
    # Only ranks of other machines must reach the store from there. Its token comes to them in their environment.
    server = StoreServer("" if other_machines(hosts) else "127.0.0.1")
    watched: dict[int, int] = {}
    server.call_when_set(lambda key, value: _watch(watched, key, value))
    environ = os.environ | environ | {"QDIST_LAUNCHER": server.address.to_json()}
    endings = TemporaryDirectory(prefix="qdist-run-")
    environ[FOLDER] = endings.name
    try:
        with Job(command, environ, endings.name) as job:
            started = _await_start(job, server, ranks, hosts, start_timeout)
            if verbose:
                for rank, where in sorted(started.items()):
                    print(f"qdist run: rank {rank} on {where['host']}, pid {where['pid']}", file=sys.stderr)
            here = {r: w["pid"] for r, w in started.items() if w["host"] == os.uname().nodename}
            job.hand_on(lambda: _saving(Path(endings.name), here), grace)
            order, codes = _order_of_ends(here, job.pid, watched)
            code = job.wait()
            if job.handed_on and code != REQUEUE:
                return 128 + job.handed_on
        broken = _first_to_fail(order, codes, Path(endings.name))
        first = next(iter(broken)) if len(broken) == 1 else None
        silent = first is not None and codes.get(first) == 0
        if silent and any(codes.values()):
            code = 1  # MPICH's launcher ends the others and gives 0, or 9, which it ends them with.
        elif code != 0:
            code = job_code(code, [codes[rank] for rank in sorted(broken) if rank in codes])
        note_reason(f"exit code {code}" if first is None else f"rank {first} was the first to fail, exit code {code}")
        if code != 0 and (missing := _missing(_started(server), ranks, hosts)):
            print(
                f"qdist run: mpirun ended with code {code} before all ranks had started; {missing}. "
                "--verbose checks how each host can be reached.",
                file=sys.stderr,
            )
        elif code != 0 and first is not None:
            where = started[first]
            # Only this host's processes can be watched: one elsewhere may have ended before.
            among = "" if len(here) == ranks else " on this host"
            earlier = ended_before(Path(endings.name), first)
            after = f", after {ranks_text(earlier)} had ended its program" if earlier else ""
            how = ": it ended with exit code 0 without leaving the job, as by os._exit(0)" if silent else ""
            print(
                f"qdist run: rank {first} (pid {where['pid']} on {where['host']}) was the first to fail{among}{after}"
                f"{how}; the job's exit code is {code}",
                file=sys.stderr,
            )
        return code
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except Signalled as signalled:
        return 128 + signalled.number
    finally:
        server.close()
        endings.cleanup()
        for descriptor in watched.values():
            os.close(descriptor)


def _saving(endings: Path, pids: dict[int, int]) -> list[int]:
    """The processes of this machine that save their work when they are told to end."""
    return [pids[rank] for rank in read_endings(endings, SAVES) if rank in pids]


def _watch(watched: dict[int, int], key: str, value: str) -> None:
    """Opens the process of this machine that says that it is a rank: it may end before anybody looks."""
    kind, _, rank = key.partition("/")
    try:
        where = json.loads(value) if kind == "started" else {}
        if where.get("host") == os.uname().nodename and int(rank) not in watched:
            watched[int(rank)] = os.pidfd_open(where["pid"])
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return


def _order_of_ends(
    pids: dict[int, int], job: int, watched: dict[int, int] | None = None
) -> tuple[list[set[int]], dict[int, int]]:
    """Waits until a job ends, watching these processes of this machine; returns the ranks in the order in which their
    processes ended, together where it cannot be seen which came first, and those exit codes of theirs that can be
    known. Nothing where that cannot be watched.

    job: the process with which the waiting ends. watched: pidfds of ranks that are open already, and stay so.
    """
    poller = select.poll()
    watched = watched or {}
    rank_of: dict[int, int | None] = {}
    gone: set[int] = set()
    try:
        for rank, pid in [*pids.items(), (None, job)]:
            try:
                descriptor = os.dup(watched[rank]) if rank in watched else os.pidfd_open(pid)
            except ProcessLookupError:
                if rank is None:
                    # The job has ended before anybody looked, and with it all its ranks.
                    return [set(pids)], _known_codes(rank_of)
                gone.add(rank)
                continue
            rank_of[descriptor] = rank
            poller.register(descriptor, select.POLLIN)
        order = [gone] if gone else []
        while True:
            ended = [descriptor for descriptor, _ in poller.poll()]
            order.append({rank for descriptor in ended if (rank := rank_of[descriptor]) is not None})
            if any(rank_of[descriptor] is None for descriptor in ended):
                # Only now: a code is known once the launcher has waited for the process.
                return order, _known_codes(rank_of)
            for descriptor in ended:
                poller.unregister(descriptor)
    except OSError:
        return [], {}
    finally:
        for descriptor in rank_of:
            os.close(descriptor)


def _known_codes(rank_of: dict[int, int | None]) -> dict[int, int]:
    """The exit codes of ranks, by their pidfds, that can be known."""
    found = {rank: exit_code_of(descriptor) for descriptor, rank in rank_of.items() if rank is not None}
    return {rank: code for rank, code in found.items() if code is not None}


def _first_to_fail(order: list[set[int]], codes: dict[int, int], endings: Path) -> set[int]:
    """The rank that broke off a job; several where it cannot be seen which of them, none where nothing can be.

    A rank that has told of its failure is it, whichever process ended first: the launcher ends the others on its
    behalf, maybe before itself. Else it is the first to end, of those that had not come to their end: exit code 0 is
    that of a rank that had nothing to do with others, and of one that has joined them only if it has left.
    """
    failed, joined, left = (read_endings(endings, how) for how in (FAILED, JOINED, LEFT))
    if failed:
        return {failed[0]}
    well = {*left, *(rank for rank, code in codes.items() if code == 0 and rank not in joined)}
    broken = next((broken for ended in order if (broken := ended - well)), set())
    silent = {rank for rank, code in codes.items() if code == 0 and rank not in well}
    # The launcher kills the others, maybe before anybody looks, and before the last thread of the silent one has ended.
    return silent if silent and all(codes.get(rank) in KILLED for rank in broken - silent) else broken


def _await_start(
    job: Job, server: StoreServer, ranks: int, hosts: Sequence[Host], timeout: float
) -> dict[int, dict[str, Any]]:
    end = time.monotonic() + timeout
    pause = 0.01
    while True:
        started = _started(server)
        if len(started) == ranks or job.poll() is not None:
            return started
        if time.monotonic() > end:
            raise CommError(
                f"{len(started)} of {ranks} ranks started within {timeout:g} s; {_missing(started, ranks, hosts)}. "
                "Check that their hosts can be reached (--verbose), or allow more with --start-timeout."
            )
        time.sleep(pause)
        pause = min(0.1, pause * 1.5)


def _started(server: StoreServer) -> dict[int, dict[str, Any]]:
    """Where ranks have started: what start.py has reported so far."""
    return {int(k.partition("/")[2]): json.loads(v) for k, v in server.snapshot("started/").items()}


def _missing(started: dict[int, dict[str, Any]], ranks: int, hosts: Sequence[Host]) -> str:
    """Which ranks have not started, and on which hosts they should have; empty if all have."""
    missing = [rank for rank in range(ranks) if rank not in started]
    silent = dict.fromkeys(host for rank in missing if (host := host_of_rank(hosts, rank)) is not None)
    where = f" on {', '.join(silent)}" if silent else ""
    return f"missing are ranks {missing}{where}" if missing else ""
