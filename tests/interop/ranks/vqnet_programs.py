"""Runs circuits/vqnet_zero.py, _tensor_parallel.py and _pipeline.py as they are, the last with smaller images and fewer
steps; the first rank writes what they computed to a file. Arguments: folders of MNIST and CIFAR-10, the file."""

import json
import sys
from pathlib import Path

from qdist.parallel import Pipeline
from qdist.tensor import manual_seed

CIRCUITS = Path(__file__).parents[3] / "circuits"
# A whole image has 256 x 256 pixels there, of which 224 x 224 are used: minutes on a small machine.
SMALLER = [
    ("num_steps = 1000", "num_steps = 2"),
    ("TransformResize(256)", "TransformResize(40)"),
    ("TransformCenterCrop(224)", "TransformCenterCrop(32)"),
    ("64 * 27 * 27", "64 * 3 * 3"),
    ('"train_batch_size": 64', '"train_batch_size": 8'),
    ('"train_micro_batch_size_per_gpu": 32', '"train_micro_batch_size_per_gpu": 4'),
    ('"epochs": 5', '"epochs": 2'),
]


def run(program: str, folder: str, changes: list[tuple[str, str]]) -> dict:
    text = (CIRCUITS / program).read_text()
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    manual_seed(0)  # As in a process of its own.
    sys.argv = [program, folder]
    names: dict = {"__name__": "__main__"}
    exec(compile(text, program, "exec"), names)
    return names


mnist, cifar, results = sys.argv[1:]
zero = run("vqnet_zero.py", mnist, [])
tensor_parallel = run("vqnet_tensor_parallel.py", mnist, [])
pipeline = run("vqnet_pipeline.py", cifar, SMALLER)
state = {name: values.tolist() for name, values in zero["model"].state_dict().items() if name == "fc5.weight"}
stages: Pipeline = pipeline["w"]._training.pipeline
if zero["get_rank"]() == 0:
    found = {
        "zero": {"loss": float(zero["loss"]), "accuracy": zero["train_acc"], **state},
        "tensor_parallel": {
            "loss": float(tensor_parallel["loss"]),
            "accuracy": tensor_parallel["train_acc"],
            "parameters": tensor_parallel["total_params"],
        },
        "pipeline": {"losses": list(pipeline["all_loss"].values()), "ranks": stages.comm.size},
    }
    Path(results).write_text(json.dumps(found))
