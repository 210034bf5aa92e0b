"""What ranks say to each other: arrays, reductions and small Python values, checked, and the record of each call.

Its modules are imported one by one: a launcher needs some of them, and no NumPy.
"""

__all__: list[str] = []
