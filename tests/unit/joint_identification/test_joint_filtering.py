"""The low-pass does what it states; the derivatives are true within theirs."""

from __future__ import annotations

import numpy as np
import pytest

from bench.errors import Refused
from bench.identify.filtering import LowPass, differentiate

RATE = 1000.0


def gain(low: LowPass, frequency_hz: float) -> complex:
    """Measured on a long sine, so whatever the filter is made of."""
    time = np.arange(20000) / RATE
    out = low.smooth(np.sin(2.0 * np.pi * frequency_hz * time), RATE)[5000:15000]
    basis = np.exp(-2j * np.pi * frequency_hz * time[5000:15000])
    return complex(2j * np.mean(out * basis))


@pytest.mark.parametrize("order", [2, 4, 8])
@pytest.mark.parametrize("cutoff", [5.0, 40.0, 200.0])
def test_both_passes_together_are_3_db_down_at_the_cutoff_without_phase(cutoff: float, order: int) -> None:
    found = gain(LowPass(cutoff, order), cutoff)
    assert abs(found) == pytest.approx(np.sqrt(0.5), rel=1e-6)
    assert np.angle(found) == pytest.approx(0.0, abs=1e-6)


def test_the_slope_is_6_db_per_octave_and_order() -> None:
    low = LowPass(5.0, 4)
    octave = 20.0 * np.log10(abs(gain(low, 20.0)) / abs(gain(low, 40.0)))
    assert octave == pytest.approx(24.0, abs=0.5)


def test_an_edge_has_settled_where_the_record_says_it_is_kept() -> None:
    low = LowPass(20.0, decimation=1)
    time = np.arange(4000) / RATE
    whole = np.cos(2.0 * np.pi * 3.0 * time)
    cut = whole[1000:3000]
    kept = low.kept(len(cut), RATE)
    assert kept.start == low.record(RATE).dropped
    difference = low.smooth(cut, RATE)[kept] - low.smooth(whole, RATE)[1000:3000][kept]
    assert np.abs(difference).max() < 5e-6
    assert np.abs(low.smooth(cut, RATE) - low.smooth(whole, RATE)[1000:3000]).max() > 1e-3


def test_pieces_of_a_record_keep_the_samples_the_whole_keeps() -> None:
    low = LowPass(25.0, decimation=7)
    values = np.arange(5000.0)
    whole = values[low.kept(5000, RATE, dropped=100)]
    pieces = [values[first : first + 2000][low.kept(2000, RATE, first_index=first, dropped=100)] for first in (0, 1800)]
    together = np.concatenate(pieces)
    assert np.array_equal(together, whole[: len(together)])


def test_derivatives_are_true_to_a_thousandth_up_to_their_band() -> None:
    time = np.arange(3000) / RATE
    for frequency in (1.0, 50.0, differentiate(time, RATE).band_hz * 0.99):
        w = 2.0 * np.pi * frequency
        found = differentiate(np.sin(w * time), RATE)
        inner = slice(4, -4)
        assert np.abs(found.velocity - w * np.cos(w * time))[inner].max() < 1e-3 * w
        assert np.abs(found.acceleration + w**2 * np.sin(w * time))[inner].max() < 1e-3 * w**2


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: LowPass(40.0, 3), "even order"),
        (lambda: LowPass(-1.0), "positive cut-off"),
        (lambda: LowPass(40.0, decimation=0), "decimation of 1 or more"),
        (lambda: LowPass(600.0).smooth(np.zeros(1000), RATE), "Lower the cut-off"),
        (lambda: LowPass(5.0).apply(np.zeros(300), RATE), "longer than"),
        (lambda: differentiate(np.zeros(5), RATE), "longer stretch"),
    ],
)
def test_what_cannot_be_filtered_is_refused_with_a_way_out(make: object, says: str) -> None:
    with pytest.raises(Refused, match=says) as refusal:
        make()  # type: ignore[operator]
    assert refusal.value.reason == "band"
