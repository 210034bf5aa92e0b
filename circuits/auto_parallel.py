"""Two small nets, each trained by every kind of parallelism, step by step (dynamic) or as a captured graph (--static).

    mpirun -n 2 python circuits/auto_parallel.py --mode model
    mpirun -n 8 python circuits/auto_parallel.py --net products --mode model --static --program
    mpirun -n 4 python circuits/auto_parallel.py --mode auto --explain

The nets are three linear layers with a ReLU, and two matrix products with a ReLU between. Whatever the mode and the
number of ranks, the losses are those of one process (--mode alone).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import qdist as qd
from qdist import nn, optim, parallel
from qdist.comm import Communicator, Mesh
from qdist.parallel import auto
from qdist.parallel.auto import Shard, shard_op, shard_tensor
from qdist.tensor import Tensor, functional, manual_seed
from qdist.training import run, whole

MODES = ("alone", "data", "sharded", "model", "pipeline", "auto")
CLASSES = 10


class ThreeLinear(nn.Module):
    """Linear layers narrow -> wide -> narrow -> classes, then a ReLU."""

    def __init__(self, args: argparse.Namespace, place: Place) -> None:
        super().__init__()
        self.linear1 = nn.Linear(args.width, args.inner, dtype=args.dtype)
        self.linear2 = nn.Linear(args.inner, args.width, dtype=args.dtype)
        self.linear3 = nn.Linear(args.width, CLASSES, dtype=args.dtype)
        self.place = place

    def forward(self, x: Tensor) -> Tensor:
        x = self.place.inputs(x)
        if self.place.mode == "model":
            # Weights are (out, in): the first is cut by outputs, the second by inputs, and what lies between follows.
            shard_tensor(self.linear1.weight, self.place.mesh, ["mp", None])
            shard_tensor(self.linear1.bias, self.place.mesh, ["mp"])
            shard_tensor(self.linear2.weight, self.place.mesh, [None, "mp"])
        for i, layer in enumerate(self.layers()):
            x = self.place.stage(layer, i)(x)
        return x

    def layers(self) -> list[Any]:
        """What it does, one after the other."""
        return [self.linear1, self.linear2, self.linear3, functional.relu]


class TwoProducts(nn.Module):
    """x @ weight, ReLU, @ weight2."""

    def __init__(self, args: argparse.Namespace, place: Place) -> None:
        super().__init__()
        self.weight = nn.Parameter(np.empty((args.width, args.inner), args.dtype))
        self.weight2 = nn.Parameter(np.empty((args.inner, CLASSES), args.dtype))
        for weight in (self.weight, self.weight2):
            nn.init.normal_(weight, std=0.1)
        self.place = place
        self.matmul = place.cut(auto.matmul, args)

    def forward(self, x: Tensor) -> Tensor:
        x = self.place.inputs(x)
        for i, layer in enumerate(self.layers()):
            x = self.place.stage(layer, i)(x)
        return x

    def layers(self) -> list[Any]:
        """What it does, one after the other."""
        return [Product(self.matmul, self.weight), functional.relu, Product(auto.matmul, self.weight2)]


class Product(nn.Module):
    """One product with a weight."""

    def __init__(self, matmul: Callable[..., Tensor], weight: nn.Parameter) -> None:
        super().__init__()
        self.matmul, self.weight = matmul, weight

    def forward(self, x: Tensor) -> Tensor:
        return self.matmul(x, self.weight)


NETS = {"linear": ThreeLinear, "products": TwoProducts}
LAYERS = {"linear": 4, "products": 3}


class Place:
    """The annotations of a mode: what a net says about where its parts lie."""

    def __init__(self, args: argparse.Namespace, comm: Communicator) -> None:
        self.mode, self.comm = args.mode, comm
        ranks = np.arange(comm.size)
        self.layers = LAYERS[args.net]
        self.stages = max(n for n in range(1, self.layers + 1) if comm.size % n == 0)
        if args.mode == "pipeline":
            # Where there are more ranks than layers, several pipelines share the batch.
            self.mesh = auto.ProcessMesh(ranks.reshape(self.stages, -1), ["pp", "dp"], comm)
        else:
            self.mesh = auto.ProcessMesh(ranks, ["mp" if args.mode == "model" else "dp"], comm)

    def inputs(self, x: Tensor) -> Tensor:
        """Rows of the batch go to different ranks in data parallel mode."""
        return shard_tensor(x, self.mesh, [Shard(0)]) if self.mode == "data" else x

    def stage(self, layer: Callable[..., Any], number: int) -> Callable[..., Any]:
        """A layer on its stage of the pipeline."""
        if self.mode != "pipeline":
            return layer
        return shard_op(layer, self.mesh[number * self.stages // self.layers])

    def cut(self, operator: auto.Operator, args: argparse.Namespace) -> auto.Operator:
        """A product with its strategy: rows in two where that leaves more than one part for the sum."""
        if self.mode != "model":
            return operator
        rows = 2 if self.comm.size >= 4 else 1
        return operator.shard(((rows, self.comm.size // rows), (self.comm.size // rows, 1)), self.comm)


def batch(args: argparse.Namespace, step: int) -> tuple[np.ndarray, np.ndarray]:
    """The whole batch of a step."""
    rng = np.random.default_rng([args.seed, step])
    return rng.random((args.rows, args.width)).astype(args.dtype), rng.integers(0, CLASSES, args.rows)


def make_optimizer(parameters: Any) -> optim.Optimizer:
    return optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=1e-4)


def dynamic_step(args: argparse.Namespace, comm: Communicator) -> Callable[[int], float]:
    """A training step that runs operation by operation."""
    place = Place(args, comm)
    net: Any = NETS[args.net](args, place)
    loss_function = nn.CrossEntropyLoss()
    if args.mode == "pipeline":
        mesh = Mesh(comm, pp=place.stages, dp=-1)
        pipeline = parallel.Pipeline(net.layers(), loss_function, mesh, micro_batches=2)
        own = pipeline.make_optimizer(optim.SGD, lr=0.1, momentum=0.9, weight_decay=1e-4)

        def piped(step: int) -> float:
            x, y = (np.array_split(a, mesh["dp"].size)[mesh["dp"].rank] for a in batch(args, step))
            return pipeline.train_batch(x, y, own)

        return piped
    optimizer = make_optimizer(net.parameters())
    if args.mode == "sharded":
        zero = parallel.Zero(net, optimizer, stage=args.stage or 1, comm=comm)

        def sharded(step: int) -> float:
            x, y = batch(args, step)
            rows = np.array_split(np.arange(args.rows), comm.size)[comm.rank]
            loss = loss_function(zero(Tensor(x[rows])), Tensor(y[rows]))
            zero.backward(loss)
            zero.step()
            # A rank without a row has no mean.
            share = loss.item() * len(rows) / args.rows if len(rows) else 0.0
            return float(comm.all_reduce(np.array(share)))

        return sharded

    def plain(step: int) -> float:
        x, y = batch(args, step)
        optimizer.zero_grad()
        loss = loss_function(net(Tensor(x)), Tensor(y))
        loss.backward()
        optimizer.step()
        return loss.item()

    return plain


def static_engine(args: argparse.Namespace, comm: Communicator) -> auto.Engine:
    """The same step, captured."""
    place = Place(args, comm)
    net = NETS[args.net](args, place)
    cut = args.net == "products" and args.mode == "model"
    strategy = auto.Strategy(auto=args.mode == "auto", fully_use_devices=cut)
    strategy.sharding.enable, strategy.sharding.stage = args.mode == "sharded", args.stage or 1
    if args.mode == "pipeline":
        strategy.pipeline.enable, strategy.pipeline.accumulate_steps = True, 2
    mesh = None if cut else place.mesh
    metrics = auto.Accuracy((1, 5)) if args.accuracy else None
    return auto.Engine(net, nn.CrossEntropyLoss(), make_optimizer(net.parameters()), metrics, strategy, mesh, comm)


def train(args: argparse.Namespace, comm: Communicator) -> list[float]:
    """The losses of all steps."""
    manual_seed(args.seed)
    args.dtype = np.dtype(args.precision)
    show = comm.rank == 0
    if not (args.static or args.mode == "auto"):
        step = dynamic_step(args, comm)
        return [step(i) for i in range(args.steps)]
    engine = static_engine(args, comm)
    losses, seconds = [], []
    for i in range(args.steps):
        start = time.perf_counter()
        result = engine.run(batch(args, i))
        seconds.append(time.perf_counter() - start)
        losses.append(result["loss"])
        if show and args.accuracy:
            print(f"step {i}: " + ", ".join(f"{name} {value:.5f}" for name, value in result.items()))
    if args.program:
        text = engine.main_program
        if show:
            print(text)
    if args.explain and show:
        print(engine.explain())
        print(f"measured: {np.median(seconds[1:] or seconds) * 1e3:.3f} ms a step")
    return losses


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--net", choices=NETS, default="linear", help="which net (default: linear)")
    made.add_argument("--mode", choices=MODES, default="data", help="how it is parallelised (default: data)")
    made.add_argument("--static", action="store_true", help="capture the step as a graph (auto always does)")
    made.add_argument("--stage", type=int, choices=(1, 2, 3), help="of --mode sharded (default: 1)")
    made.add_argument("--steps", type=whole(1), default=5, help="training steps (default: 5)")
    made.add_argument("--rows", type=whole(1), default=32, help="rows of a batch (default: 32)")
    made.add_argument("--width", type=whole(1), default=256, help="features of the input (default: 256)")
    made.add_argument("--inner", type=whole(1), default=1024, help="width in the middle (default: 1024)")
    made.add_argument("--precision", choices=("float32", "float64"), default="float32", help="(default: float32)")
    made.add_argument("--seed", type=whole(0), default=0, help="of weights and data (default: 0)")
    made.add_argument("--accuracy", action="store_true", help="also print the accuracy of every step (static)")
    made.add_argument("--program", action="store_true", help="print the distributed graph (static)")
    made.add_argument("--explain", action="store_true", help="print what was chosen and what it costs (static)")
    return made


def options(argv: list[str] | None) -> argparse.Namespace:
    """What the command line says; it ends the program where an option would change nothing."""
    made = parser()
    args = made.parse_args(argv)
    for name in ("accuracy", "program", "explain"):
        if getattr(args, name) and not (args.static or args.mode == "auto"):
            made.error(f"--{name} is for a step that is captured: add --static")
    if args.explain and args.mode == "pipeline":
        made.error("--explain is for one plan, and a pipeline has one for each stage: --program shows the first")
    if args.stage is not None and args.mode != "sharded":
        made.error("--stage is for --mode sharded")
    return args


def main(argv: list[str] | None = None) -> None:
    args = options(argv)
    comm = qd.comm.init()
    losses = train(args, comm)
    if comm.rank == 0:
        for step, loss in enumerate(losses):
            print(f"step {step}: loss {loss:.6f}")


if __name__ == "__main__":
    run(main)
