"""The CUDA sources compile for two generations of GPUs with NVRTC alone: no device, no CUDA toolkit."""

import re
from pathlib import Path

import numpy as np
import pytest

from qdist.backends.cuda.compiling import texts
from qdist.backends.cuda.compiling.nvrtc import CompileError, Nvrtc
from qdist.backends.cuda.compiling.texts import MODULES, all_texts, expanded, source, stage_source
from qdist.backends.cuda.lowering import tables
from qdist.backends.cuda.lowering.records import paulis, rows, tiles
from qdist.backends.cuda.lowering.records.headers import headers
from qdist.backends.cuda.lowering.records.record import Field, Record
from qdist.backends.cuda.lowering.records.tiles import FORWARD_PLACES, FOURS, LAUNCH, MODES, OPS, SWEEP
from qdist.backends.cuda.lowering.tile import back_shape_of, larger_shapes, shape_of


@pytest.fixture(scope="module")
def nvrtc() -> Nvrtc:
    """NVIDIA's run-time compiler, from its wheel."""
    try:
        return Nvrtc()
    except ImportError:
        pytest.skip("needs the nvidia-cuda-nvrtc-cu12 package")


READ = "-fdevice-syntax-only"
"""The compiler's option to read a source, with all templates and static assertions, and to make nothing of it: mistakes
are found in a tenth of a second, where optimised code takes up to ten."""


def others(*cases: tuple) -> list:
    """The same kernels with and without what is rare and what is long the other way round: a compilation takes
    seconds, and all of them are read below."""
    return [pytest.param(*case, marks=pytest.mark.thorough) for case in cases]


def test_all_that_programs_can_ask_for_is_free_of_mistakes(nvrtc: Nvrtc) -> None:
    texts = list(all_texts())
    # Three pairs of dtypes, forward (with exchanges or not) and back, rare, long.
    assert len(set(texts)) == 2 * len(MODULES) + 3 * (2 + 1) * 4
    for number, (code, options) in enumerate(texts):
        nvrtc.ptx(code, (*options, f"-arch=compute_{(80, 90)[number % 2]}", READ))
    # It would tell, inside of a template as well.
    wrong = "template <class T> __device__ T none() { return nothing(T{}); }"
    wrong += "__device__ int some() { return none<int>(); }"
    with pytest.raises(CompileError, match="nothing"):
        nvrtc.ptx(wrong, ("-arch=compute_80", READ))


@pytest.mark.parametrize(
    ("dtype", "generation", "long", "rare"),
    [
        ("complex64", "90", True, False),
        ("complex128", "80", False, True),
        *others(("complex64", "90", False, False), ("complex64", "80", True, True), ("complex128", "80", False, False)),
        *others(("complex64", "90", False, True)),
    ],
)
def test_the_tile_kernel(nvrtc: Nvrtc, dtype: str, generation: str, long: bool, rare: bool) -> None:
    kind = np.dtype(dtype)
    shape = shape_of(kind)
    # One of them with exchanges, whose numbers are arguments as well.
    exchanges = dtype == "complex64" and long and not rare
    code, options = stage_source(kind, shape, rare, long, exchanges)
    text = nvrtc.ptx(code, (*options, f"-arch=compute_{generation}"))
    assert ".entry run_stage(" in text
    # A thread's amplitudes stay in registers: an array that is indexed by a variable would be local memory.
    assert ".local" not in text
    # A tile comes to shared memory in the background, the first one and then the next: in accesses of 16 bytes, or,
    # after a change of index, one amplitude at a time.
    accesses = (1 << shape.registers) // (2 if shape.pairs_up else 1)
    assert text.count("cp.async.cg.shared.global") == 2 * accesses
    assert text.count("cp.async.ca.shared.global") == 2 << shape.registers
    assert text.count("cp.async.wait_all") == 1
    # It goes through shared memory and back to memory in such accesses too. (One more writes two numbers of a shear.)
    wide = ".v4.f32" if shape.pairs_up else ".v2.f64"
    assert text.count(f"st.shared{wide}") == accesses + (dtype == "complex128")
    assert text.count(f"st.global.cs{wide}") == accesses if shape.pairs_up else 2 * accesses
    # Barriers: after copying tables, after finding rotations among matrices, on both sides of the coefficients, after
    # the last reading of a tile, and on both sides of writing it to shared memory; in long stages, on both sides of
    # reading norms.
    assert text.count("bar.sync") == 7 + 2 * long
    # Tables are read through the read-only path of the cache, though their addresses come in a struct.
    assert "ld.global.nc" in text
    assert not re.search(r"ld\.global\.(?!nc)", text)
    # 4x4 matrices are read as arguments: the numbers of a pair and of a matrix, on each pair of register bits.
    pairs = 3 if shape.pairs_up else 2
    assert len(re.findall(r"ld\.param\.(v\d\.)?f\d+", text)) >= pairs * (15 + 32 + 9 * exchanges) // 4


