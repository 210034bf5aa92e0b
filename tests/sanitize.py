"""Runs tests on native code that was built with sanitizers, and ends with 1 if a test fails or a sanitizer reports.

    python tests/sanitize.py address           # AddressSanitizer and UndefinedBehaviorSanitizer
    python tests/sanitize.py thread            # ThreadSanitizer
    python tests/sanitize.py thread -- tests/state/test_measure.py -k probabilities

It builds the variant of the native module that this CPU runs, in a temporary folder (--folder keeps it), and has every
Python that the tests start, ranks included, load that build instead of the installed one. Needs GCC with its sanitizer
libraries, CMake and nanobind (``pip install cmake nanobind``).

Before the tests it plants mistakes in a small library of its own (sanitizers/planted.cpp), and goes on only if each is
reported and code that is right is not: a sanitizer that sees nothing would pass everything.

- Leaks are not looked for: an interpreter keeps thousands of objects until it ends, and nothing tells ours from those.
- ThreadSanitizer sees through the kernels' own pool of threads. What is not instrumented (Python, NumPy, MPI) is left
  out by ignore_noninstrumented_modules; a race between a kernel and NumPy, or between two processes, stays unseen.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = Path(__file__).resolve().parent / "sanitizers"

SUITES = ("tests/state", "tests/native", "tests/plan")
"""States, gradients, measuring and exchanges, the last on 1, 2, 3, 4, 7 and 8 ranks."""

NOT_HERE = (
    # What was installed is not what runs here, and a sanitizer's own memory is not the kernels'.
    "tests/native/test_native.py::test_the_loaded_variant_is_the_best_that_was_built",
    "tests/native/test_native.py::test_a_variant_can_be_forced_and_a_missing_one_is_named",
    "tests/native/test_native.py::test_sources_are_built_for_the_cpu_at_hand_and_wheels_for_all",
    # The number of threads is set for every process.
    "tests/native/test_pool.py::test_threads_at_the_start_are_those_of_omp_num_threads_or_the_cores",
)

SITE = """# Has `qdist.native` load the instrumented module.
import ctypes, importlib.util, os, sys

os.environ["OMP_NUM_THREADS"] = "2"  # On ranks too, which tests give one thread each.
if "SANITIZE_UBSAN" in os.environ:
    # Beside AddressSanitizer, UndefinedBehaviorSanitizer does not read its own log_path.
    library, path = os.environ["SANITIZE_UBSAN"].split(os.pathsep)
    ctypes.CDLL(library).__sanitizer_set_report_path(path.encode())

class _Instrumented:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == {module!r}:
            return importlib.util.spec_from_file_location(name, {file!r})

