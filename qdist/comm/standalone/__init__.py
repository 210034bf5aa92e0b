"""The standard library alone: scripts that are run by path, where importing qdist would take long, and what they share.

start.py begins a rank, keeper.py runs a launcher and ends what it leaves, pmi.py is a process manager. They import each
other by bare names, as scripts of one folder do.
"""

from pathlib import Path

__all__ = ["FOLDER"]

FOLDER = Path(__file__).parent
