"""Static graphs of an Engine (2.2.4.3.1 to 2.2.4.3.4). Lines that had to change: imports; degrees are all ranks."""

import dynamic_nets
import loops
import setting

from qdist.interop import paddle
from qdist.interop.paddle.distributed import get_world_size
from qdist.interop.paddle.distributed.auto_parallel import Engine, Strategy


def train_model(net=setting.SimpleNet, sharding=False):
    auto_strategy = Strategy()
    micro_batches = None
    rows = None
    if sharding:
        auto_strategy.sharding.enable = True
        auto_strategy.sharding.stage = 1
        auto_strategy.sharding.degree = get_world_size()
    if net is dynamic_nets.PipelineNet:
        micro_batch_size = 4
        micro_batches = setting.batch_size // micro_batch_size
        rows = setting.batch_size
        auto_strategy.pipeline.enable = True
        auto_strategy.pipeline.micro_batch_size = micro_batch_size
        auto_strategy.pipeline.accumulate_steps = micro_batches

    model = net(setting.input_size, setting.inner_size, setting.class_dim)
    loss_func = paddle.nn.CrossEntropyLoss()
    optimizer = setting.optimizer_setting(parameter_list=model.parameters())
    metrics = paddle.metric.Accuracy(topk=(1, 5))

    engine = Engine(model, loss_func, optimizer, metrics, strategy=auto_strategy)
    dtype = paddle.get_default_dtype()
    engine.prepare(
        inputs_spec=paddle.static.InputSpec(shape=[rows, setting.input_size], dtype=dtype, name="img"),
        labels_spec=paddle.static.InputSpec(shape=[rows], dtype="int64", name="label"),
        mode="train",
    )
    dataset = setting.RandomDataset(setting.batch_num * setting.batch_size)
    train_loader = engine.dataloader(
        dataset=dataset,
        batch_size=setting.batch_size,
        epochs=setting.epoch,
        mode="train",
    )
    for program in (engine.serial_main_program, engine.main_program):
        assert "momentum(" in program
    losses = loops.engine(engine, train_loader, micro_batches)
    return losses, setting.weights(engine.state_dict())
