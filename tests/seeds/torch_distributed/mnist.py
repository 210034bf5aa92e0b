"""Synchronous SGD on MNIST, with gradients averaged by hand, and the document's own ring all-reduce.

Changed: imports; the data's path (`root`); the network, which the document takes from elsewhere, is given.
"""

from math import ceil
from random import Random

import qdist.interop.torch_distributed as dist
import qdist.interop.torch_distributed.torch as torch
import qdist.interop.torch_distributed.torch.nn as nn
from qdist import optim
from qdist.interop.torch_distributed import datasets, transforms
from qdist.tensor import functional as F


class Partition:
    """Some items of a dataset."""

    def __init__(self, data, index):
        self.data = data
        self.index = index

    def __len__(self):
        return len(self.index)

    def __getitem__(self, index):
        data_idx = self.index[index]
        return self.data[data_idx]


class DataPartitioner:
    """Divides a dataset at random."""

    def __init__(self, data, sizes=(0.7, 0.2, 0.1), seed=1234):
        self.data = data
        self.partitions = []
        rng = Random()
        rng.seed(seed)
        data_len = len(data)
        indexes = list(range(data_len))
        rng.shuffle(indexes)

        for frac in sizes:
            part_len = int(frac * data_len)
            self.partitions.append(indexes[0:part_len])
            indexes = indexes[part_len:]

    def use(self, partition):
        return Partition(self.data, self.partitions[partition])


def partition_dataset(root):
    """This rank's part of MNIST, in batches that make 128 rows together."""
    dataset = datasets.MNIST(
        root,
        train=True,
        download=True,
        transform=transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))]),
    )
    size = dist.get_world_size()
    bsz = 128 // size
    partition_sizes = [1.0 / size for _ in range(size)]
    partition = DataPartitioner(dataset, partition_sizes)
    partition = partition.use(dist.get_rank())
    train_set = torch.utils.data.DataLoader(partition, batch_size=bsz, shuffle=True)
    return train_set, bsz


class Net(nn.Module):
    """A small convolutional network."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, kernel_size=5)
        self.fc = nn.Linear(4 * 6 * 6, 10)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv(x), 4))
        return F.log_softmax(self.fc(x.flatten(1)), 1)


def average_gradients(model):
    """The mean over all ranks of every gradient."""
    size = float(dist.get_world_size())
    for param in model.parameters():
        dist.all_reduce(param.grad.data, op=dist.ReduceOp.SUM)
        param.grad.data /= size


def allreduce(send, recv):
    """Adds along a ring, by messages."""
    rank = dist.get_rank()
    size = dist.get_world_size()
    send_buff = send.clone()
    recv_buff = send.clone()
    accum = send.clone()

    left = ((rank - 1) + size) % size
    right = (rank + 1) % size

    for i in range(size - 1):
        if i % 2 == 0:
            # Send send_buff
            send_req = dist.isend(send_buff, right)
            dist.recv(recv_buff, left)
            accum[:] += recv_buff[:]
        else:
            # Send recv_buff
            send_req = dist.isend(recv_buff, right)
            dist.recv(send_buff, left)
            accum[:] += send_buff[:]
        send_req.wait()
    recv[:] = accum[:]


def average_gradients_by_ring(model):
    """As average_gradients, by the function above."""
    size = float(dist.get_world_size())
    for param in model.parameters():
        total = torch.tensor(param.grad)
        allreduce(param.grad, total)
        param.grad = total / size


def run(rank, size, root, average=average_gradients, epochs=10):
    """Trains; gives the losses and the model."""
    torch.manual_seed(1234)
    train_set, bsz = partition_dataset(root)
    model = Net()
    optimizer = optim.SGD(model.parameters(), lr=0.01, momentum=0.5)

    num_batches = ceil(len(train_set.dataset) / float(bsz))
    losses = []
    for epoch in range(epochs):
        epoch_loss = 0.0
        for data, target in train_set:
            optimizer.zero_grad()
            output = model(data)
            loss = F.nll_loss(output, target)
            epoch_loss += loss.item()
            loss.backward()
            average(model)
            optimizer.step()
        print("Rank ", dist.get_rank(), ", epoch ", epoch, ": ", epoch_loss / num_batches)
        losses.append(epoch_loss / num_batches)
    return losses, model
