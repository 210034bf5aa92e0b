"""A pipeline by hand (2.2.4.1.4). Lines that had to change: imports; the degrees.

It has four layers, and the document two stages: there are as many stages as ranks up to four, and pipelines side by
side on more ranks.
"""

import loops
import setting

from qdist.interop import paddle
from qdist.interop.paddle.distributed import fleet, get_world_size
from qdist.interop.paddle.distributed.fleet.meta_parallel import LayerDesc, PipelineLayer


class SimpleNet(PipelineLayer):
    def __init__(self, input_size, inner_size, output_size, **kwargs):
        decs = [
            LayerDesc(paddle.nn.Linear, input_size, inner_size),
            LayerDesc(paddle.nn.Linear, inner_size, input_size),
            LayerDesc(paddle.nn.Linear, input_size, output_size),
            LayerDesc(paddle.nn.ReLU),
        ]
        super().__init__(layers=decs, loss_fn=paddle.nn.CrossEntropyLoss(), **kwargs)


def degrees():
    """(pipelines, stages of each)."""
    stages = min(4, get_world_size())
    return get_world_size() // stages, stages


def train_model():
    replicas, stages = degrees()
    dist_strategy = fleet.DistributedStrategy()
    dist_strategy.hybrid_configs = {
        "dp_degree": replicas,
        "mp_degree": 1,
        "pp_degree": stages,
    }
    micro_batch_size = 4
    dist_strategy.pipeline_configs = {
        "accumulate_steps": setting.batch_size // micro_batch_size,
        "micro_batch_size": micro_batch_size,
    }
    fleet.init(is_collective=True, strategy=dist_strategy)

    model = SimpleNet(setting.input_size, setting.inner_size, setting.class_dim, num_stages=stages)
    optimizer = setting.optimizer_setting(parameter_list=model.parameters())
    pipeline = model.pipeline
    model = fleet.distributed_model(model)
    optimizer = fleet.distributed_optimizer(optimizer)

    printed = []
    for _ in range(setting.epoch):
        model.train()

        for data in loops.own_batches()():
            img, label = data
            label.stop_gradient = True
            loss = model.train_batch([img, label], optimizer)
            avg_loss = paddle.mean(x=loss)
            printed.append(float(avg_loss))
    return printed, setting.weights(pipeline.whole_state_dict())