@pytest.mark.parametrize(
    ("dtype", "generation", "long", "rare"),
    [
        ("complex64", "90", True, False),
        *others(("complex128", "90", False, False), ("complex64", "80", False, False), ("complex64", "90", True, True)),
        *others(("complex128", "90", False, True), ("complex64", "80", False, True), ("complex64", "80", True, True)),
    ],
)
def test_the_kernel_of_the_adjoint_sweep(nvrtc: Nvrtc, dtype: str, generation: str, long: bool, rare: bool) -> None:
    kind = np.dtype(dtype)
    shape = back_shape_of(kind)
    code, options = stage_source(kind, shape, rare, long)
    text = nvrtc.ptx(code, (*options, f"-arch=compute_{generation}"))
    assert ".entry run_stage(" in text
    assert ".entry add_partial(" in text
    assert ".local" not in text
    # The tiles of the ket and of the bra come to shared memory in the background, the first ones and then the next, and
    # are written once; sums go to a warp's own place in double.
    whole = ".v2.f32" if dtype == "complex64" else ".v2.f64"
    assert text.count("cp.async.ca.shared.global") == 4 << shape.registers
    assert text.count(f"st.global.cs{whole}") == 2 << shape.registers
    assert "red.global.add.f64" in text or "atom.global.add.f64" in text
    # Ket and bra go to shared memory in accesses of 16 bytes, one for both in single precision. (In double also the bra
    # less a multiple of the ket, and the two numbers of a shear.)
    wide = ".v4.f32" if dtype == "complex64" else ".v2.f64"
    assert text.count(f"st.shared{wide}") == (
        1 << shape.registers if dtype == "complex64" else (3 << shape.registers) + 1
    )
    # An operation's header is read from shared memory, and so are the columns of a phase (for two states that are
    # fetched in two places, for subtracting one from the other, for reading and for writing) and all tables: none is
    # read without knowing where it is.
    assert text.count("ld.shared.v4.u32") == 8 + rare
    assert not re.search(r"\sld\.(v\d\.)?[a-z]\d", text)
    kernel = text[text.index(".entry run_stage(") : text.index(".entry add_partial(")]
    assert not re.search(r"ld\.global\.(?!nc)", kernel)


@pytest.mark.parametrize(("of", "rare"), [(shape_of, True), *others((back_shape_of, False), (back_shape_of, True))])
def test_amplitudes_stored_in_single_precision_are_computed_in_double(nvrtc: Nvrtc, of, rare: bool) -> None:
    shape = of(np.dtype("complex128"))
    code, options = stage_source(np.dtype("complex64"), shape, rare, False)
    text = nvrtc.ptx(code, (*options, "-arch=compute_90"))
    assert ".local" not in text
    # What is read from and written to memory has 8 bytes an amplitude, what is in shared memory 16.
    places = shape.states << shape.registers
    assert "cp.async.c" not in text
    assert text.count("ld.global.cs.v2.f32") == (2 if shape.states == 2 else 4) * places
    assert text.count("st.global.cs.v2.f32") == (1 if shape.states == 2 else 2) * places
    assert ".cs.v2.f64" not in text
    assert "fma.rn.f64" in text
    assert "fma.rn.f32" not in text


KERNELS = {
    "measure": "squared_norm inner permuted_copy swap_positions project reset_bit probabilities leaves add_weighted",
    "pauli": "apply_paulis apply_rows term_values pauli_values_2 pauli_values_4 pauli_values_16",
    "pauli_tiles": "apply_tiles tile_values",
    "moves": "take_part put_part swap_parts set_first combine add_up",
    "rows": "prepare_rows rows_forward rows_backward row_gradients shared_gradients",
    "far_rows": "prepare_far_rows far_rows_forward far_rows_backward",
}


@pytest.mark.parametrize(
    ("module", "dtype", "generation"),
    [
        # Of the long ones one: nearly all of both is in files that they share.
        *((module, "complex64", "80") for module in MODULES if module != "far_rows"),
        *((module, "complex128", "90") for module in MODULES if module not in ("rows", "far_rows")),
        *others(("far_rows", "complex64", "80"), ("rows", "complex128", "90"), ("far_rows", "complex128", "90")),
    ],
)
def test_the_other_kernels(nvrtc: Nvrtc, module: str, dtype: str, generation: str) -> None:
    code, options = source(module, np.dtype(dtype))
    text = nvrtc.ptx(code, (*options, f"-arch=compute_{generation}"))
    assert sorted(re.findall(r"\.entry (\w+)\(", text)) == sorted(KERNELS[module].split())
    if module == "moves":
        assert ".local" not in text
    if module in ("rows", "far_rows"):
        # What a row has in registers stays there; only the reduction of huge angles takes local memory.
        parts = re.split(r"\.(?=entry |func )", text)
        assert not any(".local" in part for part in parts if part.startswith("entry"))


