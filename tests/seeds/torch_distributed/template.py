"""The template: processes that a script starts itself, with backend gloo. `python template.py FOLDER`.

Changed: imports. `run`, which the document leaves empty, notes what it was given.
"""

import os
import sys

import qdist.interop.torch_distributed as dist
import qdist.interop.torch_distributed.torch.multiprocessing as mp


def run(rank, size):
    """The distributed function."""
    with open(os.path.join(sys.argv[1], f"rank.{rank}"), "w") as file:
        file.write(f"{rank} {size} {dist.get_rank()} {dist.get_world_size()} {dist.get_backend()}")


def init_process(rank, size, fn, backend="gloo"):
    """Brings the processes together."""
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = os.environ.get("FREE_PORT", "29500")
    dist.init_process_group(backend, rank=rank, world_size=size)
    fn(rank, size)


if __name__ == "__main__":
    world_size = 2
    processes = []
    mp.set_start_method("spawn")
    for rank in range(world_size):
        p = mp.Process(target=init_process, args=(rank, world_size, run))
        p.start()
        processes.append(p)

    for p in processes:
        p.join()
