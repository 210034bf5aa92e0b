"""The README's commands as a newcomer runs them: in a new clone, in a new environment, timed part by part.

    python benchmarks/first_commands.py                      the one that ends in a demonstration
    python benchmarks/first_commands.py --command tests      the one that ends in the tests

Each is run once. --save NAME puts the times into benchmarks/results/NAME.json, beside those of the other command;
--screen FILE.svg draws what the demonstration printed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import common

ROOT = Path(__file__).parents[1]
ENDS = {"demo": "qdist demo", "tests": "pytest"}


def command_of(which: str) -> str:
    """The README's line; it is the one that makes an environment and ends as asked for."""
    lines = [
        line.strip() for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("    python3 -m venv")
    ]
    (found,) = (line for line in lines if ENDS[which] in line.split(" && ")[-1])
    return found


def compiling(clone: Path) -> float:
    """Seconds from the first compiler's start to the last one's end, by Ninja's log; only one build was made there."""
    (log,) = clone.glob("build/*/.ninja_log")
    ends = [int(line.split("\t")[1]) for line in log.read_text().splitlines() if not line.startswith("#")]
    return max(ends) / 1e3


def timed(command: str) -> tuple[dict[str, Any], str]:
    """Times of each part of a command in a new clone of what is committed, and what the last part printed."""
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "qdist"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        parts = {}
        for part in command.split(" && "):
            start = time.perf_counter()
            done = subprocess.run(["bash", "-c", part], cwd=clone, stdout=subprocess.PIPE, text=True)
            parts[part] = round(time.perf_counter() - start, 1)
            print(done.stdout, flush=True)
            if done.returncode:
                sys.exit(f"{part}: exit code {done.returncode}")
        whole = round(sum(parts.values()), 1)
        found = {"command": command, "seconds": whole, "of its parts": parts, "of compiling": compiling(clone)}
        return found, done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", choices=tuple(ENDS), default="demo", help="which of the two (default demo)")
    parser.add_argument("--save", metavar="NAME", help="write benchmarks/results/NAME.json")
    parser.add_argument("--screen", metavar="FILE", type=Path, help="draw what was printed, as SVG")
    options = parser.parse_args()
    found, printed = timed(command_of(options.command))
    print(json.dumps(found, indent=1))
    if options.save:
        path = common.RESULTS / f"{options.save}.json"
        before = json.loads(path.read_text())["results"] if path.exists() else {}
        common.save(options.save, before | {options.command: found})
    if options.screen:
        sys.path.append(str(ROOT / "circuits/pictures"))
        from screen import screen

        options.screen.write_text(screen(printed), encoding="utf-8")


if __name__ == "__main__":
    main()
