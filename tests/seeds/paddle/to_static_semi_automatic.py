"""Annotated networks, run as static graphs (2.2.4.2.5 to 2.2.4.2.7). Lines that had to change: imports; the folder."""

import dynamic_nets
import loops
import setting
from single_static import dump_prog

from qdist.interop import paddle
from qdist.interop.paddle.distributed import to_static


def train_model(net=dynamic_nets.DataParallelNet, folder=None):
    model = net(setting.input_size, setting.inner_size, setting.class_dim)
    loss_func = paddle.nn.CrossEntropyLoss()
    optimizer = setting.optimizer_setting(parameter_list=model.parameters())
    train_loader = loops.whole_batches()
    dist_model = to_static(model, train_loader, loss_func, optimizer)
    assert "# optimizer" in dist_model._engine.serial_main_program
    assert "linear1.weight = initial_values()" in dist_model._engine.serial_startup_program
    assert "# optimizer" in dist_model._engine.main_program
    assert "momentum_buffer(" in dist_model._engine.startup_program
    if folder is not None:
        rank = paddle.distributed.get_rank()
        dump_prog(dist_model._engine.serial_main_program, folder, f"d2s_serial_main_program_{rank}")
        dump_prog(dist_model._engine.main_program, folder, f"d2s_main_program_{rank}")
    losses = loops.static(dist_model, train_loader)
    return losses, setting.weights(dist_model._engine.state_dict())
