"""OpenQASM 2 and 3, read into Circuits and written from them.

Reading is done by a parser of our own. The one kept by the language's authors (`openqasm3` on PyPI, generated
by ANTLR) reads version 3 only, brings the ANTLR runtime along, and needs seconds for a file that is read here
in a tenth of one; Qiskit's fast parser reads version 2 only, and comes with Qiskit. What circuits use of both
languages is a small grammar, and reading it ourselves gives one set of errors, each with its line, column and
remedy.
"""

from .api import dumps, load, loads
from .errors import QasmError

__all__ = ["QasmError", "dumps", "load", "loads"]
