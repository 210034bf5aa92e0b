"""The annotated networks of the semi-automatic programs (2.2.4.2, 2.2.4.3). Changed: imports; meshes of all ranks."""

import numpy as np
import setting

from qdist.interop import paddle
from qdist.interop.paddle.distributed import ProcessMesh, Shard, get_world_size, shard_op, shard_tensor


class DataParallelNet(setting.SimpleNet):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.mesh = ProcessMesh(list(range(get_world_size())), dim_names=["dp"])

    def forward(self, x):
        x = shard_tensor(x, self.mesh, [Shard(0)])
        x = self.linear1(x)
        x = self.linear2(x)
        x = self.linear3(x)
        x = self.relu(x)
        return x


class ModelParallelNet(setting.SimpleNet):
    names = False
    """Whether placements are written as Engine programs write them, by names of axes."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.mesh = ProcessMesh(list(range(get_world_size())), dim_names=["mp"])

    def forward(self, x):
        shard_tensor(self.linear1.weight, self.mesh, [None, "mp"] if self.names else [Shard(1)])
        shard_tensor(self.linear1.bias, self.mesh, ["mp"] if self.names else [Shard(0)])
        shard_tensor(self.linear2.weight, self.mesh, ["mp", None] if self.names else [Shard(0)])
        x = self.linear1(x)
        x = self.linear2(x)
        x_dims_mapping = [None, None]
        w_dims_mapping = [None, None]
        matmul = shard_op(paddle.matmul, self.mesh, [x_dims_mapping, w_dims_mapping])
        x = matmul(x, self.linear3.weight) + self.linear3.bias
        x = self.relu(x)
        return x


class NamedModelParallelNet(ModelParallelNet):
    names = True


class PipelineNet(setting.SimpleNet):
    """Two stages, each on half of the ranks; on one rank both are there."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        ranks = np.arange(get_world_size())
        if len(ranks) > 2:
            self.mesh = ProcessMesh(ranks.reshape(2, -1), dim_names=["pp", "mp"])
        else:
            self.mesh = ProcessMesh(ranks, dim_names=["pp"])

    def forward(self, x):
        x = shard_op(self.linear1, self.mesh[0])(x)
        x = self.linear2(x)
        x = shard_op(self.linear3, self.mesh[self.mesh.shape[0] - 1])(x)
        x = self.relu(x)
        return x
