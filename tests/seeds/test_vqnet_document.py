"""VQNet's document (seed 000): its programs on 1, 2, 4 and 8 ranks, on the device that --device names."""

from pathlib import Path

import pytest

ON_RANKS = Path(__file__).parent / "ranks" / "mpi_vqnet_programs.py"


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_the_programs(request, device: str, ranks: int) -> None:
    start = request.getfixturevalue("pass_on_ranks" if device == "cpu" else "pass_on_nccl_ranks")
    start(ranks, [ON_RANKS])
