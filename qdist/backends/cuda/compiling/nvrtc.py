"""NVIDIA's run-time compiler by its C interface: compiles CUDA sources without a GPU and without a CUDA toolkit."""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path

__all__ = ["CompileError", "Nvrtc"]


class CompileError(RuntimeError):
    """A source that does not compile, with the compiler's messages."""


class Nvrtc:
    """The library of NVRTC's wheel, or else of an installed toolkit. Raises ImportError where there is neither."""

    path: str
    """Of the library, or its name where the system's loader has found it."""

    def __init__(self) -> None:
        for path in _places():
            try:
                # It opens this other library by its name alone, and the wheels of CUDA 13 do not say where to look.
                beside = Path(path).parent.glob("libnvrtc-builtins.so.*") if Path(path).is_absolute() else ()
                for builtins in beside:
                    ctypes.CDLL(str(builtins))
                self._library, self.path = ctypes.CDLL(path), path
                return
            except OSError:
                continue
        raise ImportError(
            "NVRTC is not installed: pip install nvidia-cuda-nvrtc-cu12 (45 MB; no GPU and no CUDA toolkit needed)"
        )

    @property
    def version(self) -> tuple[int, int]:
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        return major.value, minor.value

    @property
    def architectures(self) -> list[int]:
        """Those it can compile for, as 90 for compute capability 9.0."""
        count = ctypes.c_int()
        self._library.nvrtcGetNumSupportedArchs(ctypes.byref(count))
        found = (ctypes.c_int * count.value)()
        self._library.nvrtcGetSupportedArchs(found)
        return list(found)

    def cubin(self, code: str, options: Sequence[str], architecture: int) -> bytes:
        """Machine code. Raises CompileError."""
        return self._compiled(code, (*options, f"-arch=sm_{architecture}"), "CUBIN")

    def ptx(self, code: str, options: Sequence[str]) -> str:
        """NVIDIA's portable assembly. Raises CompileError."""
        return self._compiled(code, options, "PTX").rstrip(b"\0").decode()

    def _compiled(self, code: str, options: Sequence[str], what: str) -> bytes:
        program = ctypes.c_void_p()
        made = self._library.nvrtcCreateProgram(ctypes.byref(program), code.encode(), b"source.cu", 0, None, None)
        assert made == 0, f"NVRTC error {made}"
        given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        failed = self._library.nvrtcCompileProgram(program, len(options), given)
        try:
            if failed:
                raise CompileError(self._read(program, "ProgramLog").rstrip(b"\0").decode())
            return self._read(program, what)
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def _read(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        assert getattr(self._library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)) == 0
        found = ctypes.create_string_buffer(size.value)
        assert getattr(self._library, f"nvrtcGet{what}")(program, found) == 0
        return found.raw


def _places() -> Iterator[str]:
    """Libraries to try: those of wheels for CUDA 12 and 13, then what the system's loader finds."""
    nvidia = importlib.util.find_spec("nvidia")
    for folder in () if nvidia is None else nvidia.submodule_search_locations or ():
        yield from map(str, sorted(Path(folder).glob("c*/lib/libnvrtc.so.*"), reverse=True))
    if found := ctypes.util.find_library("nvrtc"):
        yield found
    yield from ("libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so")
