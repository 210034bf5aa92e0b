"""What a script does that torch's launcher starts. `launched.py FOLDER --local-rank=N`, the last by the launcher.

Changed: imports; `torch.cuda.set_device(args.local_rank)` where there is a GPU; device_ids without one.
"""

import argparse
import os

import qdist.interop.torch_distributed.torch as torch

parser = argparse.ArgumentParser()
parser.add_argument("--local-rank", "--local_rank", type=int, default=int(os.environ["LOCAL_RANK"]))
parser.add_argument("folder")
args = parser.parse_args()

device = args.local_rank if torch.cuda.is_available() else "cpu"
if torch.cuda.is_available():
    torch.cuda.set_device(args.local_rank)

torch.distributed.init_process_group(backend="mpi", init_method="env://")

torch.manual_seed(0)
model = torch.nn.Linear(2, 1).to(device)
model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[device], output_device=device)

model(torch.ones(1, 2) * (torch.distributed.get_rank() + 1)).mean().backward()
with open(os.path.join(args.folder, f"rank.{os.environ['RANK']}"), "w") as file:
    file.write(f"{args.local_rank} {torch.distributed.get_world_size()} {model.module.weight.grad.tolist()}")
torch.distributed.destroy_process_group()
