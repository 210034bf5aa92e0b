"""The page of a plan: events that add up to its predicted time, and what a browser draws of them."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import qdist as qd
from qdist.backends.cuda.target import cuda_target
from qdist.cli import main
from qdist.plan.cost import SERVERS_OF_GPUS, Cluster, Machine
from qdist.plan.plan import Plan
from qdist.plan.planner import make_plan
from qdist.plan.stages.cpu_target import cpu_target
from qdist.plan.timeline import timeline

sys.path.insert(0, str(Path(__file__).parents[1]))
from browser import CHROMIUM, Page, browser

KIND = np.dtype("complex64")


def planned(far: int = 4, inside: int = 2, schedule: str = "lazy") -> Plan:
    circuit = qd.library.hardware_efficient(20, 6)
    return make_plan(circuit, KIND, far=far, inside=inside, target=cuda_target(KIND), schedule=schedule)


@pytest.mark.parametrize("ranks", [1, 11, 16])
@pytest.mark.parametrize("cluster", [SERVERS_OF_GPUS, Cluster(Machine(4e12, 1e9, 1e9), 4e11, 4e10, 1e-3)])
def test_events_follow_each_other_and_end_with_the_predicted_time(ranks: int, cluster: Cluster) -> None:
    """Bound by memory, or by arithmetic; on several shards a rank, too."""
    plan = planned(far=(ranks - 1).bit_length(), inside=2 if ranks > 1 else 0)
    events = timeline(plan, cluster, ranks)
    clock = 0.0
    for event in events:
        assert event.start == pytest.approx(clock)
        assert event.seconds > 0
        clock += event.seconds
    assert clock == pytest.approx(plan.seconds_on(cluster, ranks))


def test_events_have_the_plan_s_sweeps_exchanges_bytes_and_flops() -> None:
    plan = planned(schedule="in-order")
    events = timeline(plan, SERVERS_OF_GPUS, 16)
    assert plan.exchanges_between_nodes < plan.exchanges
    assert [sum(e.level == level for e in events) for level in (0, 2)] == [plan.sweeps, plan.exchanges_between_nodes]
    sent = {level: sum(e.nbytes for e in events if e.level == level) for level in (1, 2)}
    assert sent[2] == plan.bytes_between_nodes > 0
    assert sent[1] + sent[2] == plan.bytes_sent
    assert sum(e.flops for e in events) == pytest.approx(plan.flops / 16)
    exchanged = {e.segment for e in events if e.level}
    assert exchanged == {k for k, segment in enumerate(plan.segments) if segment.swaps}
    # A sweep of a later stage reads and writes all that the rank has; the first skip what is zero.
    assert max(e.nbytes for e in events if e.level == 0) >= 2 * plan.shard_bytes


def test_a_circuit_of_no_gates_has_a_page_too(tmp_path: Path, capsys) -> None:
    empty, page = tmp_path / "empty.qasm", tmp_path / "plan.html"
    empty.write_text('OPENQASM 2.0; include "qelib1.inc"; qreg q[3];')
    assert main(["plan", str(empty), "--ranks", "1", "--html", str(page), "--device", "cpu"]) == 0
    assert "0 sweeps" in page.read_text()
    assert timeline(make_plan(qd.Circuit(3), KIND, target=cpu_target(KIND)), SERVERS_OF_GPUS, 1) == []


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    if CHROMIUM is None:
        pytest.skip("pages are looked at with Chromium: apt-get install chromium")
    folder = tmp_path_factory.mktemp("page")
    circuit = qd.library.hardware_efficient(20, 6)
    source = folder / "<b>&.qasm"
    source.write_text(circuit.bind(np.linspace(0, 1, circuit.num_parameters)).to_qasm())
    made = folder / "plan.html"
    arguments = [str(source), "--ranks", "16", "--per-node", "4", "--schedule", "in-order", "--html", str(made)]
    assert main(["plan", *arguments]) == 0
    (folder / "profile").mkdir()
    with browser(folder / "profile") as opened:
        opened.open(made)
        yield opened


def test_a_browser_draws_every_event_and_fetches_nothing(page: Page) -> None:
    plan = planned(schedule="in-order")
    events = timeline(plan, SERVERS_OF_GPUS, 16)
    assert [url.split("/")[-1] for url in page.requests] == ["plan.html"]
    assert page.requests[0].startswith("file://")
    assert page.errors == []
    assert page.evaluate("document.querySelector('h1').textContent") == "<b>&.qasm"
    boxes = page.evaluate(
        "[...document.querySelectorAll('rect[data-level]')].map(r => {const b = r.getBoundingClientRect();"
        "return [+r.dataset.level, b.left, b.right, b.top, b.height]})"
    )
    left, width = page.evaluate("(b => [b.left, b.width])(document.querySelector('#time').getBoundingClientRect())")
    whole = plan.seconds_on(SERVERS_OF_GPUS, 16)
    assert [box[0] for box in boxes] == [event.level for event in events]
    for event, (level, start, end, top, height) in zip(events, boxes):
        assert start == pytest.approx(left + width * event.start / whole, abs=1.5)
        assert end == pytest.approx(left + width * (event.start + event.seconds) / whole, abs=1.5)
        assert top == pytest.approx(boxes[0][3] + 40 * level, abs=1)
        assert height > 20
    assert page.evaluate("document.querySelectorAll('rect[data-qubit]').length") == 20 * len(plan.segments)
    shares = page.evaluate(
        "[...document.querySelectorAll('#levels td:last-child')].map(c => parseFloat(c.textContent))"
    )
    assert sum(shares) == pytest.approx(100, abs=0.2)


def test_what_the_mouse_points_at_is_explained(page: Page) -> None:
    shown = "getComputedStyle(document.getElementById('tip')).display"
    page.hover("h1")
    assert page.evaluate(shown) == "none"
    page.hover("rect[data-level='2']")
    assert page.evaluate(shown) == "block"
    text = page.evaluate("document.getElementById('tip').textContent")
    assert "exchange of bits" in text
    assert "sent, between nodes" in text
    page.hover("rect[data-level='0']")
    text = page.evaluate("document.getElementById('tip').textContent")
    assert text.startswith("stage 0, sweep: ")
    assert "flops" in text
    page.hover("rect[data-qubit='19']")
    assert "stage 0, qubit 19: " in page.evaluate("document.getElementById('tip').textContent")
    box = page.evaluate("(b => [b.left, b.right])(document.getElementById('tip').getBoundingClientRect())")
    assert 0 <= box[0] < box[1] <= 1200
    page.hover("h1")
    assert page.evaluate(shown) == "none"


def test_the_zoom_stretches_time_within_a_window_that_scrolls(page: Page) -> None:
    width = "document.querySelector('#time').getBoundingClientRect().width"
    before, window = page.evaluate(width), page.evaluate("document.documentElement.scrollWidth")
    page.evaluate("(z => {z.value = 3; z.dispatchEvent(new Event('input'))})(document.getElementById('zoom'))")
    assert page.evaluate(width) == pytest.approx(8 * before, rel=0.01)
    assert page.evaluate("document.documentElement.scrollWidth") == window
