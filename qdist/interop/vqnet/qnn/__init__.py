"""VQNet's `qnn`: of it the functional gates and the measurement, `qnn.vqc`."""

from . import vqc

__all__ = ["vqc"]
