"""Circuits as XLA's foreign functions on the CPU: no copies, errors, threads, and a JAX that they do not fit."""

import gc
import logging
import threading
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from frameworks import FEATURES, outputs, random_circuit

import qdist as qd
from qdist.interop.jax import QuantumLayer, calls, expectation
from qdist.native import kernels

FAILED = jax.errors.JaxRuntimeError, ValueError  # The second from where JAX runs what it has run before.


def given(seed: int, rows: int = 3, dtype=jnp.float64) -> tuple[QuantumLayer, jax.Array, jax.Array]:
    circuit, x, w = random_circuit(seed)
    layer = QuantumLayer(circuit, outputs(), x, w)
    features = np.random.default_rng(seed).uniform(0.2, 1.2, (rows, FEATURES))
    return layer, layer.init(jax.random.key(seed), dtype), jnp.asarray(features, dtype)


def square(layer: QuantumLayer):
    return lambda w, x: (layer(w, x) ** 2).sum()


def addresses(arrays) -> list[int]:
    return [array.ctypes.data for array in arrays]


@pytest.fixture
def seen():
    """What XLA hands over: (what, addresses of arguments, addresses of results, arrays that own their memory)."""
    assert calls._is_registered()
    found = []

    def spy(call, arguments, results):
        owned = [array for array in (*arguments, *results) if array.flags.owndata]
        found.append((call.split()[0], addresses(arguments), addresses(results), owned))
        assert not any(array.flags.writeable for array in arguments)
        assert all(array.flags.writeable for array in results)
        calls._receive(call, arguments, results)

    kernels.xla_function(spy)
    yield found
    kernels.xla_function(calls._receive)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_buffers_are_xlas_own(seen, dtype) -> None:
    layer, w, x = given(1, dtype=dtype)
    run = jax.jit(lambda w, x: layer(w, x))
    assert "qdist_circuit" in run.lower(w, x).as_text()
    out = run(w, x).block_until_ready()
    ((what, arguments, results, owned),) = seen
    assert (what, owned) == ("forward", [])
    assert arguments == [x.unsafe_buffer_pointer(), w.unsafe_buffer_pointer()]
    assert results == [out.unsafe_buffer_pointer()]
    by_w, by_x = jax.block_until_ready(jax.jit(jax.grad(square(layer), (0, 1)))(w, x))
    assert [what for what, *_ in seen] == ["forward", "forward", "backward"]
    _, arguments, results, owned = seen[-1]
    assert arguments[:2] == [x.unsafe_buffer_pointer(), w.unsafe_buffer_pointer()]
    assert owned == []
    assert results == [by_x.unsafe_buffer_pointer(), by_w.unsafe_buffer_pointer()]


def test_a_backward_goes_on_from_the_states_of_its_forward(monkeypatch) -> None:
    layer, w, x = given(3)
    step = jax.jit(jax.value_and_grad(square(layer)))
    want = step(w, x)[1]
    runs = []
    circuit = layer._maps.of("cpu", np.dtype(np.float64)).map
    forward = circuit.forward
    monkeypatch.setattr(circuit, "forward", lambda *given: runs.append(None) or forward(*given))
    np.testing.assert_allclose(step(w, x)[1], want)
    assert len(runs) == 1


def test_two_programs_in_one_computation() -> None:
    (one, w, x), (other, v, y) = given(1), given(2)

    def loss(w, v, x, y):
        return (one(w, x) * other(v, y)).sum() + one(w, y).sum()

    want = jax.grad(loss, (0, 1))(w, v, x, y)
    found = jax.jit(jax.grad(loss, (0, 1)))(w, v, x, y)
    for a, b in zip(found, want):
        np.testing.assert_allclose(a, b, atol=1e-12)
    np.testing.assert_allclose(jax.jit(loss)(w, v, x, y), (one(w, x) * other(v, y)).sum() + one(w, y).sum())


