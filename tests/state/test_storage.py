"""Saved states: exact, atomic, and never silently wrong. tests/state/ranks has the same on several ranks."""

import os
from pathlib import Path

import numpy as np
import pytest
from states import DTYPES, address, random_ket, random_layout

from qdist.checkpoint import CheckpointError
from qdist.state import StateVector, storage
from qdist.state.devices import on_host


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 3, 12])
def test_a_state_comes_back_exactly(tmp_path: Path, n: int, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Small blocks, so that there are several.
    monkeypatch.setattr(storage, "_SMALLEST_BLOCK", 256)
    state = StateVector.from_amplitudes(random_ket(n), dtype, layout=random_layout(n))
    state.save(tmp_path / "state")
    again = StateVector.load(tmp_path / "state")
    assert (again.dtype, again.layout) == (state.dtype, state.layout)
    assert np.array_equal(on_host(again.local), on_host(state.local))
    assert address(again.local) % 64 == 0
    assert os.listdir(tmp_path) == ["state"]


def test_every_flipped_byte_and_truncation_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "state"
    StateVector.from_amplitudes(random_ket(3)).save(path)
    raw = path.read_bytes()
    for position in range(len(raw)):
        changed = bytearray(raw)
        changed[position] ^= 0x01
        path.write_bytes(changed)
        with pytest.raises(CheckpointError, match=r"damaged|cut off|not a checkpoint|holds no state"):
            StateVector.load(path)
    for length in (0, 7, 8, 100, len(raw) - 1):
        path.write_bytes(raw[:length])
        with pytest.raises(CheckpointError):
            StateVector.load(path)
    path.write_bytes(raw + b"\0")
    with pytest.raises(CheckpointError, match="1 bytes too long"):
        StateVector.load(path)


def test_a_failed_save_leaves_the_old_file_and_no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state"
    StateVector.basis(3, 5).save(path)

    def full(_: int) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="no space"):
            StateVector(3).save(path)
    assert os.listdir(tmp_path) == ["state"]
    assert StateVector.load(path).amplitude(5) == 1


def test_the_safetensors_library_reads_the_file(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    ket = random_ket(4)
    StateVector.from_amplitudes(ket).save(tmp_path / "state")
    pairs = safetensors.load_file(tmp_path / "state")["amplitudes"]
    np.testing.assert_array_equal(pairs[:, 0] + 1j * pairs[:, 1], ket)
