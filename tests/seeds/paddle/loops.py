"""The training loops that the document repeats in its programs; each gives the losses that it prints.

Lines that had to change here: imports; printing, which gives way to a list.
"""

import numpy as np
import setting

from qdist.interop import paddle
from qdist.interop.paddle.distributed import get_rank
from qdist.interop.paddle.io import BatchSampler, DataLoader, DistributedBatchSampler


def whole_batches():
    """Every rank reads the same batches."""
    dataset = setting.RandomDataset(setting.batch_num * setting.batch_size)
    sampler = BatchSampler(dataset, batch_size=setting.batch_size, shuffle=False, drop_last=True)
    return DataLoader(dataset, batch_sampler=sampler, num_workers=1)


def own_batches():
    """Every replica reads batches of its own."""
    dataset = setting.RandomDataset(setting.batch_num * setting.batch_size)
    sampler = DistributedBatchSampler(
        dataset, rank=get_rank(), batch_size=setting.batch_size, shuffle=False, drop_last=True
    )
    return DataLoader(dataset, batch_sampler=sampler, num_workers=1)


def eager(model, optimizer, train_loader, accuracy=True):
    """Forward, backward and update by hand."""
    printed = []
    for _ in range(setting.epoch):
        model.train()

        for data in train_loader():
            img, label = data
            label.stop_gradient = True

            out = model(img)
            loss = paddle.nn.functional.cross_entropy(input=out, label=label)
            avg_loss = paddle.mean(x=loss)
            if accuracy:
                acc_top1 = paddle.metric.accuracy(input=out, label=label, k=1)
                acc_top5 = paddle.metric.accuracy(input=out, label=label, k=5)
                assert 0 <= float(acc_top1) <= float(acc_top5) <= 1

            avg_loss.backward()
            optimizer.step()
            model.clear_gradients()
            printed.append(float("%.17g" % np.array(avg_loss)))  # noqa: UP031
    return printed


def static(dist_model, train_loader):
    """A captured graph, called with each batch."""
    printed = []
    for _ in range(setting.epoch):
        dist_model.train()

        for data in train_loader():
            img, label = data
            label.stop_gradient = True
            loss = dist_model(img, label)
            if loss:
                printed.append(float("%.17g" % loss))  # noqa: UP031
    return printed


def engine(engine, train_loader, micro_batches=None):
    """An Engine's run for each batch."""
    printed = []
    for _ in range(setting.epoch):
        engine.model.train()

        for data in train_loader():
            outs = engine.run(data, mode="train")
            if "loss" in outs:
                assert 0 <= outs["acc_top1"] <= outs["acc_top5"] <= 1
                tr_loss = outs["loss"]
                if micro_batches is not None:
                    tr_loss = np.sum(outs["loss"])
                    tr_loss /= micro_batches
                printed.append(float(tr_loss))
    return printed
