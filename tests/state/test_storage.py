"""Saved states: exact, atomic, and never silently wrong. tests/state/ranks has the same on several ranks."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from states import DTYPES, address, random_ket, random_layout

import qdist as qd
from qdist.backends import on_host
from qdist.blocks import PAGE
from qdist.checkpoint import CheckpointError
from qdist.state import StateVector, storage
from qdist.tensorfile import BLANK, header_bytes


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


def test_classical_bits_come_back(tmp_path: Path) -> None:
    at_the_end = qd.Circuit(3, 4).x(2).x(0).measure(2, 3).measure(1, 0)
    midway = qd.Circuit(2, 2).x(1).measure(1, 1).reset(1).h(0)
    for circuit in (at_the_end, midway):
        state = qd.simulate(circuit)
        state.save(tmp_path / "state")
        again = StateVector.load(tmp_path / "state")
        assert again.readout == state.readout
    qd.simulate(at_the_end).save(tmp_path / "state")
    assert StateVector.load(tmp_path / "state").counts(3) == {"1000": 3}
    StateVector(2).save(tmp_path / "state")
    assert StateVector.load(tmp_path / "state").readout is None


@pytest.mark.parametrize(
    "text",
    [
        '{"bits": [2], "sources": [], "is_random": false}',
        '{"bits": 1, "sources": [], "is_random": false}',
        '{"bits": [0], "sources": [[1, 0]], "is_random": false}',
        '{"bits": [0], "sources": [[0, 2]], "is_random": false}',
        '{"bits": [0], "sources": [[0, true]], "is_random": false}',
        '{"bits": [0], "sources": {"0": 0}, "is_random": false}',
        '{"bits": [0], "sources": [[0, 0]], "is_random": 1}',
        "{",
    ],
)
def test_crafted_classical_bits_are_refused(tmp_path: Path, text: str) -> None:
    storage.save(StateVector(2), tmp_path / "state", text)
    with pytest.raises(CheckpointError, match="what it says of classical bits makes no sense"):
        StateVector.load(tmp_path / "state")


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


def test_files_of_earlier_versions_are_read_and_verified(tmp_path: Path) -> None:
    path, ket = tmp_path / "state", random_ket(3)
    StateVector.from_amplitudes(ket).save(path)
    raw = path.read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:start])
    # In the order that they were written in.
    texts = {key: text for key, text in header.pop("__metadata__").items() if key in ("format", "dtype", "positions")}
    blocks = [hashlib.sha256(raw[at : at + 64]).hexdigest() for at in (start, start + 64)]
    texts |= {"block": "4", "blocks_sha256": "".join(blocks), "sha256": BLANK}
    texts["sha256"] = hashlib.sha256(header_bytes(header, texts)).hexdigest()
    former = header_bytes(header, texts) + raw[start:]
    path.write_bytes(former)
    np.testing.assert_array_equal(StateVector.load(path).amplitudes(), ket)
    path.write_bytes(former[:-1] + bytes([former[-1] ^ 1]))
    with pytest.raises(CheckpointError, match="block 1 does not match"):
        StateVector.load(path)


def test_a_large_state_starts_at_a_page_and_comes_back(tmp_path: Path) -> None:
    state = StateVector.from_amplitudes(random_ket(17))
    state.save(tmp_path / "state")
    raw = (tmp_path / "state").read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    assert start % PAGE == 0
    assert raw[start:] == on_host(state.local).tobytes()
    assert np.array_equal(on_host(StateVector.load(tmp_path / "state").local), on_host(state.local))


def crafted(path: Path, raw: bytes, table: dict[str, Any] | None = None, **metadata: Any) -> Path:
    """A file of a state with other metadata, and checksums that are right."""
    start = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:start])
    texts = header.pop("__metadata__") | metadata
    table = header if table is None else table
    texts["sha256"] = hashlib.sha256(header_bytes(table, {**texts, "sha256": BLANK})).hexdigest()
    path.write_bytes(header_bytes(table, texts) + raw[start:])
    return path


METADATA = {
    "no amplitudes in a block": {"block": "0"},
    "fewer": {"block": "-4"},
    "a block of 3": {"block": "3"},
    "a block of more than all": {"block": "16"},
    "a block that is no number": {"block": "four"},
    "a block of many digits": {"block": "1" * 5000},
    "a number that is no text": {"block": 4},
    "no checksums": {"blocks_crc32": ""},
    "too many checksums": {"blocks_crc32": "00000000" * 4},
    "no checksums of earlier versions": {"blocks_sha256": ""},
    "too many of them": {"blocks_sha256": BLANK * 4},
    "others": {"blocks_crc32": "00000000"},
    "no permutation": {"positions": "[0, 0, 1]"},
    "a hole": {"positions": "[0, 1, 3]"},
    "negative positions": {"positions": "[0, 1, -1]"},
    "positions that are no numbers": {"positions": '["0", "1", "2"]'},
    "positions that are floats": {"positions": "[0.0, 1.0, 2.0]"},
    "positions that are NaN": {"positions": "[NaN, 1, 2]"},
    "a dict of positions": {"positions": '{"0": 0}'},
    "no positions": {"positions": "[]"},
    "a number of positions": {"positions": "3"},
    "more qubits than any state": {"positions": json.dumps(list(range(63)))},
    "a hundred thousand qubits": {"positions": json.dumps(list(range(100_000)))},
    "nested positions": {"positions": "[" * 100_000},
    "another dtype": {"dtype": "complex64"},
    "a dtype of objects": {"dtype": "O"},
    "a dtype of real numbers": {"dtype": "float64"},
    "a dtype that is a list": {"dtype": ["complex128"]},
}


@pytest.mark.parametrize("name", METADATA)
def test_crafted_files_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "state"
    StateVector.from_amplitudes(random_ket(3)).save(path)
    raw = path.read_bytes()
    StateVector.load(crafted(path, raw))
    with pytest.raises(CheckpointError, match="damaged"):
        StateVector.load(crafted(path, raw, **METADATA[name]))


def test_crafted_tables_and_missing_metadata_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "state"
    StateVector.from_amplitudes(random_ket(3)).save(path)
    raw = path.read_bytes()
    whole = {"dtype": "F64", "shape": [8, 2], "data_offsets": [0, 128]}
    for table in (
        {"amplitudes": {**whole, "shape": [2, 8]}},
        {"amplitudes": {**whole, "dtype": "U64"}},
        {"others": whole},
        {
            "amplitudes": {**whole, "shape": [4, 2], "data_offsets": [0, 64]},
            "more": {**whole, "data_offsets": [64, 192]},
        },
    ):
        with pytest.raises(CheckpointError, match="damaged"):
            StateVector.load(crafted(path, raw, table))
    start = 8 + int.from_bytes(raw[:8], "little")
    texts = json.loads(raw[8:start])["__metadata__"]
    for key in set(texts) - {"format"}:
        fewer = {name: text for name, text in texts.items() if name != key}
        path.write_bytes(header_bytes({"amplitudes": whole}, fewer) + raw[start:])
        with pytest.raises(CheckpointError, match="damaged"):
            StateVector.load(path)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CheckpointError, match="not a regular file"):
        StateVector.load(tmp_path / "pipe")
