"""torch.distributed's surface over this engine: a program for it runs with its import lines changed.

    torch                                    here
    torch.distributed                        qdist.interop.torch_distributed
    torch.distributed.launch, torchrun       qdist.interop.torch_distributed.launch, qdist run --nproc-per-node
    torch, torch.cuda, torch.multiprocessing qdist.interop.torch_distributed.torch and below it
    torch.nn.parallel, torch.utils.data      the same below that
    torchvision.datasets, transforms         qdist.interop.torch_distributed.datasets, transforms

Collectives write into the tensors that they are given. papers/source_documents.md lists every name, and how it differs.
"""

from . import device_mesh
from .collectives import (
    ReduceOp,
    all_gather,
    all_gather_into_tensor,
    all_reduce,
    all_to_all,
    barrier,
    broadcast,
    gather,
    irecv,
    isend,
    recv,
    reduce,
    reduce_scatter,
    reduce_scatter_tensor,
    scatter,
    send,
)
from .objects import all_gather_object, broadcast_object_list, gather_object, scatter_object_list
from .process_group import (
    Backend,
    GroupMember,
    ProcessGroup,
    destroy_process_group,
    get_backend,
    get_rank,
    get_world_size,
    init_process_group,
    is_available,
    is_initialized,
    is_torchelastic_launched,
    new_group,
)
from .store import FileStore, HashStore, Store, TCPStore
from .work import Future, Work

__all__ = [
    "Backend",
    "FileStore",
    "Future",
    "GroupMember",
    "HashStore",
    "ProcessGroup",
    "ReduceOp",
    "Store",
    "TCPStore",
    "Work",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_to_all",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "destroy_process_group",
    "device_mesh",
    "gather",
    "gather_object",
    "get_backend",
    "get_rank",
    "get_world_size",
    "init_process_group",
    "irecv",
    "is_available",
    "is_initialized",
    "is_torchelastic_launched",
    "isend",
    "new_group",
    "recv",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "scatter_object_list",
    "send",
]
