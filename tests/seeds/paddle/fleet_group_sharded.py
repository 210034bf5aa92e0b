"""Sharded data parallel by hand (2.2.4.1.2). Lines that had to change: imports; the group has all ranks."""

import loops
import setting

from qdist.interop import paddle
from qdist.interop.paddle.distributed import fleet, get_world_size
from qdist.interop.paddle.distributed.sharding import group_sharded_parallel


def train_model(level="p_g_os", lazily=False):
    fleet.init(is_collective=True)
    group = paddle.distributed.new_group(list(range(get_world_size())))

    if lazily:  # Only what a rank keeps is ever made; not in the document, which makes the whole model first.
        with paddle.LazyGuard():
            model = setting.SimpleNet(setting.input_size, setting.inner_size, setting.class_dim)
    else:
        model = setting.SimpleNet(setting.input_size, setting.inner_size, setting.class_dim)
    optimizer = setting.optimizer_setting(parameter_list=model.parameters())
    model, optimizer, scaler = group_sharded_parallel(model, optimizer, level=level, group=group)
    assert scaler is None
    losses = loops.eager(model, optimizer, loops.own_batches())
    return losses, setting.weights(model.state_dict())
