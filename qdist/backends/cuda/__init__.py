"""The GPU's half of the machine: tile kernels compiled at run time, and the tables that they interpret.

Importing this package needs neither CuPy nor a GPU; running its kernels needs both.
"""

__all__: list[str] = []
