"""The digits example: it learns, repeats itself, and resumes."""

import importlib.util
from pathlib import Path

import pytest

from qdist import checkpoint, progress

pytest.importorskip("sklearn")
SCRIPT = Path(__file__).parents[1] / "circuits" / "train_digits.py"


@pytest.fixture(autouse=True)
def one_blas_thread():
    """As the script sets for itself, but here NumPy is loaded already; scikit-learn brings threadpoolctl."""
    with pytest.importorskip("threadpoolctl").threadpool_limits(1):
        yield


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("train_digits", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("model", ["mlp", "cnn"])
def test_reaches_97_percent_on_held_out_digits(example, model):
    _, accuracy = example.train(model, example.EPOCHS[model], seed=0)
    assert accuracy >= 0.97


@pytest.mark.parametrize("model", ["mlp", "cnn"])
def test_the_same_seed_gives_the_same_numbers(example, model):
    assert example.train(model, 2, seed=3) == example.train(model, 2, seed=3)


def test_an_interrupted_run_ends_like_an_uninterrupted_one(example, tmp_path, monkeypatch):
    whole = example.train("mlp", 4, seed=1)
    commit, saved = checkpoint.Saving.commit, []

    def killed(saving):
        commit(saving)
        saved.append(saving.path)
        if len(saved) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint.Saving, "commit", killed)
    with pytest.raises(KeyboardInterrupt):
        example.train("mlp", 4, seed=1, save=tmp_path / "c")
    assert example.train("mlp", 4, seed=1, resume=tmp_path / "c") == whole


def test_a_checkpoint_may_be_from_behind_the_end(example, tmp_path):
    """As in the other programs: nothing is left to do, and all losses that it has are there."""
    whole = example.train("mlp", 3, seed=1, save=tmp_path / "c")
    for epochs in (1, 2, 3):
        assert example.train("mlp", epochs, seed=1, resume=tmp_path / "c") == whole


def test_command_line(example, tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    # However fast it is, it takes long enough for a bar.
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    monkeypatch.setattr(progress, "_INTERVAL", 0.0)
    example.main(["--model", "mlp", "--epochs", "4", "--plot", str(tmp_path / "loss.png"), "--progress"])
    out, err = capsys.readouterr()
    assert out.startswith("mlp: loss")
    assert "88/88" in err  # Steps.
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(SystemExit):
        example.main(["--save", "x"])
    assert "--model mlp" in capsys.readouterr().err
