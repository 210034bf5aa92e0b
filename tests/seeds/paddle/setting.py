"""What all programs of the document have in common, with small sizes and data that every run has again.

Lines that had to change here: imports; the sizes of the network; the items of the dataset, which follow from their
number instead of being drawn anew.
"""

import numpy as np

from qdist.interop import paddle
from qdist.interop.paddle.io import Dataset

base_lr = 0.1
momentum_rate = 0.9
l2_decay = 1e-4

epoch = 2
batch_num = 8
batch_size = 8
class_dim = 10
input_size, inner_size = 16, 32


class RandomDataset(Dataset):
    def __init__(self, num_samples):
        self.num_samples = num_samples

    def __getitem__(self, idx):
        rng = np.random.default_rng(idx)
        image = rng.normal(size=[input_size]).astype(paddle.get_default_dtype())
        label = rng.integers(0, class_dim - 1, (1,)).astype("int64")
        return image, label

    def __len__(self):
        return self.num_samples


def optimizer_setting(parameter_list=None):
    return paddle.optimizer.Momentum(
        learning_rate=base_lr,
        momentum=momentum_rate,
        weight_decay=paddle.regularizer.L2Decay(l2_decay),
        parameters=parameter_list,
    )


class SimpleNet(paddle.nn.Layer):
    def __init__(self, input_size, inner_size, output_size):
        super().__init__()
        self.linear1 = paddle.nn.Linear(input_size, inner_size)
        self.linear2 = paddle.nn.Linear(inner_size, input_size)
        self.linear3 = paddle.nn.Linear(input_size, output_size)
        self.relu = paddle.nn.ReLU()

    def forward(self, x):
        x = self.linear1(x)
        x = self.linear2(x)
        x = self.linear3(x)
        x = self.relu(x)
        return x


def weights(state):
    """Weights and biases of the three layers, as arrays, from a state dict."""
    return [np.asarray(value) for value in state.values()]
