"""Old checkpoints: their names go at once, their space behind the next steps."""

import os
import threading
from pathlib import Path

import pytest

from qdist.training.folder import Folder


def test_steps_do_not_wait_for_the_space_of_old_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, closed, may_close, close = Folder(tmp_path, keep=2), [], threading.Event(), os.close
    for step in range(5):
        folder.file(step).write_bytes(b"x")

    def slow(file: int) -> None:
        assert may_close.wait(60)
        closed.append(file)
        close(file)

    with monkeypatch.context() as patch:
        patch.setattr(os, "close", slow)
        folder.prune()
        assert [path.name for path in folder.saved()] == ["step-00000004.safetensors", "step-00000003.safetensors"]
        assert sorted(os.listdir(tmp_path)) == ["step-00000003.safetensors", "step-00000004.safetensors"]
        assert not closed
        may_close.set()
        folder.wait()
        assert len(closed) == 3
    folder.prune()
    folder.wait()
    assert len(folder.saved()) == 2
