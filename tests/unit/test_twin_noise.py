"""Noise is a function of seed, channel and sample index, and of nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from bench.twin.noise import ChannelNoise, generator


def test_random_access_equals_sequential() -> None:
    whole = ChannelNoise(7, "ai0").normal(0, 20_000)
    pieces = ChannelNoise(7, "ai0")
    order = np.random.default_rng(0).permutation(200)
    for piece in order:
        first = int(piece) * 100
        assert np.array_equal(pieces.normal(first, 100), whole[first : first + 100])


@pytest.mark.parametrize(("first", "count", "stride"), [(0, 50, 1), (4090, 20, 1), (4095, 3, 4097), (17, 1000, 10)])
def test_strided_access_picks_the_same_samples(first: int, count: int, stride: int) -> None:
    whole = ChannelNoise(3, "ai1").normal(0, first + count * stride)
    assert np.array_equal(ChannelNoise(3, "ai1").normal(first, count, stride), whole[first::stride][:count])


def test_seed_and_channel_make_independent_noise() -> None:
    draws = [ChannelNoise(seed, channel).normal(0, 50_000) for seed in (1, 2) for channel in ("ai0", "ai1")]
    correlation = np.corrcoef(draws)
    assert np.max(np.abs(correlation - np.eye(4))) < 0.03
    for draw in draws:
        assert abs(draw.mean()) < 0.03
        assert abs(draw.std() - 1.0) < 0.03


def test_no_sample_is_no_noise() -> None:
    assert ChannelNoise(1, "ai0").normal(5, 0).shape == (0,)


def test_constants_are_drawn_independently_of_each_other() -> None:
    first = generator(1, "specimen").standard_normal(3)
    generator(1, "sensor").standard_normal(100)
    assert np.array_equal(generator(1, "specimen").standard_normal(3), first)
