"""torch.nn's names: this library's modules, DataParallel, and `parallel` and `functional` below it."""

from .....nn import *  # noqa: F403
from .....nn import __all__ as _modules
from ...local_devices import DataParallel
from . import functional, parallel

__all__ = [*_modules, "DataParallel", "functional", "parallel"]
