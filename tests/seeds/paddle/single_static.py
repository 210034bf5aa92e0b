"""One process, a static graph (2.1.2). Lines that had to change: imports; where pictures are written to."""

import loops
import setting

from qdist.interop import paddle
from qdist.interop.paddle.base import core
from qdist.interop.paddle.base.framework import IrGraph


def dump_prog(program, folder, file_name):
    offline_graph = IrGraph(core.Graph(program.desc), for_test=True)
    return offline_graph.draw(folder, file_name, [])


def train_model(folder=None):
    paddle.enable_static()
    model = setting.SimpleNet(setting.input_size, setting.inner_size, setting.class_dim)
    optimizer = setting.optimizer_setting()

    with paddle.static.program_guard(paddle.static.default_main_program()):
        dtype = paddle.get_default_dtype()
        img = paddle.static.data(name="img", shape=[None, setting.input_size], dtype=dtype)
        label = paddle.static.data(name="label", shape=[None, 1], dtype="int64")
        out = model(img)
        loss = paddle.nn.functional.cross_entropy(input=out, label=label)
        acc_top1 = paddle.metric.accuracy(input=out, label=label, k=1)
        acc_top5 = paddle.metric.accuracy(input=out, label=label, k=5)
        optimizer.minimize(loss)
    exe = paddle.static.Executor()
    exe.run(paddle.static.default_startup_program())

    text = str(paddle.static.default_main_program())
    assert all(words in text for words in ("img : input", "matmul_grad", "# optimizer", "momentum("))
    assert "linear_weight_0 = initial_values()" in str(paddle.static.default_startup_program())
    if folder is not None:
        assert dump_prog(paddle.static.default_main_program(), folder, "single_main_program").stat().st_size > 1000

    printed = []
    for _ in range(setting.epoch):
        model.train()

        for data in loops.whole_batches()():
            img, label = data
            loss_data, acc1, acc5 = exe.run(
                feed={"img": img, "label": label}, fetch_list=[loss.name, acc_top1.name, acc_top5.name]
            )
            assert 0 <= acc1 <= acc5 <= 1
            printed.append(float("%.17g" % loss_data))  # noqa: UP031
    paddle.disable_static()
    return printed, setting.weights(model.state_dict())
