"""Tensor: an array that remembers how it was made."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterator
from threading import Lock
from typing import Any

import numpy as np

from qdist.locks import open_in_forks
from qdist.native import kernels

from . import arrays
from .arrays import MODULES, Array, is_array
from .autograd import PICK, Hook, Node, mode, refuse_second_order, run_on, walk
from .half import in_half
from .in_place import InPlace
from .kernels.landing import only_number
from .kernels.shaping import PLACE
from .methods import Methods
from .operands import promote, shared_module
from .operators import Operators
from .rules import RULES, Rule
from .versions import Version, held_elsewhere, shares

_SCALARS = (float, int, bool, complex)
_new: Any = object.__new__
_accumulating = open_in_forks(Lock())  # backward passes of several threads may reach the same leaf


def pick_outputs(node: Node, outputs: tuple[Tensor, ...], xp: Any) -> None:
    """Give each output of an operation that has several a Node of its own."""
    for i, out in enumerate(outputs):
        out._node = Node(PICK, (node,), {"index": i, "total": len(outputs)}, (), (), xp, out._data)
        out.requires_grad = True


def _owner(saved: Array, inputs: tuple[Any, ...], made: Any) -> Tensor | None:
    """The tensor that a saved array is a part of, if it is not an array of the operation's own."""
    outputs = made if isinstance(made, tuple) else (made,)
    return next((x for x in (*inputs, *outputs) if isinstance(x, Tensor) and shares(saved, x._data)), None)


def _wrap(xp: Any, array: Array, version: Version | None) -> Tensor:
    """A Tensor around the result of an operation, which NumPy may have made a scalar."""
    tensor: Tensor = _new(Tensor)
    tensor._data = array if is_array(array) else xp.asarray(array)
    tensor._version = Version() if version is None else version
    return tensor


def _operand(x: Any) -> Any:
    """A NumPy scalar counts as the Python scalar it stands for: it does not change an array's precision."""
    if isinstance(x, Tensor) or x.__class__ in _SCALARS:
        return x
    if isinstance(x, (np.generic, numbers.Number)):
        return x.item() if isinstance(x, np.generic) else complex(x)  # type: ignore[call-overload]
    return Tensor(x)


