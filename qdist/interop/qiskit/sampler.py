"""Sampler: samples of classical registers by Qiskit's V2 interface."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from qiskit import QiskitError
from qiskit.primitives import BaseSamplerV2, BitArray, DataBin, PrimitiveJob, PrimitiveResult, SamplerPubResult
from qiskit.primitives.containers.sampler_pub import SamplerPub, SamplerPubLike

from qdist.comm import Communicator

from .jobs import submitted
from .programs import Programs, common_seed
from .sampling import numpy_choice

__all__ = ["Sampler"]


class Sampler(BaseSamplerV2):
    """Samples of the classical registers of circuits, which may measure, reset and branch in their middle.

    Where circuits measure only at their end, all bindings of a PUB run as one batch, and one run serves all shots.
    Under ``mpirun`` every rank runs the script, the states are split, and every rank gets every result.

    Args:
        default_shots: where a run or PUB names none.
        seed: an int or a generator: every binding starts a stream of its own from an int.
        comm: the ranks that share the states; None takes all of this job.
        device: "cpu", "cuda", "cuda:N" or "auto".
        dtype: of the amplitudes, complex128 or complex64.
    """

    def __init__(
        self,
        *,
        default_shots: int = 1024,
        seed: np.random.Generator | int | None = None,
        comm: Communicator | None = None,
        device: str = "auto",
        dtype: Any = np.complex128,
    ) -> None:
        self._default_shots, self._seed = default_shots, seed
        self._programs = Programs(comm, device, dtype)

    @property
    def default_shots(self) -> int:
        """Shots of PUBs that name no number of their own."""
        return self._default_shots

    @property
    def seed(self) -> np.random.Generator | int | None:
        """What samples are drawn with, as it was given."""
        return self._seed

    def run(
        self, pubs: Iterable[SamplerPubLike], *, shots: int | None = None
    ) -> PrimitiveJob[PrimitiveResult[SamplerPubResult]]:
        coerced = [SamplerPub.coerce(pub, self._default_shots if shots is None else shots) for pub in pubs]
        if any(len(pub.circuit.cregs) == 0 for pub in coerced):
            warnings.warn(
                "One of your circuits has no output classical registers and so the result "
                "will be empty. Did you mean to add measurement instructions?",
                UserWarning,
                stacklevel=2,
            )
        return submitted(self._programs.comm, self._run, coerced)

    def _run(self, pubs: list[SamplerPub]) -> PrimitiveResult[SamplerPubResult]:
        return PrimitiveResult([self._run_pub(pub) for pub in pubs], metadata={"version": 2})

    def _run_pub(self, pub: SamplerPub) -> SamplerPubResult:
        sampling, parameters = self._programs.read(pub.circuit).sampling, pub.circuit.parameters
        shape = pub.parameter_values.shape
        theta = np.asarray(pub.parameter_values.as_array(parameters), float)
        theta = theta.reshape(math.prod(shape), len(parameters))
        if not sampling.measures and any(item.is_control_flow() for item in pub.circuit):
            raise QiskitError("the circuit branches or loops and measures nothing: there is nothing to sample from it")
        bits, _ = sampling.sampled(theta, pub.shots, self._rng, numpy_choice)
        table = bits.reshape(*shape, *bits.shape[1:])
        found = {}
        for register in pub.circuit.cregs:
            places = [pub.circuit.find_bit(bit).index for bit in register]
            found[register.name] = BitArray(_packed(table[..., places]), register.size)
        return SamplerPubResult(
            DataBin(**found, shape=shape), metadata={"shots": pub.shots, "circuit_metadata": pub.circuit.metadata}
        )

    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(common_seed(self._seed, self._programs.comm))


def _packed(bits: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Bits, the lowest first, as BitArray has them: bytes, the highest first, padded on the left."""
    size = bits.shape[-1]
    padded = np.concatenate([np.zeros((*bits.shape[:-1], -size % 8), np.uint8), bits[..., ::-1]], axis=-1)
    return np.packbits(padded, axis=-1)
