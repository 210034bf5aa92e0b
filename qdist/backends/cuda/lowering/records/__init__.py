"""The records that the tables of a GPU program are made of, and those that its kernels take by value.

Words of the fields: a tile's index has *register* bits, which number a thread's own amplitudes, and *thread* bits,
which number the threads. *far* are the bits of the state's index that lie outside of the tile. A *place* is the number
of an amplitude in shared memory; a *column* is what a bit of an index adds to a place by XOR. A *condition* on the
thread is mask | value << 16 of its number; on far bits it is a mask and a value. A *register mask* has a bit for each
of a thread's amplitudes: whether it takes part. A *turn* is a phase angle as a fraction of 2 pi, in fixed point.
"""

__all__: list[str] = []
