"""Model parallel by hand (2.2.4.1.3). Lines that had to change: imports; mp_degree is the number of ranks."""

import loops
import setting

from qdist.interop import paddle
from qdist.interop.paddle.distributed import fleet, get_world_size
from qdist.parallel import whole_state_dict


class SimpleNet(paddle.nn.Layer):
    def __init__(self, input_size, inner_size, output_size):
        super().__init__()
        self.linear1 = fleet.meta_parallel.ColumnParallelLinear(
            input_size, inner_size, gather_output=False, has_bias=True
        )
        self.linear2 = fleet.meta_parallel.RowParallelLinear(
            inner_size, input_size, input_is_parallel=True, has_bias=True
        )
        self.linear3 = paddle.nn.Linear(input_size, output_size)
        self.relu = paddle.nn.ReLU()

    def forward(self, x):
        x = self.linear1(x)
        x = self.linear2(x)
        x = self.linear3(x)
        x = self.relu(x)
        return x


def train_model():
    dist_strategy = fleet.DistributedStrategy()
    dist_strategy.hybrid_configs = {
        "dp_degree": 1,
        "mp_degree": get_world_size(),
        "pp_degree": 1,
    }
    fleet.init(is_collective=True, strategy=dist_strategy)

    model = SimpleNet(setting.input_size, setting.inner_size, setting.class_dim)
    optimizer = setting.optimizer_setting(parameter_list=model.parameters())
    model = fleet.distributed_model(model)
    optimizer = fleet.distributed_optimizer(optimizer)
    losses = loops.eager(model, optimizer, loops.own_batches())
    return losses, setting.weights(whole_state_dict(model))
