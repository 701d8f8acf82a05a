"""Noise as a function of (seed, channel, sample index): read in any order, in any pieces, it is the same.

Philox is a counter-based generator, so a block of samples far away costs no more than the next one.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_CHUNK = 4096
_KEPT_CHUNKS = 8


def channel_key(seed: int, channel: str) -> int:
    """Return a 128-bit Philox key for ``channel`` of the run with ``seed``; the same on every machine."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{channel}".encode()).digest()[:16], "little")


def generator(seed: int, what: str) -> np.random.Generator:
    """Return a generator for drawing the constants of one thing, e.g. a specimen, independent of all others."""
    return np.random.Generator(np.random.Philox(key=channel_key(seed, what)))


class ChannelNoise:
    """Standard normal noise of one channel, addressed by sample index."""

    def __init__(self, seed: int, channel: str) -> None:
        self._key = channel_key(seed, channel)
        self._chunks: OrderedDict[int, Floats] = OrderedDict()
        self._latest_index = -1
        self._latest = np.empty(0)

    def normal(self, first: int, count: int, stride: int = 1) -> Floats:
        """Return the noise of the samples ``first + stride * (0 … count-1)``.

        Parameters
        ----------
        first, count, stride : int
            Sample indices, ``first >= 0`` and ``stride >= 1``.

        Returns
        -------
        ndarray (count,)
            Independent draws with mean 0 and variance 1.
        """
        if count <= 0:
            return np.empty(0)
        last = first + stride * (count - 1)
        low, high = first // _CHUNK, last // _CHUNK
        if low == high:
            if low != self._latest_index:
                self._latest_index, self._latest = low, self._chunk(low)
            return self._latest[first - low * _CHUNK : last - low * _CHUNK + 1 : stride]
        whole = np.concatenate([self._chunk(index) for index in range(low, high + 1)])
        return whole[first - low * _CHUNK : last - low * _CHUNK + 1 : stride]

    def _chunk(self, index: int) -> Floats:
        chunk = self._chunks.get(index)
        if chunk is None:
            bits = np.random.Philox(key=self._key, counter=index << 64)
            chunk = np.random.Generator(bits).standard_normal(_CHUNK)
            chunk.flags.writeable = False
            self._chunks[index] = chunk
            if len(self._chunks) > _KEPT_CHUNKS:
                self._chunks.popitem(last=False)
        return chunk
