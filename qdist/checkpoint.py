"""Checkpoints: nested state dicts in one safetensors file, written atomically and verified when read.

The header's metadata also holds the nesting with all numbers and strings, and a SHA-256 of everything. Nothing is
ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from .tensor import Tensor
from .tensorfile import BLANK, CheckpointError, Replacement, header_bytes, read_header

__all__ = ["CheckpointError", "load", "save"]

_NAMES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "uint16": "U16",
    "int16": "I16",
    "uint32": "U32",
    "int32": "I32",
    "uint64": "U64",
    "int64": "I64",
    "float16": "F16",
    "float32": "F32",
    "float64": "F64",
}
_DTYPES = {name: np.dtype(dtype).newbyteorder("<") for dtype, name in _NAMES.items()}
# safetensors has no complex numbers: they are stored as pairs of reals along a last axis.
_PAIRS = {"complex64": np.float32, "complex128": np.float64}


def save(path: str | Path, state: Any) -> None:
    """Write a state to a file.

    Args:
        path: the file; an existing one is replaced only when the new one is complete and on disk.
        state: nested dicts (with string keys), lists and tuples of Tensors, arrays, numbers, strings, bools
            and None.

    Raises:
        TypeError: naming the entry that cannot be stored.
    """
    path = Path(path)
    arrays: dict[str, np.ndarray] = {}
    tree = _encode(state, "", arrays)
    header: dict[str, Any] = {}
    offset = 0
    for name, array in arrays.items():
        spec = {"dtype": _NAMES[array.dtype.name], "shape": list(array.shape)}
        header[name] = {**spec, "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    metadata = {"format": "qdist", "tree": json.dumps(tree), "sha256": BLANK}
    blank = header_bytes(header, metadata)
    digest = hashlib.sha256(blank)
    for array in arrays.values():
        digest.update(_bytes(array))
    head = header_bytes(header, {**metadata, "sha256": digest.hexdigest()})
    _write(path, [head, *(_bytes(array) for array in arrays.values())])


def load(path: str | Path) -> Any:
    """Read a state back: the nesting that was saved, with Tensors on the CPU for tensors and arrays.

    Raises:
        CheckpointError: when the file is cut off, changed, or not a checkpoint.
    """
    path = Path(path)
    with open(path, "rb") as file:
        header, metadata = read_header(path, file)
        data = memoryview(bytearray(file.read()))  # writable, so that loaded tensors can be updated in place
    if metadata.get("format") != "qdist":
        raise CheckpointError(f"{path} is a safetensors file but not a checkpoint of this library")
    stored = metadata.get("sha256", "")
    digest = hashlib.sha256(header_bytes(header, {**metadata, "sha256": BLANK}))
    digest.update(data)
    if digest.hexdigest() != stored:
        raise CheckpointError(f"{path} is damaged: its contents do not match its checksum")
    tensors = {name: _tensor(path, name, entry, data) for name, entry in header.items()}
    return _decode(json.loads(metadata["tree"]), tensors)


def _encode(value: Any, path: str, arrays: dict[str, np.ndarray]) -> Any:
    """Turn a state into JSON, moving its arrays into `arrays` under readable, unique names."""
    if value is None or isinstance(value, (bool, str)) or type(value) in (int, float):
        # JSON has no infinities; floats go as their exact hexadecimal form.
        return {"float": value.hex()} if type(value) is float else value
    if isinstance(value, dict):
        bad = [key for key in value if not isinstance(key, str)]
        if bad:
            raise TypeError(f"checkpoint entry {path or 'state'!r} has a key that is not a string: {bad[0]!r}")
        return {"dict": {k: _encode(v, f"{path}.{k}" if path else k, arrays) for k, v in value.items()}}
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_encode(v, f"{path}.{i}" if path else str(i), arrays) for i, v in enumerate(value)]}
    if isinstance(value, np.generic):
        value = np.asarray(value)
    if isinstance(value, Tensor) or hasattr(value, "__array__"):
        array = value.numpy() if isinstance(value, Tensor) else np.asarray(value)
        note = {"dtype": array.dtype.name}
        if array.dtype.name in _PAIRS:
            array = np.stack([array.real, array.imag], axis=-1)
        if array.dtype.name not in _NAMES:
            raise TypeError(f"checkpoint entry {path or 'state'!r} has dtype {array.dtype}, which is not stored")
        name = path or "state"
        while name in arrays or name == "__metadata__":
            name += "_"
        arrays[name] = np.asarray(array, order="C")
        return {"tensor": name, **note}
    raise TypeError(
        f"checkpoint entry {path or 'state'!r} is a {type(value).__name__}; only dicts, lists, tensors, "
        "arrays, numbers and strings are stored"
    )


def _decode(tree: Any, tensors: dict[str, np.ndarray]) -> Any:
    if not isinstance(tree, dict):
        return tree
    ((kind, value), *rest) = tree.items()
    if kind == "float":
        return float.fromhex(value)
    if kind == "dict":
        return {k: _decode(v, tensors) for k, v in value.items()}
    if kind == "tensor":
        array = tensors[value]
        dtype = dict(rest)["dtype"]
        return Tensor(array.view(dtype).reshape(array.shape[:-1]) if dtype in _PAIRS else array)
    items = [_decode(v, tensors) for v in value]
    return items if kind == "list" else tuple(items)


def _bytes(array: np.ndarray) -> memoryview:
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return little.reshape(-1).view(np.uint8).data


def _tensor(path: Path, name: str, entry: Any, data: memoryview) -> np.ndarray:
    dtype, shape = _DTYPES[entry["dtype"]], tuple(entry["shape"])
    start, stop = entry["data_offsets"]
    if not 0 <= start <= stop <= len(data) or stop - start != math.prod(shape) * dtype.itemsize:
        raise CheckpointError(f"{path}: {name} claims bytes {start} to {stop} of {len(data)} for shape {shape}")
    return np.frombuffer(data[start:stop], dtype).reshape(shape).astype(dtype.newbyteorder("="), copy=False)


def _write(path: Path, parts: list[Any]) -> None:
    replacement = Replacement(path)
    try:
        with open(replacement.temporary, "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        replacement.commit()
    except BaseException:
        replacement.discard()
        raise