sys.meta_path.insert(0, _Instrumented)
"""


@dataclass(frozen=True)
class Sanitizer:
    flags: str
    library: str
    """What must be loaded before Python is."""
    options: dict[str, str]
    planted: dict[str, tuple[int, str]]
    """Mistakes: their argument, and what the report says."""
    right: dict[str, int]
    not_here: tuple[str, ...] = ()
    """Tests that it cannot follow."""


KINDS = {
    "address": Sanitizer(
        # Without these checks the kernels compile in seconds instead of many minutes: arrays on the stack (there are
        # few, of fixed sizes), and null or misaligned pointers to vectors, which show as faults anyway.
        "-fsanitize=address,undefined -fsanitize-recover=address,undefined --param asan-stack=0 "
        "-fno-sanitize=null,object-size,vptr,alignment",
        "libasan.so",
        {
            "ASAN_OPTIONS": "detect_leaks=0:halt_on_error=0:log_path={log}",
            "UBSAN_OPTIONS": "print_stacktrace=1",
            "SANITIZE_UBSAN": "{ubsan}:{log}",
            # Every object of Python's lies in memory of its own, so that its end is known.
            "PYTHONMALLOC": "malloc",
        },
        {"overflow": (8, "heap-buffer-overflow"), "shift": (40, "runtime error: shift exponent")},
        {"within": 8, "barrier": 1000},
    ),
    "thread": Sanitizer(
        "-fsanitize=thread",
        "libtsan.so",
        {
            "TSAN_OPTIONS": "ignore_noninstrumented_modules=1:die_after_fork=0:log_path={log}",
        },
        {"race": (1000, "data race")},
        {"within": 8, "barrier": 1000},
        # ThreadSanitizer gives up where the child of a process with threads starts some of its own.
        not_here=("tests/state/test_forks.py",),
    ),
}


class Build:
    """A folder with the instrumented module, and the environment in which it is loaded."""

    def __init__(self, kind: str, folder: Path, variant: str) -> None:
        self.kind, self.sanitizer, self.folder = kind, KINDS[kind], folder
        self.variant = variant
        self.logs = folder / "reports"
        self.compiler = os.environ.get("CXX", "g++")

    def make(self) -> None:
        flags = f"-O1 -g1 -fno-omit-frame-pointer {self.sanitizer.flags}"
        self.folder.mkdir(parents=True, exist_ok=True)
        launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        _run(
            "cmake",
            *("-S", str(ROOT / "qdist" / "native"), "-B", str(self.folder / "module"), *launcher),
            "-DCMAKE_BUILD_TYPE=Sanitize",
            f"-DCMAKE_CXX_FLAGS_SANITIZE={flags}",
            f"-DCMAKE_CXX_COMPILER={self.compiler}",
            f"-DPython_EXECUTABLE={sys.executable}",
            f"-DQDIST_VARIANTS={self.variant}",
        )
        _run(
            "cmake",
            "--build",
            str(self.folder / "module"),
            "--target",
            f"_kernels_{self.variant}",
            "-j",
            str(os.cpu_count()),
        )
        (module,) = (self.folder / "module").glob(f"_kernels_{self.variant}*.so")
        site = self.folder / "site" / "sitecustomize.py"
        site.parent.mkdir(exist_ok=True)
        site.write_text(SITE.format(module=f"qdist.native._kernels_{self.variant}", file=str(module)))
        native = ROOT / "qdist" / "native" / "src"
        source = ["-std=c++20", "-I", str(native), str(SOURCES / "planted.cpp"), str(native / "base" / "pool.cpp")]
        shared = [self.compiler, *flags.split(), "-pthread", "-fPIC", "-shared"]
        _run(*shared, *source, "-o", str(self.folder / "planted.so"))

    def environ(self, log: Path) -> dict[str, str]:
        log.mkdir(parents=True, exist_ok=True)
        places = {"log": log / "report", "ubsan": _library(self.compiler, "libubsan.so")}
        options = {name: text.format(**places) for name, text in self.sanitizer.options.items()}
        return os.environ | {
            **options,
            # The C++ library too: exceptions are intercepted, and Python alone does not bring it along.
            "LD_PRELOAD": ":".join(_library(self.compiler, name) for name in (self.sanitizer.library, "libstdc++.so")),
            "PYTHONPATH": os.pathsep.join(filter(None, (str(self.folder / "site"), os.environ.get("PYTHONPATH")))),
            "QDIST_SIMD": self.variant,
            # UCX, below MPI, hooks calls that threads make when ThreadSanitizer has already forgotten them.
            "UCX_MEM_EVENTS": "no",
            "OPENBLAS_NUM_THREADS": "1",
        }

    def check_itself(self) -> None:
        """Ends the program unless planted mistakes are reported, and nothing else is."""
        for name, argument in {
            **{k: a for k, (a, _) in self.sanitizer.planted.items()},
            **self.sanitizer.right,
        }.items():
            log = self.logs / f"planted_{name}"
            code = f"import ctypes; ctypes.CDLL({str(self.folder / 'planted.so')!r}).{name}({argument})"
            subprocess.run([sys.executable, "-c", code], env=self.environ(log), capture_output=True, check=False)
            wanted = self.sanitizer.planted.get(name, (0, ""))[1]
            text = "\n".join(_reports(log))
            if (wanted not in text) if wanted else text:
                sys.exit(
                    f"the {self.kind} sanitizer does not work here: of {name} it says {text[-2000:] or 'nothing'!r}"
                )
        code = "from qdist.native import kernels; print(kernels.__file__)"
        environ = self.environ(self.logs / "import")
        done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True)
        if str(self.folder) not in done.stdout:
            sys.exit(f"the instrumented module cannot be loaded: {done.stdout}{done.stderr}")

    def test(self, arguments: list[str]) -> bool:
        """Whether all tests pass, and nothing is reported."""
        log, start = self.logs / "tests", time.monotonic()
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
        passed = subprocess.run(command, cwd=ROOT, env=self.environ(log)).returncode == 0
        reports = _reports(log)
        for report in reports[:20]:
            print(report)
        minutes = (time.monotonic() - start) / 60
        print(
            f"{self.kind} ({self.variant}): tests {'passed' if passed else 'FAILED'}, {len(reports)} reports, "
            f"{minutes:.1f} minutes",
            flush=True,
        )
        return passed and not reports


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=[*KINDS, "all"])
    parser.add_argument("--folder", type=Path, help="where to build; kept, and used again")
    parser.add_argument("--variant", default=_variant(), help="of the module; %(default)s by default")
    parser.add_argument("--check-only", action="store_true", help="build, see planted mistakes reported, and end")
    parser.epilog = "What follows -- are arguments of pytest, in the place of the suites of states and kernels."
    cut = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    options = parser.parse_args(sys.argv[1:cut])
    good = True
    with tempfile.TemporaryDirectory(prefix="qdist-sanitize-") as temporary:
        for kind in KINDS if options.kind == "all" else (options.kind,):
            build = Build(kind, (options.folder or Path(temporary)).resolve() / kind, options.variant)
            shutil.rmtree(build.logs, ignore_errors=True)
            build.make()
            build.check_itself()
            print(f"{kind}: planted mistakes are reported, right code is not", flush=True)
            if not options.check_only:
                left_out = (*NOT_HERE, *KINDS[kind].not_here)
                tests = sys.argv[cut + 1 :] or [*SUITES, *(f"--deselect={test}" for test in left_out)]
                good = build.test(tests) and good
    return 0 if good else 1


def _variant() -> str:
    from qdist.native.cpu import cpu_flags, supported_variants

    variants = supported_variants(platform.machine(), cpu_flags())
    # The widest vectors take many times as long to compile, and have the same sources.
    return "x86_64_v3" if "x86_64_v3" in variants else variants[0]


def _library(compiler: str, name: str) -> str:
    found = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    path = Path(found.stdout.strip()).resolve()
    if not path.is_file():
        sys.exit(f"{compiler} has no {name}: install its sanitizer libraries")
    return str(path)


def _reports(log: Path) -> list[str]:
    """What the sanitizers wrote: each process writes a file of its own, when it has something to say."""
    texts = [path.read_text(errors="replace") for path in sorted(log.glob("report.*"))]
    return [text for text in texts if text.strip()]


def _run(*command: str) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-4000:]}")


if __name__ == "__main__":
    sys.exit(main())
