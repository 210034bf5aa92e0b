"""Ranks that do not run the same are told at init(), before anything is computed."""

import warnings

import pytest

import qdist as qd
from qdist.comm import CommError
from qdist.comm.bootstrap.installation import compare, installation

MINE = installation()


@pytest.mark.parametrize(
    ("name", "value", "way_out"),
    [
        ("qdist", "0.0.9", "install the same qdist on every host"),
        ("Python", "3.99", "the same Python"),
        ("NumPy", "9", "the same NumPy"),
        ("kernels", "sse", "set QDIST_SIMD on all ranks to one variant"),
    ],
)
def test_differences_are_named_with_rank_host_and_both_values(name: str, value: str, way_out: str) -> None:
    other = MINE | {name: value, "host": "far"}
    with pytest.raises(CommError) as raised:
        compare([MINE, MINE, other], is_first=False)
    expected = f"rank 2 on far has {value}, rank 0 on {MINE['host']} has {MINE[name]}"
    assert f"do not run the same {name}: {expected}: " in str(raised.value)
    assert way_out in str(raised.value)


def test_numpys_second_number_may_differ_with_a_warning_of_rank_0() -> None:
    other = MINE | {"NumPy in full": f"{MINE['NumPy']}.99"}
    with pytest.warns(RuntimeWarning, match=rf"rank 1 on .* has {other['NumPy in full']}, rank 0"):
        compare([MINE, other], is_first=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compare([MINE, other], is_first=False)
        compare([MINE, MINE | {"host": "elsewhere"}], is_first=True)


def test_what_is_compared_is_what_runs() -> None:
    assert MINE["qdist"] == qd.__version__
    assert MINE["kernels"] == qd.native.variant


DIFFERENT = r"""
import os, sys
import qdist
import qdist.comm as qc
if os.environ.get("PMI_RANK", os.environ.get("OMPI_COMM_WORLD_RANK")) == "1":
    qdist.__version__ = "0.0.9"
try:
    qc.init(timeout=20)
except qc.CommError as error:
    assert not qc.is_initialized()
    sys.stdout.write(f"refused: {error}\n")
"""


def test_init_refuses_ranks_of_different_versions_on_every_rank(run_ranks) -> None:
    done = run_ranks(3, ["-c", DIFFERENT], timeout=60)
    assert done.stdout.count("refused: the ranks do not run the same qdist: rank 1 on ") == 3, done.stdout + done.stderr
    assert done.stdout.count(f"has 0.0.9, rank 0 on {MINE['host']} has {qd.__version__}: install") == 3
