"""CUDA kernels of rows compiled by the C++ compiler (emulated.hpp), and enough of CuPy on NumPy's arrays to launch
them: what CudaRows does, from its arguments to its results, without a GPU."""

import ctypes
import re
import shutil
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pinned import add_pinned, launched

from qdist.backends.cuda.compiling.texts import source

KERNELS = {
    "rows": ("prepare_rows", "rows_forward", "rows_backward", "row_gradients", "shared_gradients"),
    "far_rows": ("prepare_far_rows", "far_rows_forward", "far_rows_backward"),
}


class Array(np.ndarray):
    """What CuPy's arrays have besides NumPy's members."""

    @property
    def data(self) -> Any:  # type: ignore[override]
        return SimpleNamespace(ptr=self.ctypes.data)

    def get(self) -> np.ndarray:
        return np.array(self)


def there(array: Any, dtype: Any = None) -> Array:
    return np.array(array, dtype, copy=True).view(Array)


class Compiled:
    """A module of kernels for the host's processor."""

    def __init__(self, module: str, dtype: np.dtype, folder: Path) -> None:
        compiler = shutil.which("g++") or shutil.which("c++")
        if compiler is None:
            pytest.skip("needs a C++ compiler")
        code, options = source(module, dtype)
        text = code.replace("extern __shared__ __align__(16) unsigned char memory[];", "").replace(
            "__shared__", "static"
        )
        entries = [
            f'extern "C" void emulate_{name}(const unsigned* g, const unsigned* b, void** a) {{ '
            f"launch({{g[0], 1, 1}}, {{b[0], b[1], 1}}, [=] {{ {name}({_arguments(text, name)}); }}); }}"
            for name in KERNELS[module]
        ]
        path = folder / f"{module}_{dtype.name}.cpp"
        here = Path(__file__).parent
        path.write_text(f'#include "{here}/emulated.hpp"\n{text}\n' + "\n".join(entries))
        defined = [option for option in options if option.startswith("-D")]
        library = path.with_suffix(".so")
        command = [compiler, "-std=c++20", "-w", "-shared", "-fPIC", *defined, str(path), "-o", str(library)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        self._library = ctypes.CDLL(str(library))

    def kernel(self, name: str) -> "Kernel":
        return Kernel(getattr(self._library, f"emulate_{name}"))


def _arguments(text: str, name: str) -> str:
    """A kernel's parameters, read from the array of their addresses."""
    (given,) = re.findall(rf"void (?:__launch_bounds__\(\w+\) )?{name}\(([^)]*)\)", text)
    types = [re.sub(r"\s*\w+$", "", one.replace("const __grid_constant__ ", "")).strip() for one in given.split(",")]
    return ", ".join(f"*reinterpret_cast<{type_}*>(a[{k}])" for k, type_ in enumerate(types))


class Kernel:
    """As CuPy's RawKernel is called."""

    max_dynamic_shared_size_bytes = 48 << 10

    def __init__(self, function: Any) -> None:
        self._function = function

    def __call__(self, grid: tuple[int, ...], block: tuple[int, ...], args: Any, shared_mem: int = 0) -> None:
        assert shared_mem <= self.max_dynamic_shared_size_bytes
        kept = [np.uint64(a.ctypes.data) if isinstance(a, Array) else a for a in args]
        kept = [np.ascontiguousarray(a) for a in kept]
        given = (ctypes.c_void_p * len(kept))(*(a.ctypes.data for a in kept))
        sizes = [(ctypes.c_uint * 3)(*(*size, 1, 1)[:3]) for size in (grid, block)]
        self._function(*sizes, given)


@pytest.fixture(scope="session")
def compiled_rows(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The modules of rows, compiled when they are first asked for."""
    folder, made = tmp_path_factory.mktemp("emulated"), {}

    def kernel(module: str, name: str, dtype: np.dtype, device: int) -> Kernel:
        key = module, np.dtype(dtype).name
        if key not in made:
            made[key] = Compiled(module, np.dtype(dtype), folder), {}
        module_, kernels = made[key]
        return kernels.setdefault(name, module_.kernel(name))

    return kernel


@pytest.fixture
def cupy(compiled_rows: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A stand-in for CuPy, with the kernels of rows. ``launches`` lists the names of those that were started."""
    from qdist.backends.cuda.rows import kernel as rows

    launches: list[str] = []

    def kernel(module: str, name: str, dtype: np.dtype, device: int) -> Any:
        found = compiled_rows(module, name, dtype, device)

        class Counted:
            max_dynamic_shared_size_bytes = found.max_dynamic_shared_size_bytes

            def __call__(self, grid: Any, block: Any, args: Any, shared_mem: int = 0) -> None:
                found.max_dynamic_shared_size_bytes = max(shared_mem, found.max_dynamic_shared_size_bytes)
                copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]

                def call() -> None:
                    launches.append(name)
                    found(grid, block, copies, shared_mem)

                launched(call)

        return Counted()

    card = {"sharedMemPerBlockOptin": 227 << 10, "multiProcessorCount": 2, "l2CacheSize": 50 << 20}
    runtime = SimpleNamespace(getDeviceProperties=lambda number: card, getDeviceCount=lambda: 2)
    cuda = SimpleNamespace(Device=lambda number: nullcontext(), runtime=runtime)
    fake = SimpleNamespace(
        ndarray=Array,
        asarray=there,
        ascontiguousarray=there,
        empty=lambda shape, dtype=np.float64: (
            np.full(shape, 0xAB, np.uint8).view(Array)
            if np.dtype(dtype) == np.uint8
            else there(np.full(shape, np.nan, dtype))
        ),
        zeros=lambda shape, dtype=np.float64: there(np.zeros(shape, dtype)),
        cuda=cuda,
        card=card,
        launches=launches,
    )
    monkeypatch.setitem(sys.modules, "cupy", fake)
    add_pinned(cuda, monkeypatch)
    monkeypatch.setattr(rows, "kernel", kernel)
    rows._with_room.cache_clear()
    yield fake
    rows._with_room.cache_clear()
