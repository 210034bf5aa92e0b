"""What arrives over a connection before and after a client has proven itself, in the thousands."""

from fuzz_wire import fuzz, fuzz_sockets


def test_damaged_input_raises_nothing_but_what_is_documented() -> None:
    counts, _ = fuzz(inputs=5000, seed=7)
    assert set(counts.values()) == {1000}


def test_running_servers_outlive_damaged_input() -> None:
    fuzz_sockets(inputs=100, seed=7)
