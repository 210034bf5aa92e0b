"""Programs in files: includes, encodings, and the collections of circuits that others have published."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Container
from pathlib import Path

import numpy as np
import pytest

from qdist.circuit import GATES, Circuit, qasm
from qdist.circuit.qasm import QasmError
from qdist.state import reference


def _collection(name: str) -> list[Path]:
    """The programs of a collection in `shared/circuits`, beside or above the project, if it is there."""
    for folder in Path(__file__).resolve().parents:
        found = folder / "shared" / "circuits" / name
        if found.is_dir():
            return sorted(found.glob("*.qasm"))
    return []


def _programs(name: str, only: Container[str] | None = None):
    files = [path for path in _collection(name) if only is None or path.stem in only]
    reason = f"the collection shared/circuits/{name} is not here"
    missing = [pytest.param(None, marks=pytest.mark.skip(reason=reason))]
    return pytest.mark.parametrize("path", files or missing, ids=lambda path: path.stem if path else "none")


# These measure registers that they never declare, and no reader accepts them: (line, column) of the first.
UNDECLARED = {
    "hhl_n10": (186801, 9),
    "vqe_uccsd_n4": (225, 9),
    "vqe_uccsd_n6": (2286, 9),
    "vqe_uccsd_n8": (10813, 9),
}


MAX_SIMULATED = 6_000


def _program_text(path: Path) -> str:
    text = path.read_text()
    if path.stem in UNDECLARED:
        return "\n".join(line for line in text.splitlines() if not line.startswith("measure"))
    return text


def _qubits(circuit, instruction) -> tuple[int, ...]:
    return tuple(circuit.find_bit(qubit).index for qubit in instruction.qubits)


def _is_random(circuit: Circuit) -> bool:
    return any(i.gate.kind in ("measure", "reset") for i in circuit.remove_final_measurements())


@_programs("qasmbench_small", only=UNDECLARED)
def test_programs_that_measure_undeclared_registers_are_refused_there(path: Path):
    with pytest.raises(QasmError, match="'q' is not declared") as caught:
        qasm.load(path)
    assert (caught.value.line, caught.value.column) == UNDECLARED[path.stem]
    assert Path(caught.value.filename).samefile(path)


@_programs("qasmbench_small")
def test_small_programs_give_the_amplitudes_of_qiskit(path: Path):
    qasm2 = pytest.importorskip("qiskit.qasm2")
    quantum_info = pytest.importorskip("qiskit.quantum_info")
    text = _program_text(path)
    circuit = qasm.loads(text)
    if _is_random(circuit):
        branches = reference.branches(circuit)
        assert sum(branch.probability for branch in branches) == pytest.approx(1)
        return
    theirs = qasm2.loads(text, custom_instructions=qasm2.LEGACY_CUSTOM_INSTRUCTIONS)
    if "measure" in theirs.count_ops():  # Else Qiskit would look at each of 186,795 gates for ten seconds.
        theirs.remove_final_measurements()
    circuit = circuit.remove_final_measurements()
    if len(circuit) > MAX_SIMULATED:
        # Both simulators would take half a minute: compare all instructions, and the first amplitudes.
        assert [(GATES[i.name].name, _qubits(theirs, i), list(i.params)) for i in theirs.data] == [
            (i.gate.name, i.qubits, list(i.params)) for i in circuit
        ]
        circuit, theirs.data = circuit[:MAX_SIMULATED], theirs.data[:MAX_SIMULATED]
    expected = quantum_info.Statevector(theirs).data
    np.testing.assert_allclose(reference.state(circuit), expected, atol=1e-9)


@_programs("planner34")
def test_wide_programs_have_the_gates_that_qiskit_finds(path: Path):
    qasm2 = pytest.importorskip("qiskit.qasm2")
    circuit = qasm.load(path)
    theirs = qasm2.load(path, custom_instructions=qasm2.LEGACY_CUSTOM_INSTRUCTIONS)
    expected: Counter[str] = Counter()
    for name, count in theirs.count_ops().items():
        expected[GATES[name].name if name in GATES else name] += count
    assert circuit.count_ops() == expected
    assert circuit.num_qubits == theirs.num_qubits == 34
    assert [i.qubits for i in circuit] == [_qubits(theirs, i) for i in theirs.data]


# Includes.


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / f"{name}.qasm"
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text, encoding="utf-8")
    return folder / "main.qasm"


def test_files_of_the_same_folder_and_below_can_be_included(tmp_path: Path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.inc").write_text("gate g a { h a; x a; }\n")
    main = write(
        tmp_path,
        main='OPENQASM 2.0; include "qelib1.inc"; include "a.qasm"; g q[0];',
        a='OPENQASM 2.0; include "sub/b.inc"; qreg q[1];',
    )
    assert qasm.load(main) == Circuit(1).h(0).x(0)
    assert Circuit.from_file(str(main)) == qasm.load(main)


def test_an_error_in_an_included_file_names_that_file(tmp_path: Path):
    main = write(tmp_path, main='OPENQASM 2.0;\ninclude "a.qasm";', a="qreg q[1];\n\nfoo q[0];")
    with pytest.raises(QasmError, match="gate 'foo' is not defined") as caught:
        qasm.load(main)
    assert (caught.value.line, caught.value.column) == (3, 1)
    assert caught.value.filename == str((tmp_path / "a.qasm").resolve())
    assert "a.qasm, line 3, column 1" in str(caught.value)


@pytest.mark.parametrize("path", ["../secret.qasm", "/etc/hostname", "sub/../../secret.qasm"])
def test_files_outside_the_folder_are_refused(tmp_path: Path, path: str):
    write(tmp_path, secret="qreg q[1];")
    folder = tmp_path / "inner"
    folder.mkdir()
    main = write(folder, main=f'OPENQASM 2.0;\ninclude "{path}";')
    with pytest.raises(QasmError, match="outside the folder of the program") as caught:
        qasm.load(main)
    assert (caught.value.line, caught.value.column) == (2, 1)


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path):
    write(tmp_path, secret="qreg q[1];")
    folder = tmp_path / "inner"
    folder.mkdir()
    (folder / "link.qasm").symlink_to(tmp_path / "secret.qasm")
    with pytest.raises(QasmError, match="outside the folder of the program"):
        qasm.load(write(folder, main='OPENQASM 2.0; include "link.qasm";'))


def test_links_in_a_circle_are_files_that_cannot_be_read(tmp_path: Path):
    (tmp_path / "circle.qasm").symlink_to("circle.qasm")
    with pytest.raises(OSError, match=r"circle\.qasm"):
        qasm.load(tmp_path / "circle.qasm")
    with pytest.raises(QasmError, match=r'the included file cannot be read .*"circle.qasm"') as caught:
        qasm.load(write(tmp_path, main='OPENQASM 2.0;\ninclude "circle.qasm";'))
    assert (caught.value.line, caught.value.column) == (2, 1)


def test_a_file_that_includes_itself_is_refused(tmp_path: Path):
    main = write(tmp_path, main='OPENQASM 2.0; include "a.qasm";', a='include "main.qasm";')
    with pytest.raises(QasmError, match="includes itself"):
        qasm.load(main)


def test_a_long_chain_of_includes_is_refused(tmp_path: Path):
    files = {f"f{k}": f'include "f{k + 1}.qasm";' for k in range(40)}
    main = write(tmp_path, main='OPENQASM 2.0; include "f0.qasm";', **files)
    with pytest.raises(QasmError, match="nested more than"):
        qasm.load(main)


@pytest.mark.parametrize("path", ["nothing.qasm", ".", "a\x00b", "x" * 5000])
def test_a_file_that_cannot_be_read_is_an_error_at_the_include(tmp_path: Path, path: str):
    main = write(tmp_path, main=f'OPENQASM 2.0;\ninclude "{path}";')
    with pytest.raises(QasmError, match="cannot be read") as caught:
        qasm.load(main)
    assert (caught.value.line, caught.value.column) == (2, 1)


def test_an_included_file_of_another_version_is_refused(tmp_path: Path):
    main = write(tmp_path, main='OPENQASM 2.0; include "a.qasm";', a="OPENQASM 3;")
    with pytest.raises(QasmError, match="another version"):
        qasm.load(main)


def test_a_missing_program_is_an_oserror(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        qasm.load(tmp_path / "nothing.qasm")


def test_a_byte_order_mark_is_skipped(tmp_path: Path):
    path = tmp_path / "main.qasm"
    path.write_bytes(b"\xef\xbb\xbfOPENQASM 2.0; qreg q[1];")
    assert qasm.load(path) == Circuit(1)


def test_bytes_that_are_not_text_are_refused_where_they_are(tmp_path: Path):
    path = tmp_path / "main.qasm"
    path.write_bytes(b"OPENQASM 2.0;\nqreg \xff[1];")
    with pytest.raises(QasmError, match="0xff is not UTF-8") as caught:
        qasm.load(path)
    assert (caught.value.line, caught.value.column) == (2, 6)


def test_an_included_pipe_or_device_is_refused_and_not_waited_for(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(QasmError, match="not a regular file") as caught:
        qasm.load(write(tmp_path, main='OPENQASM 2.0;\ninclude "pipe";'))
    assert (caught.value.line, caught.value.column) == (2, 1)


def test_a_huge_included_file_is_refused_before_it_is_read(tmp_path: Path):
    with open(tmp_path / "huge.inc", "wb") as file:
        file.truncate(1 << 40)  # takes no space
    with pytest.raises(QasmError, match="expands too far") as caught:
        qasm.load(write(tmp_path, main='OPENQASM 2.0;\ninclude "huge.inc";'))
    assert (caught.value.line, caught.value.column) == (2, 1)


def test_a_file_that_is_included_again_and_again_is_refused(tmp_path: Path):
    (tmp_path / "a.inc").write_text("//" + " " * 1_000_000)
    with pytest.raises(QasmError, match="expands too far"):
        qasm.load(write(tmp_path, main="OPENQASM 2.0;" + 'include "a.inc";' * 11))


def test_huge_programs_are_refused(tmp_path: Path):
    path = tmp_path / "huge.qasm"
    with open(path, "wb") as file:
        file.truncate((1 << 28) + 1)
    with pytest.raises(QasmError, match="more than 256 MiB") as caught:
        Circuit.from_file(path)
    assert (caught.value.line, caught.value.column, caught.value.filename) == (1, 1, str(path.resolve()))


def test_what_is_no_program_is_refused(tmp_path: Path):
    with pytest.raises(IsADirectoryError):
        Circuit.from_file(tmp_path)
    path = tmp_path / "binary"
    for data in (bytes(100), b"\x7fELF\x02\x01", bytes(range(256)), b"PK\x03\x04", b"\xff\xfeO\x00"):
        path.write_bytes(data)
        with pytest.raises(QasmError) as caught:
            Circuit.from_file(path)
        assert caught.value.line is not None


def test_a_program_may_come_from_a_pipe(tmp_path: Path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=("OPENQASM 2.0; qreg q[2];",))
    writer.start()
    assert Circuit.from_file(path) == Circuit(2)
    writer.join()


def test_a_program_without_a_version_is_of_version_2(tmp_path: Path):
    path = write(tmp_path, main='// as some tools write it\ninclude "qelib1.inc";\nqreg q[1];\nh q[0];')
    assert Circuit.from_file(path) == Circuit(1).h(0)
    assert qasm.loads("qreg q[2]; CX q[0], q[1];") == Circuit(2).cx(0, 1)
    assert qasm.loads("") == qasm.loads("// nothing") == Circuit(0)
