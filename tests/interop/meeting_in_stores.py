"""Processes that meet in a store: ``meeting_in_stores.py FOLDER PORT``; run by test_torch_distributed.py."""

import sys
from datetime import timedelta
from pathlib import Path

import qdist.interop.torch_distributed as dist
import qdist.interop.torch_distributed.torch as torch
from qdist.interop.torch_distributed.torch import multiprocessing as mp


def run(rank: int, kind: str, folder: str, port: int) -> None:
    if kind == "tcp":
        store = dist.TCPStore("127.0.0.1", port, 2, is_master=rank == 0, timeout=timedelta(seconds=60))
    else:
        store = dist.FileStore(f"{folder}/store", 2)
    dist.init_process_group("mpi", store=store, rank=rank, world_size=2, timeout=timedelta(seconds=60))
    tensor = torch.ones(2) * (rank + 1)
    dist.all_reduce(tensor)
    store.set(f"from {rank}", f"{tensor.tolist()}")
    other = store.get(f"from {1 - rank}").decode()
    # Additions are made one after the other: each process gets another sum.
    (Path(folder) / f"{kind}.{rank}").write_text(f"{other} {store.num_keys()} {store.add('count', 1)}")
    dist.barrier()
    dist.destroy_process_group()


def fail(rank: int) -> None:
    if rank == 1:
        sys.exit(3)
    mp.get_context("spawn").Event().wait(60)


if __name__ == "__main__":
    for kind in ("tcp", "file"):
        mp.spawn(run, (kind, sys.argv[1], int(sys.argv[2])), nprocs=2)
    try:
        mp.spawn(fail, nprocs=2)
    except RuntimeError as error:
        (Path(sys.argv[1]) / "error").write_text(str(error))
