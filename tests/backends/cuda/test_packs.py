"""Kernels compiled ahead: which are found for which GPU, what is out of date, and what makes them."""

import subprocess
import sys
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from qdist.backends.cuda import compiler
from qdist.backends.cuda.compiling import __main__ as command
from qdist.backends.cuda.compiling import packs
from qdist.backends.cuda.compiling.nvrtc import CompileError, Nvrtc
from qdist.backends.cuda.compiling.texts import MODULES, all_texts, source, stage_source
from qdist.backends.cuda.target import CudaTarget, cuda_target
from qdist.comm import cuda_devices

TEXT = ("__global__ void f() {}", ("-std=c++17", "-DReal=float"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where packs are looked for."""
    monkeypatch.setattr(packs, "FOLDER", tmp_path)
    return tmp_path


@pytest.fixture
def nvrtc() -> Nvrtc:
    try:
        return Nvrtc()
    except ImportError:
        pytest.skip("needs the nvidia-cuda-nvrtc-cu12 package")


def test_a_compiler_that_does_not_look_beside_itself_finds_its_other_half(nvrtc: Nvrtc, tmp_path: Path) -> None:
    # The wheels of CUDA 13, which PyTorch brings, have no run path.
    wheel, copy = Path(nvrtc.path).parent, tmp_path / "nvidia" / "cu13" / "lib"
    if not wheel.is_absolute():
        pytest.skip("needs the nvidia-cuda-nvrtc-cu12 package")
    copy.mkdir(parents=True)
    for library in wheel.glob("libnvrtc*.so.*"):
        (copy / library.name).write_bytes(library.read_bytes().replace(b"$ORIGIN", b"/nowher"))
    code = f"""if True:
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        from qdist.backends.cuda.compiling.nvrtc import Nvrtc
        nvrtc = Nvrtc()
        assert nvrtc.path.startswith({str(tmp_path)!r}), nvrtc.path
        nvrtc.cubin("__global__ void f() {{}}", (), 90)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_cubin_runs_on_later_gpus_of_its_major_version_alone(folder: Path) -> None:
    for architecture in (80, 90):
        packs.write(architecture, [(packs.digest(*TEXT), b"for %d" % architecture)], folder)
    found = {capability: packs.cubin(*TEXT, capability) for capability in (75, 80, 86, 89, 90, 100)}
    assert found == {75: None, 80: b"for 80", 86: b"for 80", 89: b"for 80", 90: b"for 90", 100: None}
    packs.write(86, [(packs.digest(*TEXT), b"for 86")], folder)
    assert packs.cubin(*TEXT, 89) == b"for 86"


def test_what_is_out_of_date_is_not_found(folder: Path) -> None:
    code, options = TEXT
    packs.write(90, [(packs.digest(*TEXT), b"this one")], folder)
    assert packs.cubin(code, options, 90) == b"this one"
    assert packs.cubin(code + " ", options, 90) is None
    assert packs.cubin(code, (*options, "-DMORE"), 90) is None
    assert packs.cubin(code, options[::-1], 90) is None
    packs.write(90, [], folder)
    assert packs.cubin(*TEXT, 90) is None


def test_a_broken_pack_is_as_none(folder: Path) -> None:
    (folder / "sm_90.zip").write_bytes(b"PK and then nothing")
    assert packs.cubin(*TEXT, 90) is None


def shapes(target: CudaTarget) -> Any:
    for one in (target, target.widened()):
        assert isinstance(one, CudaTarget)
        yield one.shape
        yield from (back.shape for back in one.backward() if isinstance(back, CudaTarget))


def test_packs_have_all_that_programs_ask_for() -> None:
    made = {packs.digest(*text) for text in all_texts()}
    asked = set()
    for dtype in map(np.dtype, ("complex64", "complex128")):
        asked |= {packs.digest(*source(module, dtype)) for module in MODULES}
        for shape in shapes(cuda_target(dtype)):
            for variant in product((False, True), (False, True), (False, True) if shape.states == 1 else (False,)):
                asked.add(packs.digest(*stage_source(dtype, shape, *variant)))
    assert made == asked


def test_the_command_compiles_for_gpus_that_are_not_here(
    nvrtc: Nvrtc, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = source("moves", np.dtype("complex64"))
    monkeypatch.setattr(command, "all_texts", lambda: iter([text]))
    command.main(["--arch", "80", "90", "--to", str(folder), "--jobs", "1"])
    assert sorted(path.name for path in folder.iterdir()) == ["sm_80.zip", "sm_90.zip"]
    assert "sm_90.zip: 1 kernels" in capsys.readouterr().out
    found = [packs.cubin(*text, capability) for capability in (80, 90)]
    assert all(cubin is not None and cubin.startswith(b"\x7fELF") and b"take_part" in cubin for cubin in found)
    assert found[0] != found[1]
    with pytest.raises(SystemExit, match=r"cannot compile for \[9\]; it knows \[.*90"):
        command.main(["--arch", "9", "--to", str(folder)])


def test_a_source_that_does_not_compile_writes_no_pack(
    nvrtc: Nvrtc, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "all_texts", lambda: iter([("nonsense", ())]))
    with pytest.raises(CompileError, match="nonsense"):
        command.main(["--arch", "80", "--to", str(folder), "--jobs", "1"])
    assert not (folder / "sm_80.zip").exists()


def test_a_wheel_is_built_before_the_package_can_be_imported() -> None:
    script = Path(packs.__file__).with_name("at_build.py")
    code = f"import runpy, sys; runpy.run_path({str(script)!r}); print(sorted(m for m in sys.modules if 'qdist' in m))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    assert "qdist.backends.cuda.compiling.__main__" in done.stdout
    assert "qdist.native" not in done.stdout
    assert "mpi4py" not in done.stdout


class FakeModule:
    """In place of cupy.cuda.function.Module. too_new: what the driver refuses."""

    too_new = b""

    def load(self, cubin: bytes) -> None:
        if cubin == self.too_new:
            raise FakeDriver.CUDADriverError
        self.cubin = cubin

    def get_function(self, name: str) -> Any:
        return SimpleNamespace(ptr=(self.cubin, name))


class FakeDriver:
    CUDADriverError = type("CUDADriverError", (RuntimeError,), {})
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
    attributes: dict[Any, int] = {}  # noqa: RUF012

    @classmethod
    def funcSetAttribute(cls, function: Any, attribute: int, value: int) -> None:
        cls.attributes[function, attribute] = value

    @classmethod
    def funcGetAttribute(cls, attribute: int, function: Any) -> int:
        return cls.attributes[function, attribute]


def test_kernels_come_from_a_pack_or_are_compiled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    function = SimpleNamespace(Module=FakeModule)
    device = SimpleNamespace(compute_capability="90")
    cuda = SimpleNamespace(function=function, driver=FakeDriver, Device=lambda number: device)
    cupy = SimpleNamespace(cuda=cuda, RawModule=lambda **given: given)
    for name, module in (("cupy", cupy), ("cupy.cuda", cuda), ("cupy.cuda.function", function)):
        monkeypatch.setitem(sys.modules, name, module)
    assert compiler._loaded(TEXT, 0) == {"code": TEXT[0], "options": TEXT[1], "backend": "nvrtc"}
    packs.write(90, [(packs.digest(*TEXT), b"machine code")], folder)
    kernel = compiler._loaded(TEXT, 0).get_function("f")
    kernel.max_dynamic_shared_size_bytes = 1000
    assert FakeDriver.attributes == {((b"machine code", "f"), 8): 1000}
    assert kernel.max_dynamic_shared_size_bytes == 1000
    # A driver that is too old for it compiles, as it would without.
    monkeypatch.setattr(FakeModule, "too_new", b"machine code")
    assert compiler._loaded(TEXT, 0)["code"] == TEXT[0]


@pytest.mark.gpu
@pytest.mark.skipif(cuda_devices() == 0, reason="no CUDA device")
def test_kernels_of_a_pack_run(nvrtc: Nvrtc, folder: Path) -> None:
    import cupy

    capability = int(cupy.cuda.Device(0).compute_capability)
    dtype = np.dtype("complex64")
    texts = [source("measure", dtype), source("moves", dtype)]
    packs.write(capability, [command.compiled(text, capability) for text in texts], folder)
    module = compiler._loaded(texts[0], 0)
    assert isinstance(module, compiler._Module)
    x = cupy.arange(1000, dtype=dtype)
    sums = cupy.zeros(4)
    module.get_function("squared_norm")((4,), (256,), (x, np.uint64(x.size), sums))
    assert float(sums.sum()) == float((np.arange(1000.0) ** 2).sum())
    tile = module.get_function("squared_norm")
    tile.max_dynamic_shared_size_bytes = 60 << 10
    assert tile.max_dynamic_shared_size_bytes == 60 << 10
