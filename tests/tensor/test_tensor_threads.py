"""Random numbers, gradients and elementwise work of several threads."""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numpy as np
import pytest

from qdist.tensor import Generator, Tensor, random, threads
from qdist.tensor.functional import gelu

THREADS = 4


@pytest.fixture(autouse=True)
def _switch_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def at_once(work: Callable[[int], Any]) -> list[Any]:
    start = Barrier(THREADS)

    def one(k: int) -> Any:
        start.wait()
        return work(k)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(one, range(THREADS)))


def test_no_ticket_is_given_twice() -> None:
    generator = Generator(3)
    tickets = at_once(lambda _: [generator.ticket().draw for _ in range(5000)])
    assert sorted(draw for some in tickets for draw in some) == list(range(1, THREADS * 5000 + 1))


def test_another_generator_is_used_in_its_own_thread_alone() -> None:
    inside, outside = Barrier(2, timeout=30), random.default_generator()

    def use() -> bool:
        with random.using(Generator(7)) as generator:
            inside.wait()
            inside.wait()
            return random.default_generator() is generator

    with ThreadPoolExecutor(1) as pool:
        used = pool.submit(use)
        inside.wait()
        meanwhile = random.default_generator()
        inside.wait()
        assert used.result()
    assert meanwhile is outside


def test_gradients_of_a_shared_leaf_add_up() -> None:
    weights = Tensor(np.zeros(300_000), requires_grad=True)

    def work(_: int) -> None:
        for _ in range(10):
            (weights * 1.0).sum().backward()

    at_once(work)
    assert set(np.unique(weights.grad.numpy())) == {10.0 * THREADS}


def test_the_number_of_threads_may_change_while_they_work() -> None:
    x = np.linspace(-3, 3, 200_000, dtype=np.float32)
    want = gelu(Tensor(x)).numpy()
    before = threads.num_threads()

    def work(k: int) -> None:
        for count in range(20):
            if k == 0:
                threads.set_num_threads(2 + count % 2)
            else:
                got = gelu(Tensor(x)).numpy()
                np.testing.assert_array_equal(got, want)

    try:
        at_once(work)
    finally:
        threads.set_num_threads(before)
