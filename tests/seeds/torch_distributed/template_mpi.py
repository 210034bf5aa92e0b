"""The template under mpirun: rank and size are MPI's to tell. Changed: imports."""

import qdist.interop.torch_distributed as dist


def run(rank, size):
    """The distributed function."""
    return dist.get_rank(), dist.get_world_size()


def init_process(rank, size, fn, backend="gloo"):
    """Brings the processes together."""
    dist.init_process_group(backend, rank=rank, world_size=size)
    return fn(rank, size)


if __name__ == "__main__":
    found = init_process(0, 0, run, backend="mpi")