def test_single_precision_is_the_default() -> None:
    jax.config.update("jax_enable_x64", False)  # Newer versions have a context for it.
    try:
        layer, w, x = given(1, dtype=None)
        found = jax.jit(jax.value_and_grad(square(layer)))(w, x)
    finally:
        jax.config.update("jax_enable_x64", True)
    layer, *_ = given(1)
    want = jax.value_and_grad(square(layer))(w.astype(jnp.float64), x.astype(jnp.float64))
    for a, b in zip(found, want):
        assert a.dtype == jnp.float32
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_threads_call_at_the_same_time() -> None:
    layer, w, x = given(2)
    step = jax.jit(jax.value_and_grad(square(layer)))
    many = [w + 0.1 * k for k in range(8)]
    want = [step(v, x) for v in many]
    found: dict[int, list] = {}

    def run(first: int) -> None:
        found[first] = [jax.block_until_ready(step(v, x)) for v in many[first::2] * 5]

    threads = [threading.Thread(target=run, args=(first,)) for first in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    for first, results in found.items():
        for (value, gradient), (value_, gradient_) in zip(results, want[first::2] * 5):
            np.testing.assert_allclose(value, value_)
            np.testing.assert_allclose(gradient, gradient_, atol=1e-12)
    assert len(found) == 2


def test_errors_are_those_of_the_computation() -> None:
    layer, w, x = given(1)
    run = jax.jit(lambda w, x: layer(w, x))
    with pytest.raises(FAILED, match=r"INTERNAL: CircuitError: .*finite"):
        run(w.at[0].set(jnp.nan), x).block_until_ready()
    np.testing.assert_allclose(run(w, x), layer(w, x))
    with pytest.raises(FAILED, match="float32 or float64"):
        jax.ffi.ffi_call("qdist_circuit", jax.ShapeDtypeStruct((2,), jnp.int32))(x, call="forward").block_until_ready()
    with pytest.raises(FAILED, match="attribute `call`"):
        jax.ffi.ffi_call("qdist_circuit", x)(x).block_until_ready()


def test_a_circuit_that_is_gone_says_so() -> None:
    program = qd.compile(qd.library.hardware_efficient(3, 1), device="cpu")
    theta = jnp.linspace(0, 1, program.circuit.num_parameters)
    compiled = jax.jit(partial(expectation, program, "Z0")).lower(theta).compile()
    compiled(theta)
    jax.clear_caches()
    del program
    gc.collect()
    with pytest.raises(FAILED, match="the circuit of this operator is gone"):
        jax.block_until_ready(compiled(theta))


def test_memory_that_is_lent_for_a_call_is_not_kept() -> None:
    layer, w, x = given(1)
    run = jax.jit(lambda w, x: layer(w, x))
    want = run(w, x)
    kept = []

    def keep(call, arguments, results):
        calls._receive(call, arguments, results)
        kept.append(arguments[0][:1])

    kernels.xla_function(keep)
    try:
        with pytest.raises(FAILED, match="kept beyond its call"):
            run(w, x).block_until_ready()
    finally:
        kernels.xla_function(calls._receive)
    np.testing.assert_array_equal(run(w, x), want)
    with pytest.raises(TypeError, match="receiver"):
        kernels.xla_function(3)


def test_other_devices_and_other_versions_go_by_callbacks(monkeypatch, caplog, seen) -> None:
    layer, w, x = given(2)
    want = jax.value_and_grad(square(layer))(w, x)
    del seen[:]

    def check(foreign: bool) -> None:
        del seen[:]
        other = QuantumLayer(*(lambda c, f, v: (c, outputs(), f, v))(*random_circuit(2)))
        for a, b in zip(jax.jit(jax.value_and_grad(square(other)))(w, x), want):
            np.testing.assert_allclose(a, b, atol=1e-12)
        assert bool(seen) is foreign

    # As with a GPU beside: each device has its way.
    monkeypatch.setattr(calls, "_platforms", lambda: {"cpu", "cuda"})
    check(True)

    def refuse(*arguments, **options):
        raise ValueError("unsupported API version")

    monkeypatch.setattr(jax.ffi, "register_ffi_target", refuse)
    calls._is_registered.cache_clear()
    with caplog.at_level(logging.WARNING, logger="qdist"):
        check(False)
    assert [r.name for r in caplog.records if "unsupported API version" in r.message] == ["qdist"]
    monkeypatch.undo()
    calls._is_registered.cache_clear()
    assert calls._is_registered()
