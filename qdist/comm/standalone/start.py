"""Starts one rank for `qdist run`: reports to the launcher, redirects output, tells its numbers, becomes the program.

Run by path, not imported: ``start.py PROGRAM``, where PROGRAM is a JSON list of the program and its arguments. Uses the
standard library alone so that it starts at once.
"""

import json
import os
import socket
import sys

# By its path: importing the package would take long.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from handshake import Identity, LineReader, Refused, introduce


def report(address: str, rank: str) -> None:
    """Tells the launcher's store that this rank has started, and where."""
    where = json.loads(address)
    value = json.dumps({"host": socket.gethostname(), "pid": os.getpid()})
    line = json.dumps({"id": 1, "do": "set", "key": f"started/{rank}", "value": value})
    for host in where["hosts"]:
        try:
            with socket.create_connection((host, where["port"]), timeout=5) as connection:
                lines = LineReader(connection)
                introduce(connection, lines, where["token"].encode(), Identity.of_this_process(int(rank)))
                connection.sendall(line.encode() + b"\n")
                lines.read(1024)
                return
        except (OSError, EOFError, Refused):
            continue


# What torch's launcher calls a rank's numbers, and what MPI launchers do.
NUMBERS = {
    "RANK": ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"),
    "WORLD_SIZE": ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE"),
    "LOCAL_RANK": ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"),
    "LOCAL_WORLD_SIZE": ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"),
}


def tell_numbers() -> None:
    """Sets the names of torch's launcher, in the place of values that this process may have inherited.

    Without a launcher of MPI they are there already (local_ranks.py).
    """
    if not any(name in os.environ for name in NUMBERS["RANK"]):
        return
    for name, theirs in NUMBERS.items():
        value = next((os.environ[v] for v in theirs if v in os.environ), None)
        if value is not None:
            os.environ[name] = value


def main() -> None:
    tell_numbers()
    rank = os.environ["RANK"]
    if address := os.environ.pop("QDIST_LAUNCHER", None):
        report(address, rank)
    if output := os.environ.pop("QDIST_OUTPUT", None):
        # A job that was started again goes on behind what tells why.
        begin = os.O_APPEND if os.environ.get("QDIST_RESTART") else os.O_TRUNC
        target = os.open(f"{output}.{rank}", os.O_WRONLY | os.O_CREAT | begin, 0o644)
        os.dup2(target, 1)
        os.dup2(target, 2)
    program = json.loads(sys.argv[1])
    if option := os.environ.pop("QDIST_LOCAL_RANK_OPTION", None):
        # Behind the script's name, before its arguments, where torch's launcher puts it.
        script = next((i for i, word in enumerate(program) if word.endswith(".py")), 0)
        program.insert(script + 1, f"{option}={os.environ['LOCAL_RANK']}")
    os.execvp(program[0], program)


if __name__ == "__main__":
    main()
