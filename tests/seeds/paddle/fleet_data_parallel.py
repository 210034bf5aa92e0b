"""Data parallel by hand (2.2.4.1.1). Lines that had to change: imports; dp_degree is the number of ranks."""

import loops
import setting

from qdist.interop.paddle.distributed import fleet, get_world_size


def train_model():
    dist_strategy = fleet.DistributedStrategy()
    dist_strategy.hybrid_configs = {
        "dp_degree": get_world_size(),
        "mp_degree": 1,
        "pp_degree": 1,
    }
    fleet.init(is_collective=True, strategy=dist_strategy)

    model = setting.SimpleNet(setting.input_size, setting.inner_size, setting.class_dim)
    optimizer = setting.optimizer_setting(parameter_list=model.parameters())
    model = fleet.distributed_model(model)
    optimizer = fleet.distributed_optimizer(optimizer)
    losses = loops.eager(model, optimizer, loops.own_batches())
    return losses, setting.weights(model.state_dict())
