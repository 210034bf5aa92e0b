"""How processes become ranks of one job: init(), what launchers tell, and the rendezvous of those that none started.

Its modules are imported one by one: a launcher needs some of them, and no NumPy.
"""

__all__: list[str] = []
