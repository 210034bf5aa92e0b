"""Transforms of images, against torch's interpolation and plain indexing."""

import re

import numpy as np
import pytest
import torch

from qdist import data
from qdist.data.transforms import CenterCrop, ChannelsFirst, Compose, Normalize, Resize, Transformed


def image(height=9, width=12, channels=3):
    return np.random.default_rng(1).integers(0, 256, (height, width, channels), dtype=np.uint8)


@pytest.mark.parametrize("size", [(20, 30), (4, 5), (9, 12), (3, 40)])
def test_resize_is_the_antialiased_bilinear_one(size):
    given = image()
    floats = torch.tensor(given.astype(np.float64)).permute(2, 0, 1)[None]
    want = torch.nn.functional.interpolate(floats, size=size, mode="bilinear", antialias=True, align_corners=False)
    want = want[0].permute(1, 2, 0).numpy()
    np.testing.assert_allclose(Resize(size)(given.astype(np.float64)), want, atol=1e-9)
    got = Resize(size)(given)
    assert got.dtype == np.uint8
    assert np.abs(got - want).max() <= 0.5 + 1e-9


def test_one_number_is_the_shorter_side():
    assert Resize(18)(image(9, 12)).shape == (18, 24, 3)
    assert Resize(6)(image(12, 9)).shape == (8, 6, 3)


def test_crop_scale_and_normalise():
    given = image(10, 8)
    steps = Compose([CenterCrop((4, 6)), ChannelsFirst(), Normalize([0.1, 0.2, 0.3], [0.5, 0.4, 0.2])])
    want = given[3:7, 1:7].astype(np.float64).transpose(2, 0, 1) / 255
    want = (want - np.array([0.1, 0.2, 0.3])[:, None, None]) / np.array([0.5, 0.4, 0.2])[:, None, None]
    got = steps(given)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, want, atol=1e-6)


@pytest.mark.parametrize("wrong", [0, -1, (3, 0), (-2, 3), (4,), (4, 4, 4), 2.5, (3, 1.5), "4", None])
def test_sizes_are_one_or_two_numbers_of_pixels(wrong):
    for kind in (Resize, CenterCrop):
        with pytest.raises(ValueError, match=rf"{kind.__name__}\({re.escape(str(wrong))}\): .*at least one pixel"):
            kind(wrong)
        for size in (np.int64(4), [4, 4], (np.uint8(4), 4)):
            np.testing.assert_array_equal(kind(size)(image(9, 9)), kind((4, 4))(image(9, 9)))


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.int64])
def test_whole_numbers_become_shares_of_255_and_floats_stay(dtype):
    given = image()
    np.testing.assert_allclose(ChannelsFirst()(given.astype(dtype)), given.transpose(2, 0, 1) / 255, atol=1e-6)
    for kind in (np.float16, np.float32, np.float64):
        np.testing.assert_array_equal(ChannelsFirst()(given.astype(kind)), given.transpose(2, 0, 1))


def test_a_dataset_is_transformed_when_it_is_read():
    images = np.stack([image(), image() // 2])
    shown = Transformed(data.ArrayDataset(images, np.array([3, 1])), ChannelsFirst())
    (batch, labels), *rest = data.DataLoader(shown, 2)
    assert not rest
    assert batch.shape == (2, 3, 9, 12)
    assert labels.tolist() == [3, 1]
    np.testing.assert_allclose(batch.numpy()[1], (images[1] / 255).transpose(2, 0, 1), atol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Resize(0), r"Resize\(0\)"),
        (lambda: Resize(4)(np.zeros((3, 3))), r"got shape \(3, 3\)"),
        (lambda: CenterCrop(20)(image()), "9 x 12 pixels: Resize it first"),
        (lambda: Normalize([0.5], [0.0]), "positive deviation"),
        (lambda: Normalize([0.5], [1.0])(np.zeros((3, 2, 2))), r"takes \(1, height, width\)"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
