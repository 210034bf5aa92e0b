"""Pictures of circuits beyond text: what stands in them, and that it stands where the text has it."""

from __future__ import annotations

import itertools
import sys
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from strategies import circuits

from qdist.circuit import Circuit, CircuitError, Parameter, PauliSum
from qdist.circuit.drawing.scene import scene

NS = "{http://www.w3.org/2000/svg}"


def example() -> Circuit:
    circuit = Circuit(3, 1).h(0).cx(0, 2).swap(0, 1).barrier(0, 1).rx(Parameter("<a&b>"), 1).measure(0, 0)
    with circuit.if_(0, 1):
        circuit.x(2)
    return circuit.mcx([0, 1], 2, "01")


def parsed(circuit: Circuit, width: int = 80) -> ElementTree.Element:
    return ElementTree.fromstring(circuit.draw("svg", width))


def test_svg_has_every_instruction_with_its_words_and_fetches_nothing() -> None:
    root = parsed(example())
    titles = [element.text for element in root.iter(f"{NS}title")]
    assert titles == [
        *["h on qubit 0", *["cx on qubits 0,2"] * 2, *["swap on qubits 0,1"] * 2, *["barrier on qubits 0,1"] * 2],
        *["rx on qubit 1", "measure on qubit 0", "x on qubit 2", *[titles[-1]] * 3],
    ]
    texts = [element.text for element in root.iter(f"{NS}text")]
    assert texts[:3] == ["q0", "q1", "q2"]
    assert texts[3:] == ["H", "Rx(<a&b>)", "M→c0", "X if c0=1"]
    known = ("svg", "rect", "path", "text", "circle", "g", "title")
    assert {element.tag for element in root.iter()} <= {NS + tag for tag in known}
    assert "href" not in example().draw("svg")


def test_controls_are_filled_where_they_need_a_one() -> None:
    root = parsed(Circuit(3).mcx([0, 1], 2, "01"))
    assert [circle.get("fill") for circle in root.iter(f"{NS}circle")] == ["#223", "white", "white"]


@settings(max_examples=30, deadline=None)
@given(circuits(max_qubits=4, max_gates=20, num_clbits=2))
def test_marks_stay_inside_the_picture_and_apart(circuit: Circuit) -> None:
    made = scene(circuit, 60)
    assert len(made.marks) == sum(len(instruction.qubits) for instruction in circuit)
    for mark in made.marks:
        assert mark.width / 2 <= mark.x <= made.width - mark.width / 2
        assert 0 < mark.y < made.height
    places = sorted((mark.y, mark.x - mark.width / 2, mark.x + mark.width / 2) for mark in made.marks)
    assert all(a[0] != b[0] or a[2] <= b[1] for a, b in itertools.pairwise(places))
    ElementTree.fromstring(circuit.draw("svg", 60))


def test_long_circuits_are_wrapped() -> None:
    circuit = Circuit(2)
    for _ in range(40):
        circuit.rx(0.25, 0)
    made = scene(circuit, 60)
    assert len(made.wires) > 2
    assert made.width <= 60 * 8 + 24
    assert circuit.draw("latex", 60).count(r"\begin{quantikz}") == len(circuit.draw(width=66).split("\n\n\n"))


def test_latex_has_a_row_for_each_qubit_and_a_line_for_each_gate() -> None:
    text = example().draw("latex")
    rows = text.split("\n")[1:-1]
    cells = [row.removesuffix(r" \\").split(" & ") for row in rows]
    assert [row[0] for row in cells] == [rf"\lstick{{$q_{{{q}}}$}}" for q in range(3)]
    assert len({len(row) for row in cells}) == 1
    assert cells[0][1:4] == [r"\gate{H}", r"\control{}\wire[d][2]{q}", r"\targX{}\wire[d][1]{q}"]
    assert cells[2][2] == r"\targ{}"
    assert r"\gate{Rx(<a\&b>)}" in text
    assert r"\meter{c0}" in text
    assert r"\ocontrol{}" in text
    assert all(row.count("{") - row.count(r"\{") == row.count("}") - row.count(r"\}") for row in rows)


def test_empty_circuits_and_global_phases() -> None:
    for output in ("svg", "latex"):
        assert Circuit(0).draw(output)
    root = parsed(Circuit(1).gphase(0.5).h(0))
    assert next(element.text for element in root.iter(f"{NS}text")) == "global phase: 0.5"


def test_notebooks_show_circuits_unless_they_are_huge() -> None:
    assert example()._repr_svg_() == example().draw("svg", 100)
    assert example().draw("svg")._repr_svg_() == example().draw("svg")
    assert Circuit(60).h(0)._repr_svg_() is None


def test_notebooks_show_sums_as_formulas() -> None:
    observable = PauliSum({"Z0 Z11": -1.0, "X3": 0.5, "": 2.0})
    assert observable._repr_latex_() == r"$-1\,Z_{0} Z_{11} + 0.5\,X_{3} + 2\,I$"
    assert PauliSum({f"Z{q}": 1.0 for q in range(31)})._repr_latex_().endswith(r" + \ldots\ (31\textrm{ terms})$")
    assert PauliSum({})._repr_latex_() == "$0$"


def test_unknown_outputs_name_the_known_ones() -> None:
    with pytest.raises(CircuitError, match=r"draw\('png'\): use one of text, svg, latex, mpl"):
        Circuit(1).draw("png")
    with pytest.raises(CircuitError, match="at least 20 columns; got 10"):
        Circuit(1).draw("svg", 10)


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "qdist.circuit.drawing.notebook_figure", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    with pytest.raises(ImportError, match=r"pip install 'qdist\[plot\]'. draw\('svg'\) needs nothing"):
        Circuit(1).draw("mpl")


def test_figures_have_the_texts_and_shapes_of_the_svg() -> None:
    pytest.importorskip("matplotlib", reason="draw('mpl') needs matplotlib")
    picture = example().draw("mpl")
    axes = picture.axes[0]
    texts = [text.get_text() for text in axes.texts]
    assert texts == [element.text for element in parsed(example()).iter(f"{NS}text")]
    assert len(axes.patches) == sum(
        mark.kind in ("box", "measure", "not", "control", "open control") for mark in scene(example(), 80).marks
    )
    picture.canvas.draw()
