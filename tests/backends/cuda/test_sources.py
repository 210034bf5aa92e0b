"""The CUDA sources compile for two generations of GPUs with NVRTC alone: no device, no CUDA toolkit."""

import ctypes
import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

from qdist.backends.cuda.compiler import MODULES, source, stage_source
from qdist.backends.cuda.lowering import tables
from qdist.backends.cuda.lowering.tile import back_shape_of, shape_of


@pytest.fixture(scope="module")
def nvrtc() -> ctypes.CDLL:
    """NVIDIA's run-time compiler, from its wheel."""
    spec = importlib.util.find_spec("nvidia.cuda_nvrtc") if importlib.util.find_spec("nvidia") else None
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("needs the nvidia-cuda-nvrtc-cu12 package")
    (library,) = Path(next(iter(spec.submodule_search_locations))).glob("lib/libnvrtc.so.*")
    return ctypes.CDLL(str(library))


def ptx(nvrtc: ctypes.CDLL, code: str, options: tuple[str, ...]) -> str:
    """The source compiled; fails with the compiler's messages."""
    program = ctypes.c_void_p()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), code.encode(), b"source.cu", 0, None, None) == 0
    given = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
    failed = nvrtc.nvrtcCompileProgram(program, len(options), given)
    what = "ProgramLog" if failed else "PTX"
    size = ctypes.c_size_t()
    assert getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)) == 0
    text = ctypes.create_string_buffer(size.value)
    assert getattr(nvrtc, f"nvrtcGet{what}")(program, text) == 0
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    assert not failed, text.value.decode()
    return text.value.decode()


@pytest.mark.parametrize("rare", [False, True])
@pytest.mark.parametrize(
    ("dtype", "generation", "long"),
    [("complex64", "90", False), ("complex64", "80", True), ("complex128", "80", False)],
)
def test_the_tile_kernel(nvrtc: ctypes.CDLL, dtype: str, generation: str, rare: bool, long: bool) -> None:
    kind = np.dtype(dtype)
    shape = shape_of(kind)
    code, options = stage_source(kind, shape, rare, long)
    text = ptx(nvrtc, code, (*options, f"-arch=compute_{generation}"))
    assert ".entry run_stage(" in text
    # A thread's amplitudes stay in registers: an array that is indexed by a variable would be local memory.
    assert ".local" not in text
    # A tile comes to shared memory in the background, the first one and then the next: in accesses of 16 bytes, or,
    # after a change of index, one amplitude at a time.
    accesses = (1 << shape.registers) // (2 if shape.pairs_up else 1)
    assert text.count("cp.async.cg.shared.global") == 2 * accesses
    assert text.count("cp.async.ca.shared.global") == 2 << shape.registers
    assert text.count("cp.async.wait_all") == 1
    # It goes through shared memory and back to memory in such accesses too.
    wide = ".v4.f32" if shape.pairs_up else ".v2.f64"
    assert text.count(f"st.shared{wide}") == accesses
    assert text.count(f"st.global.cs{wide}") == accesses if shape.pairs_up else 2 * accesses
    # Barriers: after copying tables, on both sides of the coefficients, after the last reading of a tile, and on both
    # sides of writing it to shared memory; in long stages, on both sides of reading norms.
    assert text.count("bar.sync") == 6 + 2 * long
    # What comes with the launch is read as such: the numbers of a pair and of a matrix, on each pair of register bits.
    pairs = 3 if shape.pairs_up else 2
    assert len(re.findall(r"ld\.param\.(v\d\.)?f\d+", text)) >= pairs * (15 + 32) // 4


@pytest.mark.parametrize("rare", [False, True])
@pytest.mark.parametrize(
    ("dtype", "generation", "long"),
    [("complex64", "80", False), ("complex64", "90", True), ("complex128", "90", False)],
)
def test_the_kernel_of_the_adjoint_sweep(
    nvrtc: ctypes.CDLL, dtype: str, generation: str, rare: bool, long: bool
) -> None:
    kind = np.dtype(dtype)
    shape = back_shape_of(kind)
    code, options = stage_source(kind, shape, rare, long)
    text = ptx(nvrtc, code, (*options, f"-arch=compute_{generation}"))
    assert ".entry run_stage(" in text
    assert ".entry add_partial(" in text
    assert ".local" not in text
    # The tiles of the ket and of the bra come to shared memory in the background, the first ones and then the next, and
    # are written once; sums go to a warp's own place in double.
    whole = ".v2.f32" if dtype == "complex64" else ".v2.f64"
    assert text.count("cp.async.ca.shared.global") == 4 << shape.registers
    assert text.count(f"st.global.cs{whole}") == 2 << shape.registers
    assert "red.global.add.f64" in text or "atom.global.add.f64" in text
    # Ket and bra go to shared memory in accesses of 16 bytes, one for both in single precision.
    wide = ".v4.f32" if dtype == "complex64" else ".v2.f64"
    assert text.count(f"st.shared{wide}") == (1 if dtype == "complex64" else 2) << shape.registers
    # An operation's header is read from shared memory, and so are the columns of a phase (for two states that are
    # fetched in two places, for reading and for writing) and all tables: none is read without knowing where it is.
    assert text.count("ld.shared.v4.u32") == 7
    assert not re.search(r"\sld\.(v\d\.)?[a-z]\d", text)


KERNELS = {
    "measure": "squared_norm inner permuted_copy swap_positions project reset_bit probabilities leaves add_weighted",
    "pauli": "apply_paulis apply_rows term_values pauli_values_2 pauli_values_4 pauli_values_16",
    "pauli_tiles": "apply_tiles tile_values",
    "moves": "take_part put_part swap_parts",
}


@pytest.mark.parametrize(("dtype", "generation"), [("complex64", "80"), ("complex128", "90")])
@pytest.mark.parametrize("module", MODULES)
def test_the_other_kernels(nvrtc: ctypes.CDLL, module: str, dtype: str, generation: str) -> None:
    code, options = source(module, np.dtype(dtype))
    text = ptx(nvrtc, code, (*options, f"-arch=compute_{generation}"))
    assert sorted(re.findall(r"\.entry (\w+)\(", text)) == sorted(KERNELS[module].split())
    if module == "moves":
        assert ".local" not in text


def test_the_smaller_kernel_lacks_what_the_tables_know_as_rare() -> None:
    text = (Path(tables.__file__).parents[1] / "sources/kernel.cu").read_text()
    rare = "".join(re.findall(r"#if RARE\n(.*?)\n#endif", text, re.DOTALL))
    ops = {tables.OPS[name.lower()] for name in re.findall(r"case (\w+)", rare)}
    assert ops == set(tables.OPS.values()) - tables.COMMON_OPS
    # What is none of the modes that are asked for is the last one.
    modes = {tables.MODES[name.lower()] for name in re.findall(r"phase.mode == (\w+)", rare)}
    assert modes | {tables.MODES["wide"]} == set(tables.MODES.values()) - tables.COMMON_MODES
