"""`qdist demo`: what the machine has, one variational training alone and on ranks, its plan, and its speed."""

from qdist.demo.command import add_demo_command

__all__ = ["add_demo_command"]
