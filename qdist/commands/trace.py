"""`qdist trace`: runs a Python program, here or on ranks, and writes a timeline of what it did."""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path
from typing import Any

from qdist.comm.launch import run
from qdist.commands.checks import check_can_be_written
from qdist.tracing.session import trace_program

__all__ = ["add_trace_command"]

_EXAMPLES = """\
examples:
  qdist trace vqe.py --steps 10
  qdist trace --ranks 4 vqe.py --steps 10
  mpirun -n 4 qdist trace --output run.json vqe.py
  python -c "import qdist; qdist.plots.plot_trace('trace.json').savefig('trace.png')"

The file is in Chrome's trace format: open it in ui.perfetto.dev or chrome://tracing. In a program of your own,
`with qdist.trace("run.json"):` does the same for a part of it. Processes that the program starts by itself, as spawn()
does, are traced where they do so.

The exit code is that of the program; with --ranks, as of `qdist run`."""


def add_trace_command(commands: Any) -> None:
    """Adds `trace` to the subparsers of the command line."""
    command = commands.add_parser(
        "trace",
        help="run a Python program and write a timeline of all its ranks",
        description="Runs a Python program and writes what every rank did when: planning, binding, stages, packing, "
        "messages, waits, and kernels on GPUs, with bytes, flops and the share of the roofline. Prints a table of "
        "where the time went, and who waited for whom.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("--ranks", "-n", type=int, metavar="N", help="ranks to start (default: this process alone)")
    command.add_argument("--output", "-o", default="trace.json", metavar="FILE", help="(default trace.json)")
    command.add_argument("script", help="the program, script.py")
    command.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    command.set_defaults(command=_trace)


def _trace(options: argparse.Namespace) -> int:
    script = Path(options.script)
    if not script.is_file():
        raise ValueError(f"{script}: no such file; give a Python program, as in `qdist trace --ranks 4 script.py`")
    check_can_be_written(options.output)
    if options.ranks is not None:
        here = ["-m", "qdist", "trace", "--output", options.output, options.script, *options.arguments]
        return run(["python", *here], options.ranks)
    sys.argv[:] = [options.script, *options.arguments]
    sys.path.insert(0, str(script.absolute().parent))
    try:
        with trace_program(options.output):
            try:
                runpy.run_path(options.script, run_name="__main__")
            except SystemExit as left:
                # The end that a program chose is no error of the trace; one with a code is, as others may not come.
                if left.code not in (None, 0):
                    raise
    except SystemExit as left:
        return _code(left.code)
    except Exception:
        # Not as an error of this command; and on ranks the hook tells the others.
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        return 1
    return 0


def _code(code: Any) -> int:
    if isinstance(code, int):
        return code
    print(code, file=sys.stderr)
    return 1
