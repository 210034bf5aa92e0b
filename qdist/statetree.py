"""States as trees: nested dicts and lists of tensors, turned into JSON and a table of arrays, and back.

Several ranks may each have a part of one tree, and of one tensor in it (`Part`): `merge` joins what they describe.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .tensor import Tensor

__all__ = ["DTYPES", "PAIRS", "Leaf", "Part", "Path", "Places", "decode", "encode", "merge", "name_tensors"]

Path = tuple[str, ...]

Places = NDArray[np.int64] | slice
"""Places in a flattened tensor, in order; a slice (start, stop) where they follow each other."""

_MAX_DEPTH = 100
"""Of dicts and lists in each other: what is stored can be read on any stack."""

DTYPES = {
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
"""safetensors' names of NumPy's dtypes."""

PAIRS = {"complex64": "float32", "complex128": "float64"}
"""safetensors has no complex numbers: they are stored as pairs of reals along a last axis."""


class Part:
    """A rank's part of a tensor that several ranks hold together.

    Args:
        data: the part, of any shape.
        shape: of the whole tensor.
        places: where in the whole, flattened, each element of the part belongs; int64, as many as `data` has, or the
            slice that they are.
    """

    def __init__(self, data: Any, shape: Sequence[int], places: Places) -> None:
        self.data = data.numpy() if isinstance(data, Tensor) else np.asarray(data)
        self.shape, self.places = tuple(shape), places if isinstance(places, slice) else np.ravel(places)
        count = places.stop - places.start if isinstance(places, slice) else places.size
        if count != self.data.size:
            raise ValueError(f"a part of {self.data.size} elements is given {count} places")


class Leaf(NamedTuple):
    """What this rank has of one tensor."""

    array: np.ndarray
    places: Places | None
    """Of a part; None for a whole tensor."""


def encode(value: Any, leaves: dict[Path, Leaf], path: Path = ()) -> Any:
    """A state as JSON, its arrays moved into `leaves` under their paths.

    Raises TypeError, naming the entry, for what cannot be stored, and ValueError for what is nested too deep.
    """
    where = ".".join(path) or "state"
    if len(path) > _MAX_DEPTH:
        raise ValueError(f"checkpoint entry {where[:80]!r} ... is nested more than {_MAX_DEPTH} deep")
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)  # Also the number of a training's step, which is an int with methods.
    if isinstance(value, float) and not isinstance(value, np.generic):
        # JSON has no infinities; floats go as their exact hexadecimal form.
        return {"float": value.hex()}
    if isinstance(value, dict):
        bad = [key for key in value if not isinstance(key, str)]
        if bad:
            raise TypeError(f"checkpoint entry {where!r} has a key that is not a string: {bad[0]!r}")
        return {"dict": {k: encode(v, leaves, (*path, k)) for k, v in value.items()}}
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [encode(v, leaves, (*path, str(i))) for i, v in enumerate(value)]}
    if isinstance(value, np.generic):
        value = np.asarray(value)
    if isinstance(value, Part):
        return _tensor(value.data, value.shape, value.places, where, leaves, path)
    if isinstance(value, Tensor) or hasattr(value, "__array__"):
        array = value.numpy() if isinstance(value, Tensor) else np.asarray(value)
        return _tensor(array, array.shape, None, where, leaves, path)
    raise TypeError(
        f"checkpoint entry {where!r} is a {type(value).__name__}; only dicts, lists, tensors, arrays, numbers and "
        "strings are stored"
    )


def _tensor(array: np.ndarray, shape: Any, places: Any, where: str, leaves: dict[Path, Leaf], path: Path) -> Any:
    dtype = array.dtype.name
    if PAIRS.get(dtype, dtype) not in DTYPES:
        raise TypeError(f"checkpoint entry {where!r} has dtype {array.dtype}, which is not stored")
    leaves[path] = Leaf(np.asarray(array, order="C"), places)
    return {"tensor": None, "dtype": dtype, "shape": list(shape)}


def merge(trees: Sequence[Any], path: Path = ()) -> Any:
    """One tree of the ranks': dicts have the keys of all, everything else must be the same wherever it is.

    Raises ValueError, naming the entry that differs.
    """
    first = trees[0]
    if all(isinstance(tree, dict) and "dict" in tree for tree in trees):
        keys = dict.fromkeys(key for tree in trees for key in tree["dict"])
        found = {key: [tree["dict"][key] for tree in trees if key in tree["dict"]] for key in keys}
        return {"dict": {key: merge(parts, (*path, key)) for key, parts in found.items()}}
    for kind in ("list", "tuple"):
        if all(isinstance(tree, dict) and len(tree.get(kind, ())) == len(first.get(kind, ())) > 0 for tree in trees):
            items = zip(*(tree[kind] for tree in trees))
            return {kind: [merge(parts, (*path, str(i))) for i, parts in enumerate(items)]}
    other = next((tree for tree in trees if tree != first), first)
    if other != first:
        raise ValueError(f"checkpoint entry {'.'.join(path) or 'state'!r} differs between ranks: {first} and {other}")
    return first


def name_tensors(tree: Any, path: Path = (), taken: dict[str, Path] | None = None) -> dict[str, Path]:
    """Gives every tensor of a tree a readable name that no other has; returns {name: path}, in the tree's order."""
    taken = {"__metadata__": ()} if taken is None else taken
    if isinstance(tree, dict):
        if "tensor" in tree:
            name = ".".join(path) or "state"
            while name in taken:
                name += "_"
            taken[name], tree["tensor"] = path, name
        for key, part in tree.get("dict", {}).items():
            name_tensors(part, (*path, key), taken)
        for i, part in enumerate([*tree.get("list", ()), *tree.get("tuple", ())]):
            name_tensors(part, (*path, str(i)), taken)
    return {name: place for name, place in taken.items() if name != "__metadata__"} if path == () else taken


def decode(tree: Any, tensor: Callable[[dict[str, Any]], Any], depth: int = 0) -> Any:
    """The state of a tree; tensor(note) gives what stands in the place of one: note has "tensor" (its name), "dtype"
    and "shape".

    Raises ValueError for what `encode` does not write.
    """
    if depth > _MAX_DEPTH:
        raise ValueError(f"a state nested more than {_MAX_DEPTH} deep")
    if tree is None or isinstance(tree, (bool, int, str)):
        return tree
    if not isinstance(tree, dict):
        raise ValueError(f"a {type(tree).__name__} where a value was expected")
    if "tensor" in tree:
        return tensor(tree)
    kind, value = next(iter(tree.items()), (None, None))
    if len(tree) == 1 and kind == "float" and isinstance(value, str):
        return float.fromhex(value)
    if len(tree) == 1 and kind == "dict" and isinstance(value, dict):
        return {k: decode(v, tensor, depth + 1) for k, v in value.items()}
    if len(tree) == 1 and kind in ("list", "tuple") and isinstance(value, list):
        items = [decode(v, tensor, depth + 1) for v in value]
        return items if kind == "list" else tuple(items)
    raise ValueError(f"a table of {', '.join(map(repr, list(tree)[:3]))} where a value was expected")
