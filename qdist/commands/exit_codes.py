"""What the `qdist` command's exit codes mean."""

from __future__ import annotations

__all__ = ["DONE", "INTERRUPTED", "PIPE_CLOSED", "REFUSED", "TEXT"]

DONE = 0
REFUSED = 2
"""What was asked for cannot be done: argparse gives the same for options that it does not know."""
INTERRUPTED = 130
PIPE_CLOSED = 141
"""128 + SIGPIPE: whoever reads the output has left, as `head` does."""

TEXT = """\
exit codes:
  0        done
  1        `qdist demo`: ranks and one process differ; of any command: an error in qdist itself, with a traceback
  2        refused: a wrong option, value or file, or too little memory; one line on stderr says which and the way out
  75       `qdist run`: the program was asked to stop and has saved its work; start it again
  130      interrupted by Ctrl-C
  141      the reader of the output has left
  others   `qdist run` and `qdist trace`: that of the program, or 128 + N where signal N ended it (see `run --help`)"""
