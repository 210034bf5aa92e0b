"""DDP with a sampler, a buffer and device_ids. `distributed_data_parallel.py --local_rank=N`, by torch's launcher.

Changed: imports; `torch.cuda.set_device`, the backend and the devices, DEVICE where the notes write local_rank: that
GPU, or the CPU; the checkpoint's folder. The progress bar is a plain range, and random numbers have a seed, so that all
ranks have the same data.
"""

import argparse
import os
import sys

import qdist.interop.torch_distributed as dist
import qdist.interop.torch_distributed.torch as torch
import qdist.interop.torch_distributed.torch.nn as nn
from qdist.interop.torch_distributed.torch.nn.parallel import DistributedDataParallel as DDP
from qdist.interop.torch_distributed.torch.utils.data import DataLoader, Dataset

folder = sys.argv.pop(1)
torch.manual_seed(0)


class SimpleModel(nn.Module):
    def __init__(self, input_dim):
        super().__init__()
        self.fc = nn.Linear(input_dim, 1)
        cnt = torch.tensor(0)
        self.register_buffer("cnt", cnt)

    def forward(self, x):
        self.cnt += 1
        return torch.sigmoid(self.fc(x))


class SimpleDataset(Dataset):
    def __init__(self, data, target):
        self.data = data
        self.target = target

    def __len__(self):
        return len(self.data)

    def __getitem__(self, idx):
        return self.data[idx], self.target[idx]


parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", default=-1, type=int)
FLAGS = parser.parse_args()
local_rank = FLAGS.local_rank
BACKEND = "nccl" if torch.cuda.is_available() else "mpi"
DEVICE = f"cuda:{local_rank}" if torch.cuda.is_available() else "cpu"

if torch.cuda.is_available():
    torch.cuda.set_device(local_rank)
dist.init_process_group(backend=BACKEND)

n_sample = 100
n_dim = 10
batch_size = 25
X = torch.randn(n_sample, n_dim)
Y = torch.randint(0, 2, (n_sample,)).float()

dataset = SimpleDataset(X, Y)
sampler = torch.utils.data.distributed.DistributedSampler(dataset)
data_loader = DataLoader(dataset, batch_size=batch_size, sampler=sampler)

model = SimpleModel(n_dim).to(DEVICE)
ckpt_path = None
if dist.get_rank() == 0 and ckpt_path is not None:
    model.load_state_dict(torch.load(ckpt_path))

model = DDP(model, device_ids=[DEVICE], output_device=DEVICE)

optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
loss_func = nn.BCELoss().to(DEVICE)

model.train()
num_epoch = 100
iterator = range(100)
for epoch in iterator:
    data_loader.sampler.set_epoch(epoch)
    for data, label in data_loader:
        data, label = data.to(DEVICE), label.to(DEVICE)
        optimizer.zero_grad()
        prediction = model(data)
        loss = loss_func(prediction, label.unsqueeze(1))
        loss.backward()
        desc = "loss = %0.3f" % loss  # noqa: UP031
        optimizer.step()

    if dist.get_rank() == 0 and epoch == num_epoch - 1:
        torch.save(model.module.state_dict(), os.path.join(folder, "%d.ckpt" % epoch))  # noqa: UP031
