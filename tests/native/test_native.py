"""The build path: the right variant is picked, and the norm is right in both precisions."""

import os
import platform
import re
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from qdist import native
from qdist.native import kernels
from qdist.native.cpu import cpu_flags

V2 = ["cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"]
V3 = V2 + ["avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"]
V4 = V3 + ["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"]


@pytest.mark.parametrize(
    ("machine", "flags", "variants"),
    [
        ("x86_64", V4, ["x86_64_v4", "x86_64_v3", "x86_64_v2"]),
        ("x86_64", V3, ["x86_64_v3", "x86_64_v2"]),
        ("x86_64", V2 + ["avx512f"], ["x86_64_v2"]),
        ("x86_64", ["sse2"], []),
        ("aarch64", [], ["aarch64"]),
        ("riscv64", [], ["generic"]),
    ],
)
def test_the_best_variant_that_the_cpu_runs_comes_first(machine: str, flags: list[str], variants: list[str]) -> None:
    assert native.supported_variants(machine, flags) == variants


def test_the_loaded_variant_is_the_best_that_was_built() -> None:
    runs = native.supported_variants(platform.machine(), cpu_flags())
    best = next(name for name in runs if name in native.available_variants())
    assert native.kernels.variant == native.variant == os.environ.get("QDIST_SIMD", best)


def variants(choice: str | None, machine: str = platform.machine(), **options: str) -> tuple[list[str], str]:
    """The variants that the build chooses, and what it says where it refuses."""
    folder = Path(native.__file__).parent
    given = {"CMAKE_SYSTEM_PROCESSOR": machine, "Python_EXECUTABLE": sys.executable, **options}
    if choice is not None:
        given["QDIST_VARIANTS"] = choice
    command = ["cmake", *(f"-D{name}={value}" for name, value in given.items()), "-P", str(folder / "variants.cmake")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    found = re.search("Kernels for: (.*)", done.stdout)
    return found[1].split(";") if found else [], " ".join(done.stderr.split())


@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs CMake outside of the build's own environment")
def test_sources_are_built_for_the_cpu_at_hand_and_wheels_for_all(tmp_path: Path) -> None:
    runs = native.supported_variants(platform.machine(), cpu_flags())
    assert variants(None) == variants("native") == (runs[:1], "")
    every = ["x86_64_v2", "x86_64_v3", "x86_64_v4"]
    assert variants("all", "x86_64") == (every, "")
    assert variants("all", "aarch64") == (["aarch64"], "")
    assert variants("native", "x86_64", CMAKE_CROSSCOMPILING="ON") == (every, "")
    assert variants("x86_64_v2;x86_64_v4", "x86_64") == (["x86_64_v2", "x86_64_v4"], "")
    for wrong in ("mmx", "x86_64_v3;mmx", ""):
        assert variants(wrong, "x86_64")[0] == []
        assert f"QDIST_VARIANTS={wrong}: use native, all, or names from: x86_64_v2" in variants(wrong, "x86_64")[1]
    nothing = tmp_path / "python"
    nothing.write_text("#!/bin/sh\n")
    nothing.chmod(0o755)
    assert "This CPU can run none of" in variants("native", "x86_64", Python_EXECUTABLE=str(nothing))[1]


@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs CMake outside of the build's own environment")
def test_a_build_without_a_compiler_says_what_to_install(tmp_path: Path) -> None:
    cmake, script = shutil.which("cmake"), Path(native.__file__).parent / "compiler.cmake"
    environment = {"PATH": str(tmp_path)}

    def said(**variables: str) -> str:
        command = [str(cmake), "-DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF", "-P", str(script)]
        done = subprocess.run(command, env=environment | variables, capture_output=True, text=True, timeout=60)
        return " ".join(done.stderr.split())

    assert "finds no C++ compiler (c++, g++, clang++, icpx, CC). Install one (C++20: g++ 11" in said()
    (tmp_path / "c++").write_text("#!/bin/sh\n")
    (tmp_path / "c++").chmod(0o755)
    assert said() == said(CXX="c++ -v") == said(CXX=str(tmp_path / "c++")) == ""
    assert "finds no C++ compiler (g++)." in said(CXX="g++")


@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs CMake outside of the build's own environment")
def test_a_build_without_pythons_headers_says_what_to_install(tmp_path: Path) -> None:
    script = Path(native.__file__).parent / "headers.cmake"

    def said(folder: str) -> str:
        python = tmp_path / "python"
        python.write_text(f"#!/bin/sh\necho {folder}\n")
        python.chmod(0o755)
        command = [str(shutil.which("cmake")), f"-DPython_EXECUTABLE={python}", "-P", str(script)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (done.returncode == 0) == (done.stderr == "")
        return " ".join(done.stderr.split())

    assert f"finds no Python.h in {tmp_path}. Install it with `apt install python3-dev`" in said(str(tmp_path))
    (tmp_path / "Python.h").write_text("")
    assert said(str(tmp_path)) == ""
    assert said("") == ""  # Python does not tell: CMake has its own ways to look


def test_a_variant_can_be_forced_and_a_missing_one_is_named() -> None:
    def load(name: str) -> subprocess.CompletedProcess[str]:
        code = "from qdist import native; print(native.variant)"
        environ = os.environ | {"QDIST_SIMD": name}
        return subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True)

    assert load(native.variant).stdout.strip() == native.variant
    assert f"QDIST_SIMD=mmx: CPU kernels of this install are {native.available_variants()}" in load("mmx").stderr


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("size", [0, 1, 3, 7, 1000, 2**15, 2**16 + 5, 2**18])
def test_squared_norm_equals_numpy_in_double(dtype: str, size: int) -> None:
    rng = np.random.default_rng(size)
    x = (rng.normal(size=size) + 1j * rng.normal(size=size)).astype(dtype)
    want = np.sum(np.abs(x.astype(np.complex128)) ** 2)
    assert native.kernels.squared_norm(x) == pytest.approx(want, rel=1e-13)


def test_squared_norm_is_the_same_for_any_number_of_threads() -> None:
    x = np.random.default_rng(0).normal(size=2**19).view(np.complex128)
    before = native.kernels.max_threads()
    sums = set()
    for threads in (1, 2, 3, 8):
        native.kernels.set_threads(threads)
        sums.add(native.kernels.squared_norm(x))
    native.kernels.set_threads(before)
    assert len(sums) == 1


def test_wrong_arrays_are_refused() -> None:
    with pytest.raises(TypeError):
        native.kernels.squared_norm(np.zeros(4))
    with pytest.raises(TypeError):
        native.kernels.squared_norm(np.zeros((2, 2), np.complex64))
    with pytest.raises(ValueError, match="from 1 to 1024; got 0"):
        native.kernels.set_threads(0)


@pytest.mark.parametrize("size", [*range(0, 20), 63, 64, 65, 127, 128, 200, 1000, 4096 + 17, 100_003])
def test_crc32_is_zlibs(size: int) -> None:
    """Every way through: tables, products of 128 bits, and what is left at the end, from any address."""
    data = np.random.default_rng(size).integers(0, 256, size + 3, np.uint8)[3:]
    for before in (0, 1, 0xFFFFFFFF, 0x12345678):
        assert kernels.crc32(data, before) == zlib.crc32(data, before)


def test_a_launch_without_a_driver_or_with_too_many_arguments_is_refused() -> None:
    with pytest.raises(ValueError, match="number of arguments"):
        kernels.launch(0, 1, 1, 0, [0] * 9)
    # No driver, or none that knows function 0.
    assert kernels.launch(0, 1, 1, 0, [1, 2]) != 0
