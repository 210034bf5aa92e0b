"""The `qdist` command."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence

from qdist import __version__
from qdist.comm.errors import CommError
from qdist.commands import exit_codes
from qdist.run_command import add_run_command

__all__ = ["main", "parser"]

_EXAMPLES = """\
examples:
  qdist demo                                                what it does, in a minute
  qdist info                                                what this machine has
  qdist simulate bell.qasm --shots 1000                     run an OpenQASM program
  qdist simulate ansatz.qasm --param theta=0.3 --observable "Z0 Z1" --ranks 4
  qdist run -n 4 train.py --epochs 3                        a Python program on ranks
  qdist trace --ranks 4 train.py                            the same, and where its time goes
  qdist plan ansatz.qasm --ranks 1024 --html plan.html      how it would run on a cluster
  eval "$(qdist completion bash)"                           complete commands with the tab key

QDIST_LOG=info, or debug, has every command and program tell on stderr what it does."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code, which ``qdist.commands.exit_codes`` explains."""
    _fill_closed_streams()
    given = sys.argv[1:] if arguments is None else arguments
    options = parser(*given[:1]).parse_args(_with_minus(given))
    try:
        code = options.command(options)
        if sys.stdout is not None:  # None where the shell has closed it: `qdist info >&-`.
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        # What Python writes at its end goes nowhere, instead of raising once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exit_codes.PIPE_CLOSED
    except KeyboardInterrupt:
        return exit_codes.INTERRUPTED
    except (CommError, OSError, MemoryError, ValueError) as error:
        print(f"qdist {options.name}: {_one_line(error)}", file=sys.stderr)
        return exit_codes.REFUSED


def _fill_closed_streams() -> None:
    """Descriptors 0 to 2 that the shell has closed become /dev/null: a file or a socket that is opened later would get
    such a number, and a launcher that is started would take it for its stdout."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


def _with_minus(given: Sequence[str]) -> list[str]:
    """The words with an observable that begins with a minus as one word with its option: argparse takes ``-Z0`` for
    another option."""
    words = list(given)
    if words[:1] == ["simulate"]:
        for at in reversed(range(1, len(words) - 1)):
            if words[at] == "--observable" and re.match(r"-\s*[0-9.IXYZ]", words[at + 1]):
                words[at : at + 2] = [f"--observable={words[at + 1]}"]
    return words


def _one_line(error: Exception) -> str:
    """What an error says; for an OpenQASM program the file, line and column without the excerpt below them."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    from qdist.circuit.qasm.errors import QasmError

    return str(error).split("\n", 1)[0] if isinstance(error, QasmError) else str(error)


def parser(first: str = "") -> argparse.ArgumentParser:
    """The command line: all commands with their options. Where the first word is `run`, that one alone: a launcher
    starts without what simulates and draws."""
    made = argparse.ArgumentParser(
        prog="qdist",
        description="Distributed quantum-circuit simulation and training.",
        epilog=f"{_EXAMPLES}\n\n{exit_codes.TEXT}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--version", action="version", version=f"qdist {__version__}")
    commands = made.add_subparsers(dest="name", required=True, metavar="command")
    if first == "run":
        add_run_command(commands)
        return made
    from qdist.commands.completion import add_completion_command
    from qdist.commands.simulate import add_simulate_command
    from qdist.commands.trace import add_trace_command
    from qdist.demo import add_demo_command
    from qdist.plan_command import add_plan_command

    add_demo_command(commands)
    add_run_command(commands)
    add_simulate_command(commands)
    add_trace_command(commands)
    add_plan_command(commands)
    info = commands.add_parser(
        "info",
        help="print what this machine has and what is missing",
        epilog="Example: `qdist info`. Ends with 0 whatever is missing.",
    )
    info.set_defaults(command=_info)
    add_completion_command(commands, parser)
    return made


def _info(options: argparse.Namespace) -> int:
    from qdist.info import report

    print(report())
    return exit_codes.DONE
