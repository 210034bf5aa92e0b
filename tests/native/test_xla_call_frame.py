"""The structs of XLA's call frames are those of the header that jaxlib brings."""

import ctypes
import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import qdist
from qdist.native import kernels

CHECKED = {
    "Extension XLA_FFI_Extension_Base": {"type": "type", "next": "next"},
    "Version XLA_FFI_Api_Version": {
        "extensions": "extension_start",
        "major": "major_version",
        "minor": "minor_version",
    },
    "Metadata XLA_FFI_Metadata": {"version": "api_version", "traits": "traits", "state_type": "state_type_id"},
    "MetadataExtension XLA_FFI_Metadata_Extension": {"metadata": "metadata"},
    "ErrorRequest XLA_FFI_Error_Create_Args": {"message": "message", "code": "errc"},
    "Api XLA_FFI_Api": {"version": "api_version", "create_error": "XLA_FFI_Error_Create"},
    "Buffer XLA_FFI_Buffer": {"dtype": "dtype", "data": "data", "rank": "rank", "dims": "dims"},
    "Operands XLA_FFI_Args": {"size": "size", "types": "types", "values": "args"},
    "Operands XLA_FFI_Rets": {"size": "size", "types": "types", "values": "rets"},
    "Text XLA_FFI_ByteSpan": {"data": "ptr", "size": "len"},
    "Attributes XLA_FFI_Attrs": {"size": "size", "types": "types", "names": "names", "values": "attrs"},
    "CallFrame XLA_FFI_CallFrame": {
        "extensions": "extension_start",
        "api": "api",
        "context": "ctx",
        "stage": "stage",
        "arguments": "args",
        "results": "rets",
        "attributes": "attrs",
    },
}
NUMBERS = {
    "METADATA": "XLA_FFI_Extension_Metadata",
    "INTERNAL": "XLA_FFI_Error_Code_INTERNAL",
    "F32": "XLA_FFI_DataType_F32",
    "F64": "XLA_FFI_DataType_F64",
    "BUFFER": "XLA_FFI_ArgType_BUFFER",
    "STRING": "XLA_FFI_AttrType_STRING",
    "EXECUTE": "XLA_FFI_ExecutionStage_EXECUTE",
}


def test_offsets_and_numbers_are_those_of_the_header(tmp_path: Path) -> None:
    found = importlib.util.find_spec("jaxlib")
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    if found is None or found.origin is None or compiler is None:
        pytest.skip("takes jaxlib and a C++ compiler")
    # qdist's own folder last: both have a folder xla, with different files.
    folders = Path(found.origin).parent / "include", Path(qdist.__file__).parent / "native" / "src"
    header = (folders[0] / "xla" / "ffi" / "api" / "c_api.h").read_text()
    lines = ["#include <cstddef>", '#include "xla/ffi/api/c_api.h"', '#include "xla/call_frame.hpp"']
    for names, fields in CHECKED.items():
        own, theirs = names.split()
        for mine, other in fields.items():
            if other == "state_type_id" and other not in header:
                continue  # The first versions lack it, which the size of what they hand over says.
            lines.append(f"static_assert(offsetof(qdist::xla::{own}, {mine}) == offsetof({theirs}, {other}));")
            size = f"sizeof(qdist::xla::{own}::{mine}) == sizeof({theirs}::{other})"
            lines.append(f"static_assert({size});")
    lines += [f"static_assert(qdist::xla::{mine} == {other});" for mine, other in NUMBERS.items()]
    lines.append("static_assert(XLA_FFI_API_MAJOR == 0 && XLA_FFI_RetType_BUFFER == qdist::xla::BUFFER);")
    source = tmp_path / "compare.cpp"
    source.write_text("\n".join([*lines, ""]))
    command = [compiler, "-std=c++20", "-fsyntax-only", *(f"-I{folder}" for folder in folders), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


class Version(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("next", ctypes.c_void_p), ("major", ctypes.c_int), ("minor", ctypes.c_int)]


class Metadata(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("version", Version), ("traits", ctypes.c_uint32), ("type", ctypes.c_int64)]


class Extension(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("type", ctypes.c_int),
        ("next", ctypes.c_void_p),
        ("metadata", ctypes.POINTER(Metadata)),
    ]


class Api(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("next", ctypes.c_void_p), ("version", Version)]


class Frame(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("extensions", ctypes.POINTER(Extension)),
        ("api", ctypes.POINTER(Api)),
        ("rest", ctypes.c_char * 512),
    ]


@pytest.mark.parametrize(("own", "answer"), [(None, (0, 1)), ((0, 1), (0, 1)), ((0, 7), (0, 7)), ((1, 3), (0, 0))])
def test_the_version_that_xla_is_told(own: tuple[int, int] | None, answer: tuple[int, int]) -> None:
    """XLA's own where the major version fits; of version 0.1, which does not say, that one."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(Frame))(pointer(kernels.xla_function(print), None))
    # The first versions' metadata end before the type of a state.
    metadata = Metadata(size=Metadata.type.offset, type=7)
    extension = Extension(size=ctypes.sizeof(Extension), type=1, metadata=ctypes.pointer(metadata))
    frame = Frame(size=ctypes.sizeof(Frame), extensions=ctypes.pointer(extension))
    if own is not None:
        frame.api = ctypes.pointer(Api(version=Version(major=own[0], minor=own[1])))
    assert function(ctypes.byref(frame)) is None
    assert (metadata.version.major, metadata.version.minor) == answer
    assert metadata.type == 7
