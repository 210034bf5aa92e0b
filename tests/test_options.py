"""No option is accepted and ignored: every public parameter, field and command-line option is read somewhere.

The sources are searched, not run: a parameter must be read in the body of its function; what a constructor keeps as an
attribute, a field of a dataclass and an option of a command must be read somewhere in the package.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "qdist"


@cache
def trees() -> dict[str, ast.Module]:
    """Read where a test asks: every worker of pytest-xdist collects these tests, and one runs them."""
    return {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def nodes(tree: ast.Module) -> list[ast.AST]:
    """All of a tree: three tests look at each of a million."""
    return list(ast.walk(tree))


# Functions whose parameters somebody else decides, as all of a kind are called alike.
SHARED_SIGNATURES = {
    "tensor/kernels/": "forward(xp, *arrays, **attributes) and vjp(xp, g, saved, needs, **attributes) of every rule",
    "comm/transports/solo.py": "Transport's methods; alone, there is one root and one peer",
    "comm/transports/counting.py": "Transport's methods; nothing is moved, sizes alone count",
    "program/watch.py": "Watch's hooks; each kind of watch needs some of what it is told",
    "checkpoint_plan.py broadcast_object": "Ranks.broadcast_object(value, root); alone, there is one root",
    "circuit/frozen.py": "refuses whatever it is given",
    "circuit/data_gates.py inverse": "Gate.inverse(params); these gates have none",
    "circuit/parameters.py format": "Expression.format(number); a single parameter is its name",
    "circuit/functions.py text": "Call.text(arguments, output); these have one output",
    "circuit/qasm/writer.py literal_body": "of both versions of the language; one needs the gate",
    "backends/backend.py": "what every device gives; the base may ask for less",
    "backends/cpu/executor.py lower_back": "Executor.lower_back(plan); here stages are undone as they are",
    "backends/cpu/observable.py queues": "ObservableKernel.queues(weights); the host computes at once",
    "backends/cuda/backend.py observable": "Backend.observable(...); here one plan serves values and products",
    "backends/cuda/target.py forward": "Target.forward(num_bits, trained); what undoes them has tiles of its own",
    "backends/cuda/rows/kernel.py": "RowKernel's methods; here states are computed again instead of kept",
    "backends/cuda/lowering/operations.py": "one method a kind of block, all called alike",
    "parallel/auto/run/callbacks.py on_epoch_end": "Callback's methods, all of which an Engine calls alike",
    "interop/paddle/amp.py minimize": "GradScaler's method; the loss was differentiated before",
    "interop/paddle/nn/clip.py __call__": "GradClip's call; only a norm over all parameters asks where the others are",
    "interop/pennylane/outputs.py shape": "Output.shape(num_qubits); a circuit without wires has one amplitude",
    "interop/pennylane/device.py compute_derivatives": "Device's methods; states are differentiated in one way",
    "interop/pennylane/device.py compute_jvp": "Device's methods",
    "interop/mindspore/train.py on_batch_end": "Callback's methods",
    "interop/mindspore/train.py on_epoch_end": "Callback's methods",
    "nn/agreement.py follow": "a hook of Tensor.register_hook, which passes the gradient",
    "parallel/pipeline/graph/traced_model.py": "a source of stages; a list of layers needs more to be cut",
    "parallel/pipeline/stages.py run": "Stage.run(draws, known, ...); a list of layers has nothing to know",
    "plan/stages/target.py": "what every target tells; most tiles have room for anything",
    "plan/stages/cpu_target.py": "what every target tells; a CPU's sweeps take as long whatever they hold",
    "program/tangent/outputs.py shape": "Output.shape(num_qubits); of given qubits it does not depend on it",
    "interop/torch/operators.py keep": "setup_context(ctx, inputs, output) of torch; the output is computed again",
    "interop/torch/operators.py keep_vjp": "setup_context(ctx, inputs, output) of torch",
    "state/outputs.py shape": "Output.shape(num_qubits); a scalar's does not depend on it",
    "state/outputs.py frozen": "Output.frozen(num_qubits); most outputs hold nothing that changes",
    "state/outputs.py pull_back": "Output.pull_back(ket, ...)",
    "tracing/messages.py": "a point's wrapper(recorder, gpu, original); most need no GPU's clock",
    "tracing/stages.py": "a point's wrapper(recorder, gpu, original)",
    "tensor/autograd.py fit": "takes the array module first, as all that works on arrays",
}

# Options that training.parser() makes for programs, which read them.
FOR_PROGRAMS = {"training/programs.py --lr"}

# Attributes and fields for users, or that keep something alive; nothing in the package reads them.
FOR_USERS = {
    "plan/plan.py Plan.levels": "what a plan was made for",
    "circuit/qasm/errors.py QasmError.message": "of an error",
    "circuit/qasm/errors.py QasmError.line": "of an error",
    "circuit/qasm/errors.py QasmError.column": "of an error",
    "circuit/qasm/syntax.py": "read by matching on the node: case Unary(operand=...)",
    "state/shards.py Traffic.pack_seconds": "a measurement",
    "state/shards.py Traffic.network_seconds": "a measurement",
    "comm/messages/reduction.py ReduceOp": "names of operations",
    "comm/bootstrap/opening.py Opening.daemon": "read by threading",
    "comm/transports/window.py Window._memory": "keeps memory alive",
    "comm/transports/mpi.py MpiRequest._keep": "keeps memory alive",
    "comm/transports/nccl.py _Event._keep": "keeps memory alive",
}


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Public functions and public methods of public classes, that do something."""
    holders = [tree, *(n for n in nodes(tree) if isinstance(n, ast.ClassDef) and not n.name.startswith("_"))]
    for holder in holders:
        for function in holder.body:
            if not isinstance(function, ast.FunctionDef):
                continue
            if function.name.startswith("_") and function.name not in ("__init__", "__call__", "__new__"):
                continue
            body = [s for s in function.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
            if any(not isinstance(s, ast.Raise | ast.Pass) for s in body):
                yield function.name, function


def read_names(function: ast.FunctionDef) -> set[str]:
    nodes = (n for statement in function.body for n in ast.walk(statement))
    return {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def parameters(function: ast.FunctionDef) -> list[str]:
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return [a.arg for a in every if a is not None and a.arg not in ("self", "cls") and not a.arg.startswith("_")]


def unread(function: ast.FunctionDef) -> list[str]:
    read = read_names(function)
    return [parameter for parameter in parameters(function) if parameter not in read]


def known(table: dict[str, str], path: str, name: str) -> bool:
    return any(f"{path} {name}".startswith(entry) for entry in table)


def unread_parameters(trees: dict[str, ast.Module]) -> list[str]:
    return [
        f"{path}:{function.lineno} {name}({parameter})"
        for path, tree in trees.items()
        for name, function in functions(tree)
        if not known(SHARED_SIGNATURES, path, name)
        for parameter in unread(function)
    ]


def read_attributes(trees: dict[str, ast.Module]) -> set[str]:
    found = set()
    for tree in trees.values():
        for node in nodes(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                found.add(node.attr)
            elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("getattr", "hasattr"):
                found |= {a.value for a in node.args[1:2] if isinstance(a, ast.Constant)}
    return found


def unread_attributes(trees: dict[str, ast.Module]) -> list[str]:
    read, missing = read_attributes(trees), []
    for path, tree in trees.items():
        for made in (n for n in nodes(tree) if isinstance(n, ast.ClassDef)):
            kept = []
            if any("dataclass" in ast.unparse(d) for d in made.decorator_list):
                kept += [s.target.id for s in made.body if isinstance(s, ast.AnnAssign)]
            for init in (f for f in made.body if isinstance(f, ast.FunctionDef) and f.name == "__init__"):
                kept += [
                    n.attr for n in ast.walk(init) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)
                ]
            names = [f"{made.name}.{name}" for name in dict.fromkeys(kept) if name not in read]
            missing += [f"{path} {name}" for name in names if not known(FOR_USERS, path, name)]
    return missing


def unread_command_options(trees: dict[str, ast.Module]) -> list[str]:
    read, missing = read_attributes(trees), []
    for path, tree in trees.items():
        for call in (n for n in nodes(tree) if isinstance(n, ast.Call)):
            if getattr(call.func, "attr", "") != "add_argument":
                continue
            names = [a.value for a in call.args if isinstance(a, ast.Constant)]
            told = [k.value.value for k in call.keywords if k.arg == "dest" and isinstance(k.value, ast.Constant)]
            read_as = (told or [max(names, key=len).lstrip("-").replace("-", "_")])[0] if names else ""
            if names and read_as not in read and f"{path} {' '.join(names)}" not in FOR_PROGRAMS:
                missing.append(f"{path}:{call.lineno} {' '.join(names)}")
    return missing


def test_every_public_parameter_is_read() -> None:
    assert unread_parameters(trees()) == []


def test_everything_that_is_kept_is_read() -> None:
    assert unread_attributes(trees()) == []


def test_every_option_of_a_command_is_read() -> None:
    assert unread_command_options(trees()) == []


def test_the_search_finds_what_it_is_for() -> None:
    source = (
        "def fit(data, epochs=1, *, shuffle=False):\n    epochs = 2\n    return data\n"
        "class Trainer:\n    def __init__(self, rate):\n        self.hidden_rate = rate\n"
        "@dataclass\nclass Options:\n    unknown_field: int = 0\n"
        "parser.add_argument('--no-effect')\n"
    )
    trees = {"x.py": ast.parse(source)}
    assert unread_parameters(trees) == ["x.py:1 fit(epochs)", "x.py:1 fit(shuffle)"]
    assert unread_attributes(trees) == ["x.py Trainer.hidden_rate", "x.py Options.unknown_field"]
    assert unread_command_options(trees) == ["x.py:10 --no-effect"]


def test_the_lists_of_exceptions_have_no_old_entries() -> None:
    for entry in (*SHARED_SIGNATURES, *FOR_USERS):
        path = entry.split()[0]
        assert (PACKAGE / path).exists(), entry
