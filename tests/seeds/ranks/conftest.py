"""These tests run on every rank of an MPI job at once; see tests/seeds/test_vqnet_document.py and its neighbours."""

import sys
from pathlib import Path

import pytest

from qdist import comm as qc

sys.path.insert(0, str(Path(__file__).parents[1]))

import documents
import image_files


@pytest.fixture(scope="session")
def comm() -> qc.Communicator:
    return qc.init("auto" if documents.BACKEND == "mpi" else documents.BACKEND, timeout=120)


@pytest.fixture(scope="session")
def data(comm, tmp_path_factory) -> Path:
    """A folder with images, each rank's own."""
    folder = tmp_path_factory.mktemp(f"data{comm.rank}")
    image_files.write_mnist(folder)
    image_files.write_cifar(folder)
    return folder
