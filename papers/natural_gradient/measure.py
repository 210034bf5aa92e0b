"""How many steps to the ground energy of the transverse-field Ising chain: natural gradient and Adam.

    python papers/natural_gradient/measure.py [--spins 8 10 12] [--save]

Both start from the same angles; Adam has the best of several learning rates. A step of the natural gradient takes a
gradient and the products with the metric tensor that conjugate gradients ask for: "products" counts them; "gradients"
is the price of all of it in gradients, a product being a run and a gradient of twice the amplitudes.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import qdist as qd

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
sys.path.append(str(Path(__file__).parents[2] / "circuits"))
import vqe_natural
from common import table

HERE = Path(__file__).parent
GOAL = 1e-6
STEPS = 60
RATES = (0.01, 0.02, 0.05, 0.1)


def curve(spins: int, optimizer: str, lr: float, steps: int) -> list[float]:
    """The relative error before every step."""
    words = ["--spins", spins, "--optimizer", optimizer, "--lr", lr, "--steps", steps]
    energies = vqe_natural.train(vqe_natural.parser().parse_args(list(map(str, words))), qd.comm.init())
    exact = vqe_natural.exact_energy(spins, 1.0)
    return [abs((energy - exact) / exact) for energy in energies]


def steps_to(errors: list[float], goal: float) -> int | None:
    return next((k for k, error in enumerate(errors) if error < goal), None)


def measured(spins: int) -> dict[str, Any]:
    products = 0
    plain = qd.nn.QuantumLayer.metric_vector

    def counted(self: Any, v: Any, x: Any = None) -> Any:
        nonlocal products
        products += 1
        return plain(self, v, x)

    qd.nn.QuantumLayer.metric_vector = counted  # type: ignore[method-assign]
    natural = curve(spins, "natural", 0.05, STEPS)
    qd.nn.QuantumLayer.metric_vector = plain  # type: ignore[method-assign]
    adam = {lr: curve(spins, "adam", lr, 300) for lr in RATES}
    best = min(RATES, key=lambda lr: steps_to(adam[lr], GOAL) or np.inf)
    return {"spins": spins, "natural": natural, "products": products / STEPS, "adam": adam[best], "rate": best}


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.figure(figsize=(6, 4))
    for row, colour in zip(rows, ("C0", "C1", "C2", "C3")):
        plt.semilogy(row["natural"], colour, label=f"{row['spins']} spins, natural gradient")
        plt.semilogy(row["adam"], colour, linestyle="--", label=f"{row['spins']} spins, Adam ({row['rate']})")
    plt.axhline(GOAL, color="gray", linewidth=0.5)
    plt.ylim(1e-12, 1)
    plt.xlim(0, 160)
    plt.xlabel("step")
    plt.ylabel("relative error of the energy")
    plt.legend(fontsize=8)
    plt.tight_layout()
    plt.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--spins", type=int, nargs="+", default=[8, 10, 12])
    parser.add_argument("--save", action="store_true", help="write results.json and results.png beside this file")
    options = parser.parse_args()
    rows = [measured(spins) for spins in options.spins]
    lines = []
    for row in rows:
        natural, adam = steps_to(row["natural"], GOAL), steps_to(row["adam"], GOAL)
        price = None if natural is None else round(natural * (1 + 3 * row["products"]))
        lines.append([row["spins"], natural, adam, row["rate"], round(row["products"], 1), price])
    print(table(["spins", "natural", "Adam", "its rate", "products a step", "gradients"], lines))
    if options.save:
        (HERE / "results.json").write_text(json.dumps(rows, indent=1) + "\n")
        plot(rows, HERE / "results.png")


if __name__ == "__main__":
    main()
