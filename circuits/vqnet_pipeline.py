"""A program for VQNet's pipeline: a CNN on CIFAR-10, with its import lines, device line and data path changed.

    mpirun -n 2 python circuits/vqnet_pipeline.py FOLDER

FOLDER has CIFAR-10's binary version: data_batch_1.bin and so on. The program is the one in VQNet's documentation of
PipelineParallelTrainingWrapper.
"""

# ruff: noqa
# All but what the first lines name is left as it was written for pyvqnet.

import os
import sys

import qdist.interop.vqnet as pyvqnet
from qdist.interop.vqnet.distributed import *
from qdist.interop.vqnet.distributed.configs import comm as dist
from qdist.interop.vqnet.distributed.pp import PipelineParallelTrainingWrapper
from qdist.interop.vqnet.nn import Conv2D, CrossEntropyLoss, Linear, MaxPool2D, Module, Sequential
from qdist.interop.vqnet.nn import activation as F
from qdist.interop.vqnet.tensor import tensor

if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
    sys.exit(__doc__)

pipeline_parallel_size = 2

num_steps = 1000


def cifar_trainset_vqnet(local_rank, dl_path=sys.argv[1]):
    transform = pyvqnet.data.TransformCompose(
        [
            pyvqnet.data.TransformResize(256),
            pyvqnet.data.TransformCenterCrop(224),
            pyvqnet.data.TransformToTensor(),
            pyvqnet.data.TransformNormalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225]),
        ]
    )

    trainset = pyvqnet.data.CIFAR10_Dataset(root=dl_path, mode="train", transform=transform, layout="HWC")

    return trainset


class Model(Module):
    def __init__(self):
        super(Model, self).__init__()
        self.features = Sequential(
            Conv2D(input_channels=3, output_channels=8, kernel_size=(3, 3), stride=(1, 1), padding="same"),
            F.ReLu(),
            MaxPool2D([2, 2], [2, 2]),
            Conv2D(input_channels=8, output_channels=16, kernel_size=(3, 3), stride=(1, 1), padding="same"),
            F.ReLu(),
            MaxPool2D([2, 2], [2, 2]),
            Conv2D(input_channels=16, output_channels=32, kernel_size=(3, 3), stride=(1, 1), padding="same"),
            F.ReLu(),
            Conv2D(input_channels=32, output_channels=64, kernel_size=(3, 3), stride=(1, 1), padding="same"),
            F.ReLu(),
            Conv2D(input_channels=64, output_channels=64, kernel_size=(3, 3), stride=(1, 1), padding="same"),
            F.ReLu(),
            MaxPool2D([3, 3], [2, 2]),
        )

        self.cls = Sequential(Linear(64 * 27 * 27, 512), F.ReLu(), Linear(512, 256), F.ReLu(), Linear(256, 10))

    def forward(self, x):
        x = self.features(x)
        x = tensor.flatten(x, 1)
        x = self.cls(x)

        return x


def join_layers(vision_model):
    layers = [
        *vision_model.features,
        lambda x: tensor.flatten(x, 1),
        *vision_model.cls,
    ]
    return layers


if __name__ == "__main__":
    args = {
        "backend": "mpi",
        "train_batch_size": 64,
        "train_micro_batch_size_per_gpu": 32,
        "epochs": 5,
        "optimizer": {"type": "Adam", "params": {"lr": 0.001}},
        "local_rank": dist.get_local_rank(),
        "pipeline_parallel_size": pipeline_parallel_size,
        "seed": 42,
        "steps": num_steps,
        "loss": CrossEntropyLoss(),
    }
    os.environ["LOCAL_RANK"] = str(dist.get_local_rank())
    trainset = cifar_trainset_vqnet(args["local_rank"])
    w = PipelineParallelTrainingWrapper(args, join_layers(Model()), trainset)

    all_loss = {}

    for i in range(args["epochs"]):
        w.train_batch()

    all_loss = w.loss_dict
