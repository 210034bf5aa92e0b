"""Fuzzes the readers of everything that comes from outside, and writes figures.

    python tests/fuzz/run.py                                     all targets, a million inputs each
    python tests/fuzz/run.py openqasm3 --inputs 20000 --jobs 2   one of them, fewer, on two cores

With --json a run that was ended goes on where it was.

Ends with status 1 when an input crashed the reader, raised anything undocumented, or took too long or too much memory.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from harness import MEMORY, SECONDS, Summary, fuzz_in_chunks, target_names


def main() -> int:
    parser = argparse.ArgumentParser(description="Fuzz the readers of files and messages.")
    parser.add_argument("targets", nargs="*", help=f"of {', '.join(target_names())}; default: all")
    parser.add_argument("--inputs", type=int, default=1_000_000, help="of each target (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--json", type=Path, help="a file for the figures; those of other targets in it are kept")
    options = parser.parse_args()
    if unknown := set(options.targets) - set(target_names()):
        parser.error(f"unknown targets {sorted(unknown)}; there are {target_names()}")
    findings = 0
    for name in options.targets or target_names():
        total = _noted(options.json, name, options.seed)
        for part in fuzz_in_chunks(name, options.inputs, options.seed, options.jobs, total.inputs):
            total.add(part)
            if options.json:
                _note(options.json, name, total, options.seed)
            print(f"{name}: {total.inputs} inputs, {total.num_findings} findings, {total.seconds:.0f} s", flush=True)
            for finding in part.findings:
                print(f"{finding['error']}\n    {finding['input']!r}", flush=True)
        findings += total.num_findings
    return 1 if findings else 0


def _noted(path: Path | None, name: str, seed: int) -> Summary:
    """What a run with this seed has come to so far."""
    noted = json.loads(path.read_text()) if path is not None and path.exists() else {"targets": {}}
    figures = noted["targets"].get(name, {})
    if figures.pop("seed", None) != seed:
        return Summary()
    del figures["limits_of_an_input"]
    return Summary(**figures)


def _note(path: Path, name: str, total: Summary, seed: int) -> None:
    figures = json.loads(path.read_text()) if path.exists() else {"targets": {}}
    limits = {"seconds_of_processor_time": SECONDS, "bytes_of_memory": MEMORY}
    figures["targets"][name] = {**total.as_json(), "seed": seed, "limits_of_an_input": limits}
    path.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