def test_the_smaller_kernel_lacks_what_the_tables_know_as_rare() -> None:
    text = (Path(tables.__file__).parents[1] / "sources/kernel.cuh").read_text()
    rare = "".join(re.findall(r"#if RARE\n(.*?)\n#endif", text, re.DOTALL))
    ops = {OPS[name.lower()] for name in re.findall(r"(?:case|kind ==) (\w+)", rare)}
    assert ops == set(OPS.values()) - tables.COMMON_OPS
    # What is none of the modes that are asked for is the last one.
    modes = {MODES[name.lower()] for name in re.findall(r"mode == (\w+)", rare)}
    assert modes | {MODES["wide"]} == set(MODES.values()) - tables.COMMON_MODES


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_the_compiler_lays_records_out_as_numpy_does(nvrtc: Nvrtc, dtype: str) -> None:
    _, options = source("moves", np.dtype(dtype))
    checked = (*options, "-DCHECK_OFFSETS")
    for module, path in zip((tiles, paulis, rows), headers()):
        code = expanded(path.name)
        fields = sum(len(r.fields) for r in vars(module).values() if isinstance(r, Record))
        assert code.count("OFFSET(") == fields + 1  # Its definition, and each field.
        nvrtc.ptx(code, checked)
    code = expanded("tile_records.cuh")
    # It would tell: a field that NumPy has elsewhere.
    with pytest.raises(CompileError, match="static assertion failed"):
        nvrtc.ptx(code.replace("OFFSET(Phase, end_op) == 4", "OFFSET(Phase, end_op) == 8"), checked)
    with pytest.raises(CompileError, match="size of Launch"):
        nvrtc.ptx(code.replace("Table<int> lists;", "int lists[3];"), checked)


def test_a_source_has_each_file_once_and_messages_name_it(nvrtc: Nvrtc) -> None:
    code = expanded("backward.cu")
    names = re.findall(r'^#line 1 "(.+)"', code, re.MULTILINE)
    folder = Path(texts.__file__).parents[1] / "sources"
    assert sorted(names) == sorted(
        [
            "backward.cu",
            *(
                {path.name for path in folder.glob("*.cuh") if not path.name.startswith("row")}
                - {"states.cuh", "pauli_records.cuh"}
            ),
        ]
    )
    assert "#include" not in code
    _, options = stage_source(np.dtype("complex64"), back_shape_of(np.dtype("complex64")), False, False)
    number = (folder / "kernel.cuh").read_text().splitlines().index("    Turn turn = 0;") + 1
    with pytest.raises(CompileError, match=rf"kernel.cuh\({number}\)"):
        nvrtc.ptx(code.replace("    Turn turn = 0;", "    Turn turn = nothing;"), options)


def test_each_source_includes_what_it_uses(nvrtc: Nvrtc) -> None:
    """As an editor reads it: alone, without the options that the program is compiled with."""
    for path in sorted((Path(texts.__file__).parents[1] / "sources").iterdir()):
        text = path.read_text()
        assert ("#pragma once" in text) == (path.suffix == ".cuh"), path.name
        # Forward kernels have one state.
        options = ("-DREGISTER_BITS=4", "-DSTATES=1", "-DRARE=1", "-DKEEP_NORM=1") if path.stem == "forward" else ()
        nvrtc.ptx(expanded(path.name), ("-std=c++17", "-arch=compute_80", READ, *options))


def test_records_that_changed_are_not_compiled_with_the_old_header(monkeypatch: pytest.MonkeyPatch) -> None:
    for path, text in headers().items():
        assert path.read_text() == text
        monkeypatch.setattr(texts, "headers", lambda new={path: text + "struct More {};"}: headers() | new)
        with pytest.raises(RuntimeError, match=rf"{path.name} is out of date: run python -m"):
            expanded("moves.cu")


def test_records_lie_as_c_lays_them_out() -> None:
    record = Record(
        "Mixed", "", (Field("a", "unsigned short"), Field("b", "Complex"), Field("c", "int", "", ((1, 3),))), 4
    )
    for real_bytes, offsets, size in ((4, (0, 8, 16), 24), (8, (0, 16, 32), 48)):
        dtype = record.dtype_of(real_bytes)
        assert dtype.fields is not None
        assert (tuple(dtype.fields[name][1] for name in "abc"), dtype.itemsize) == (offsets, size)
    assert "int c[(sizeof(Real) == 4 ? 1 : 3)];" in record.struct()
    with pytest.raises(AssertionError, match="depends on the precision"):
        _ = record.dtype
    with pytest.raises(KeyError):
        SWEEP.filled({"bra": 0})
    with pytest.raises(KeyError):
        SWEEP.filled(dict.fromkeys(["bra", "partial", "parities", "weighs", "shifts", "num_sums", "kept"], 0))


def test_kernel_arguments_find_room() -> None:
    for real_bytes in (4, 8):
        taken = (LAUNCH, FORWARD_PLACES, FOURS)
        assert sum(-(-r.dtype_of(real_bytes).itemsize // 16) * 16 for r in taken) <= 4096


@pytest.mark.parametrize(("dtype", "larger"), [("complex64", [12, 13]), ("complex128", [12])])
def test_one_kernel_serves_all_sizes_of_tiles(dtype: str, larger: list[int]) -> None:
    kind = np.dtype(dtype)
    shape, *others = shape_of(kind), *larger_shapes(shape_of(kind))
    assert [other.tile for other in others] == larger
    assert {other.widest for other in others} == {shape.widest}
    for other in others:
        assert stage_source(kind, other, False, False) == stage_source(kind, shape, False, False)
