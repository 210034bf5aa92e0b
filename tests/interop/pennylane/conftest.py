"""Where a test names no device, it means that of --device: the same tests serve every device."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    try:
        from qdist.interop.pennylane import QdistQubit
    except ImportError:
        return
    assert QdistQubit.__init__.__kwdefaults__["device"] == "auto"
    QdistQubit.__init__.__kwdefaults__["device"] = config.getoption("--device")
