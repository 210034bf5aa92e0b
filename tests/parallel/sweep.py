"""Every parallel module and every mesh of 1 to 8 ranks against one process. It takes too long for CI: run it by hand.

    python tests/parallel/sweep.py [--ranks 1 2 3 4 5 6 7 8] [--only replicas divided pipeline mlp-0 ...] [--save]

What is compared: losses, gradients and parameters after three steps, in float64, to 1e-10, on a perceptron, a
convolutional net, a transformer with tied weights and a hybrid quantum net (tests/parallel/ranks/sweep_cases.py):

    replicas   DataParallel, also as DistributedDataParallel, average_gradients, Zero 1 to 3
    divided    tensor, sequence and context parallelism, with recomputed attention and blocks
    pipeline   all schedules, cuts into micro-batches and stages, with and without recomputation
    engine     stages of an Engine on every pp x dp x mp, with sharding, recomputation and searches, built deferred
    fleet      Paddle's fleet on every dp x sharding x pp x mp, with every way to clip and scaled losses
    operators  MindSpore's quick start in every mode, with every search and every strategy of a product
    language   a GPT and a LLaMA-like model with dropout, padding that counts nothing and position code of their own, on
               every dp x tp x pp x cp with ZeRO 0 to 3; positions that the plan does not name, and attention by hand
    traced     pipelines of models that are no Sequential: a GPT and a net with skips across stages, on every
               dp x tp x pp x cp with ZeRO 0 to 3, in all schedules
    layers     LSTM and GRU, Conv1d and its transpose, SyncBatchNorm, RMSNorm and hooks on every dp x tp x pp with ZeRO
               0 to 3; hooks on layers that are divided are refused
    half       bfloat16 and float16 on every dp x tp x pp x cp with ZeRO 0 to 3: losses of one process in that
               precision, and of float32, to its rounding (half_models.py has how much)
    mlp-0 ...  `parallelize` of a model on every dp x tp x pp x cp x state with ZeRO 0 to 3, in all schedules; also its
               evaluation and its predictions
    mlp-files  from one process to every such mesh and back by way of checkpoints

What cannot be divided has to be refused, on all ranks and for the reason that the case names, and nothing else may be.
A line is printed for every number of ranks and group of cases; --save puts it into
benchmarks/results/parallel_sweep.txt.
"""

from __future__ import annotations

import argparse
import datetime
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import qdist as qd

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path += [str(HERE / "ranks"), str(ROOT / "benchmarks")]
from common import machine_line, table  # noqa: E402
from sweep_cases import (  # noqa: E402
    MODELS,
    REFUSALS,
    ZERO,
    Case,
    checkpoint_cases,
    divided_cases,
    engine_cases,
    mesh_cases,
    pipeline_cases,
    replica_cases,
)
from sweep_language import language_cases  # noqa: E402
from sweep_layers import half_cases, layer_cases  # noqa: E402
from sweep_seeds import fleet_cases, operator_cases  # noqa: E402
from sweep_traced import traced_cases  # noqa: E402

MODULES = {
    "replicas": replica_cases,
    "divided": divided_cases,
    "pipeline": pipeline_cases,
    "engine": engine_cases,
    "fleet": fleet_cases,
    "operators": operator_cases,
    "language": language_cases,
    "traced": traced_cases,
    "layers": layer_cases,
    "half": half_cases,
}
GROUPS = [*MODULES, *(f"{name}-{what}" for name in MODELS for what in (*ZERO, "files"))]
RESULTS = ROOT / "benchmarks" / "results" / "parallel_sweep.txt"
HEADER = ["ranks", "cases", "equal", "differ", "refused", "why"]


def cases_of(comm: qd.comm.Communicator, group: str) -> Iterator[Case]:
    if group in MODULES:
        return MODULES[group](comm)
    name, what = group.split("-")
    return checkpoint_cases(comm, name) if what == "files" else mesh_cases(comm, name, int(what))


def on_a_rank(group: str) -> tuple[Counter[str], list[str]]:
    """How many cases ended how, and what is wrong with those that should have ended otherwise."""
    comm = qd.comm.world()
    ends: Counter[str] = Counter()
    wrong: list[str] = []
    for case in cases_of(comm, group):
        everywhere = comm.all_gather_object(end_of(case))
        end = everywhere[0][0]
        if {other for other, _ in everywhere} != {end} or end not in (case.refusals or ("equal",)):
            end = "differ"
            wrong.append(f"{case.text}: {everywhere}")
        ends[end] += 1
    return ends, wrong


def end_of(case: Case) -> tuple[str, str]:
    """What it came to, "equal", "differ" or why it was refused, on this rank; and the error's text."""
    try:
        case.run()
    except AssertionError as error:
        return "differ", str(error)
    except ValueError as error:
        known = (why for why, words in REFUSALS.items() if re.search(words, str(error)))
        return next(known, "refused for no known reason"), str(error)
    return "equal", ""


def row_of(ranks: int, group: str, ends: Counter[str]) -> list[str]:
    why = ", ".join(f"{count} {reason}" for reason, count in sorted(ends.items()) if reason in REFUSALS)
    refused = sum(count for reason, count in ends.items() if reason in REFUSALS)
    return [str(ranks), group, str(ends["equal"]), str(ends["differ"]), str(refused), why]


def save(rows: list[list[str]]) -> None:
    """Puts rows into the file in the place of those for the same ranks and cases."""
    known = {(row[0], row[1]): row for row in _saved()}
    known |= {(row[0], row[1]): row for row in rows}
    ordered = sorted(known.values(), key=lambda row: (int(row[0]), GROUPS.index(row[1])))
    total = ["all", "", *(str(sum(int(row[i]) for row in ordered)) for i in (2, 3, 4)), ""]
    numbers = table(HEADER[:-1], [row[:-1] for row in [*ordered, total]]).splitlines()
    reasons = ["why", "---", *(row[-1] for row in ordered), ""]
    lines = [f"{left}  {why}".rstrip() for left, why in zip(numbers, reasons, strict=True)]
    head = [
        "Losses, gradients and parameters after three steps beside one process (float64, 1e-10), and what is refused.",
        "",
        "    python tests/parallel/sweep.py --save",
        "",
        f"{datetime.date.today().isoformat()}; {machine_line()}",
        "",
    ]
    for ranks in range(1, 9):
        missing = [group for group in GROUPS if (str(ranks), group) not in known]
        if missing:
            lines.append(f"Not run yet: --ranks {ranks} --only {' '.join(missing)}")
    RESULTS.write_text("\n".join([*head, *lines]) + "\n")


def _saved() -> Iterator[list[str]]:
    for line in RESULTS.read_text().splitlines() if RESULTS.exists() else ():
        cells = line.split(maxsplit=5)
        if len(cells) >= 5 and cells[0].isdigit() and cells[1] in GROUPS:
            yield [*cells, ""][:6]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=list(range(1, 9)))
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=GROUPS, metavar="GROUP")
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/parallel_sweep.txt")
    options = parser.parse_args()
    failed = False
    for ranks in options.ranks:
        for group in options.only:
            ends, wrong = qd.spawn(on_a_rank, ranks, (group,))[0]
            row = row_of(ranks, group, ends)
            print(" ".join(f"{name}={value}" for name, value in zip(HEADER, row)), *wrong, sep="\n", flush=True)
            failed |= bool(wrong)
            if options.save:
                save([row])
    sys.exit(failed)


if __name__ == "__main__":
    main()
