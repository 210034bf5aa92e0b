"""Nothing hangs: time-outs that name who is missing, and the comparison of what all ranks call.

Its modules are imported one by one: a launcher needs some of them, and no NumPy.
"""

__all__: list[str] = []