class Tensor(Operators, Methods, InPlace):
    """An n-dimensional array with gradients.

    Args:
        data: an array (NumPy or CuPy, taken as it is, not copied), a number, or nested lists. Python floats
            and lists become float32, complex numbers complex64, ints int64.
        requires_grad: gather a gradient in `.grad` when backward() reaches this tensor.
        dtype: convert to this dtype.
        device: "cpu", "cuda" or "cuda:<index>"; None leaves the data where it is.

    Raises:
        TypeError: for data that is not numbers, or requires_grad on integers.

    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad.tolist()
    [2.0, 4.0]
    """

    __array_ufunc__ = None  # array + Tensor asks the Tensor

    _data: Array
    _version: Version
    # A sub-class that runs operations in a way of its own: dispatch(rule, inputs, attributes) -> tensor(s).
    dispatch: Callable[..., Any] | None = None
    # Class-level defaults keep the making of a tensor cheap: most never set these.
    requires_grad: bool = False
    grad: Tensor | None = None
    _node: Node | None = None
    wide_gradient: bool = False  # Of a half-precision leaf: its gradient is float32, never rounded.
    _hooks: list[Hook] | None = None
    _complete: list[Callable[[Tensor], None]] | None = None

    def __init__(self, data: Any, requires_grad: bool = False, *, dtype: Any = None, device: str | None = None) -> None:
        given = data
        if isinstance(data, Tensor):
            given = data._data if data.dispatch is None else data.numpy()
        array = arrays.as_array(given, None if dtype is None else arrays.as_dtype(dtype))
        self._data = array if device is None else arrays.to_device(array, device)
        if isinstance(data, Tensor) and self._data is data._data:
            self._version = data._version
        else:
            self._version = Version()
            self._version.outside = self._data is given
        if requires_grad:
            self.requires_grad_()

    def __getstate__(self) -> dict[str, Any]:
        # Hooks are of this tensor: those that combine gradients over ranks would follow copies and pickles too.
        return {name: value for name, value in self.__dict__.items() if name not in ("_hooks", "_complete")}

    # What it is

    @property
    def data(self) -> Array:
        """The array itself. Assigning (also `t.data -= step`) bypasses the graph and counts as a change; writes to the
        array are found by comparing, in the backward pass that would need what was there before."""
        self._version.leave()
        return self._data

    @data.setter
    def data(self, value: Any) -> None:
        self._data = value._data if isinstance(value, Tensor) else arrays.as_array(value)
        self._version.outside = True
        self._version.changed()

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""
        return self._data.shape

    @property
    def dtype(self) -> np.dtype:
        """NumPy's dtype of the elements."""
        return self._data.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._data.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._data.size

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._data.nbytes

    @property
    def device(self) -> str:
        """ "cpu" or "cuda:<index>"."""
        return arrays.device_of(self._data)

    @property
    def is_leaf(self) -> bool:
        """Whether this tensor was given, not computed from others that want gradients."""
        return self._node is None

    @property
    def node(self) -> Node | None:
        """The operation that made it: rule, inputs and attributes; None for a leaf."""
        return self._node

    @property
    def version(self) -> int:
        """How many times the data has been changed in place, as far as Tensors know."""
        return self._version.count

    def __repr__(self) -> str:
        body = np.array2string(self.numpy(), separator=", ", prefix="Tensor(", threshold=100)
        notes = "" if self.dtype == arrays.FLOAT32 else f", dtype={self.dtype}"
        notes += "" if self.device == "cpu" else f", device={self.device!r}"
        return f"Tensor({body}{notes}{', requires_grad=True' if self.requires_grad else ''})"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a 0-dimensional tensor has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        return bool(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    # Out of the library and back

    def numpy(self) -> np.ndarray:
        """The values as a NumPy array, outside the graph: the same memory on the CPU, a copy from a GPU."""
        array = arrays.to_device(self._data, "cpu")
        if array is self._data:
            self._version.leave()
        return array

    def item(self) -> Any:
        """The only element, as a Python number."""
        if self._data.size != 1:
            raise ValueError(f"item() needs exactly one element; this tensor has shape {self.shape}")
        version = self._version
        return only_number(self._data, unchanged=not (version.outside or version.count))

    def tolist(self) -> Any:
        """The values as (nested) Python numbers."""
        return self._data.tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        converted = array if dtype is None else array.astype(dtype, copy=False)
        return converted.copy() if copy and converted is array else converted

    def __dlpack__(self, **options: Any) -> Any:
        if self.requires_grad:
            raise BufferError("a tensor that wants gradients is not exported; export t.detach()")
        self._version.leave()
        return self._data.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._data.__dlpack_device__()

    # Gradients

    def requires_grad_(self, flag: bool = True) -> Tensor:
        """Switch gradients of a leaf on or off; returns itself."""
        if self._node is not None:
            raise RuntimeError("only a leaf can change requires_grad; use detach() to cut a computed tensor off")
        if flag and not arrays.is_inexact(self.dtype):
            raise TypeError(f"only real and complex floating tensors have gradients, not {self.dtype}")
        self.requires_grad = flag
        return self

    @property
    def stop_gradient(self) -> bool:
        """Paddle's word for the opposite of requires_grad; may be assigned, for a leaf."""
        return not self.requires_grad

    @stop_gradient.setter
    def stop_gradient(self, flag: bool) -> None:
        if bool(flag) is self.requires_grad:
            self.requires_grad_(not flag)

    def detach(self) -> Tensor:
        """The same data, outside the graph."""
        return _wrap(arrays.module_of(self._data), self._data, self._version)

    def backward(self, gradient: Any = None, *, retain_graph: bool = False, create_graph: bool = False) -> None:
        """Add the derivative of this tensor to the .grad of every leaf it depends on.

        Args:
            gradient: the cotangent of this tensor, same shape; 1 for a single element when not given.
            retain_graph: keep the graph for another backward(); it is freed otherwise.
            create_graph: gradients of gradients are not provided; True raises NotImplementedError.

        The gradient of a complex tensor z is dL/dRe(z) + i dL/dIm(z), so -grad is the direction of descent.
        """
        refuse_second_order(create_graph)
        walk([(self._edge(), self._cotangent(gradient))], retain_graph)

    def _edge(self) -> Any:
        if not self.requires_grad:
            raise RuntimeError("this tensor does not depend on any tensor with requires_grad=True")
        return self if self._node is None else self._node

    def _cotangent(self, gradient: Any) -> Array:
        if gradient is None:
            if self._data.size != 1:
                raise ValueError(f"backward() of a tensor of shape {self.shape} needs a gradient of that shape")
            return arrays.one_like(self._data)
        array = arrays.as_array(gradient._data if isinstance(gradient, Tensor) else gradient, self.dtype)
        if array.shape != self.shape:
            raise ValueError(f"the gradient has shape {array.shape}, the tensor {self.shape}")
        return array

    def _accumulate(self, g: Array, owned: bool) -> None:
        """Take a leaf's complete gradient of one backward pass."""
        if not self.requires_grad:  # Frozen since the forward pass.
            return
        with _accumulating:
            if self.grad is None:
                # What other edges may hold too is copied, so that changing one .grad never changes another.
                self.grad = grad = _wrap(np, g if owned else g.copy(), None)
                grad._version.outside = True  # A hook may have kept it.
            elif arrays.is_half(self.grad.dtype):
                # Passes are added up in float32, from the second on.
                self.grad = Tensor(self.grad._data.astype(arrays.FLOAT32) + g)
            else:
                self.grad._data += g
                self.grad._version.changed()
        if self._complete:
            for hook in tuple(self._complete):
                hook(self)

    def register_hook(self, hook: Hook) -> Callable[[], None]:
        """Call hook(gradient) with this tensor's gradient in every backward pass, before it goes further.

        The hook may return a replacement; it must not change the gradient in place, which others may share.
        Returns a function that removes the hook.
        """
        if not self.requires_grad:
            raise RuntimeError("a hook needs a tensor with requires_grad=True")
        owner: Any = self._node
        if owner is not None:
            owner.hooks = owner.hooks or []
            return _enlist(owner.hooks, hook)
        self._hooks = self._hooks or []
        return _enlist(self._hooks, hook)

    def register_post_accumulate_hook(self, hook: Callable[[Tensor], None]) -> Callable[[], None]:
        """Call hook(tensor) when a backward pass has completed this leaf's .grad, while the pass goes on.

        It fires once a pass, after the last contribution. Returns a function that removes the hook.
        """
        if not self.requires_grad or self._node is not None:
            raise RuntimeError("a post-accumulate hook needs a leaf with requires_grad=True")
        self._complete = self._complete or []
        return _enlist(self._complete, hook)

    def retain_grad(self) -> Tensor:
        """Keep the gradient of a computed tensor, as its hooks leave it, in .grad as well; returns itself."""
        if self._node is not None and not any(_keeps(hook) for hook in self._node.hooks or ()):
            self.register_hook(_Keeping(self))
        return self

    # Changes in place

    def assign(self, value: Any) -> Tensor:
        """Overwrite the values in place (same shape), outside the graph; returns itself."""
        array = Tensor(value, dtype=self.dtype)._data
        if array.shape != self.shape:
            raise ValueError(f"cannot assign shape {array.shape} to a tensor of shape {self.shape}")
        self[...] = array
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        if self._node is not None or (self.requires_grad and mode.grad):
            raise RuntimeError(
                "writing into a tensor that takes part in differentiation would falsify its gradient; "
                "use where() or scatter_add(), or write to a leaf inside no_grad()"
            )
        self._data[_plain_key(key)] = value._data if isinstance(value, Tensor) else value
        self._version.changed()

    # Operations; the signs for them are in operators.py, the names in methods.py

    _run: Callable[..., Any]

    def __getitem__(self, key: Any) -> Tensor:
        parts = key if isinstance(key, tuple) else (key,)
        template, inputs = [], []
        for part in parts:
            if isinstance(part, (Tensor, list)) or arrays.is_array(part):
                tensor = part if isinstance(part, Tensor) else Tensor(part)
                if tensor.size == 0 and isinstance(part, list):
                    tensor = tensor.to(np.int64)  # Which NumPy gives to an empty list alone.
                if tensor.dtype.kind not in "biu":
                    raise TypeError(f"an index must be integers or a mask, not {tensor.dtype}")
                template.append(PLACE)
                inputs.append(tensor)
            else:
                template.append(part)
        return apply("index", self, *inputs, key=tuple(template))


apply: Callable[..., Any] = kernels.make_apply(
    {
        "rules": RULES,
        "mode": mode,
        "numpy": np,
        "modules": MODULES,
        "Tensor": Tensor,
        "Node": Node,
        "Rule": Rule,
        "Version": Version,
        "ndarray": np.ndarray,
        "dtype": np.dtype,
        "operand": _operand,
        "promote": promote,
        "shared_module": shared_module,
        "in_half": in_half,
        "held_elsewhere": held_elsewhere,
        "run_on": run_on,
        "is_array": is_array,
        "is_inexact": arrays.is_inexact,
        "owner_of": _owner,
        "pick": pick_outputs,
    }
)
Tensor._run = apply


def _plain_key(key: Any) -> Any:
    if isinstance(key, tuple):
        return tuple(_plain_key(part) for part in key)
    return key._data if isinstance(key, Tensor) else key


class _Keeping:
    """The hook of retain_grad()."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    def __call__(self, gradient: Tensor) -> None:
        self._tensor._accumulate(gradient._data, False)


def _keeps(hook: Any) -> bool:
    return isinstance(hook, _Keeping)


def _enlist(hooks: list, hook: Any) -> Callable[[], None]:
    # What keeps the gradient comes after what changes it.
    hooks.insert(len(hooks) - bool(hooks and _keeps(hooks[-1])), hook)

    def remove() -> None:
        if hook in hooks:
            hooks.remove(hook)

    return remove
