"""Stiffness, hysteresis and backlash from locked-output ramps."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bench.errors import Refused
from bench.identify.ramp import Ramp, branches
from bench.identify.stiffness import identify_stiffness
from bench.models.transmission import Transmission

GEAR = Transmission(4000.0, 6500.0, 5e-4, 0.0, 0.6, 1e-4)
COUNT = 2.0 * math.pi / 16384 / 100


def ramp(gear=GEAR, seed=0, *, noise=0.02, step=0.0, cycles=3, rate_hz=200.0, reach=2.2e-3, zero=3e-4, gain=1.0):
    """Triangles of deflection; the hysteresis torque follows Dahl's equation from sample to sample."""
    rng = np.random.default_rng(seed)
    time = np.arange(0.0, 12.0 * cycles, 1.0 / rate_hz)
    path = reach * np.interp((time / 12.0) % 1.0, [0.0, 0.25, 0.75, 1.0], [0.0, 1.0, -1.0, 0.0])
    torque = gear.along(path)
    way = np.sign(np.gradient(path))
    command = (torque + way * (1.8 + 0.04 * np.abs(torque)) + 0.05) / 1.015
    seen = path + zero
    if step:
        seen = np.round(seen / step) * step
    return Ramp(rate_hz, gain * torque + noise * rng.standard_normal(len(time)), seen, command)


def truth(gear):
    return {name: getattr(gear, name) for name in ("stiffness_zero", "stiffness_load", "hysteresis_width", "backlash")}


def test_noise_free_ramps_are_recovered():
    """To 1e-6; averaging to 50 Hz rounds the bend of the mid-line off by 4e-5 where torque goes at 4 N.m/s."""
    exact = identify_stiffness([ramp(noise=0.0, rate_hz=100.0)], kept_hz=100.0)
    fit = identify_stiffness([ramp(noise=0.0)])
    for name, true in truth(GEAR).items():
        assert exact.parameters[name].value == pytest.approx(true, rel=1e-6, abs=1e-10), name
        assert fit.parameters[name].value == pytest.approx(true, rel=1e-4, abs=1e-8), name
    assert fit.torque_scale.value == pytest.approx(1.015, rel=1e-5)
    assert fit.branches == 7
    assert not fit.backlash_told


@pytest.mark.parametrize("backlash", [0.0, 2e-4])
def test_truth_lies_within_the_expanded_uncertainty_in_90_to_99_percent_of_ramps(backlash, record_property):
    """50 seeds in all; angle rounded to a count of the rotor's encoder."""
    gear = Transmission(4000.0, 6500.0, 5e-4, backlash, 0.6, 1e-4)
    names = [name for name in truth(gear) if name != "backlash" or backlash]
    inside, error, told = [], [], []
    for seed in range(25):
        fit = identify_stiffness([ramp(gear, seed, step=COUNT, rate_hz=100.0)])
        found = [(fit.parameters[name], truth(gear)[name]) for name in names]
        inside.append([abs(e.value - t) <= e.expanded_uncertainty for e, t in found])
        error.append([abs(e.value / t - 1.0) for e, t in found])
        told.append(fit.backlash_told)
        assert fit.backlash_limit >= backlash
    share = np.mean(inside, axis=0)
    record_property("coverage", dict(zip(names, share.round(2).tolist(), strict=True)))
    record_property("worst", dict(zip(names, np.max(error, axis=0).round(5).tolist(), strict=True)))
    assert 0.90 <= share.mean() <= 0.995
    assert share.min() >= 0.80
    assert np.max(error) < 0.03
    assert all(told) if backlash else not any(told)


def test_a_gap_below_the_noise_is_given_as_a_limit():
    fit = identify_stiffness([ramp(Transmission(4000.0, 6500.0, 5e-4, 5e-7, 0.6, 1e-4))])
    assert not fit.backlash_told
    assert 5e-7 < fit.backlash_limit < 1e-5
    assert any("below" in note for note in fit.notes)


def test_a_gear_without_hysteresis_or_without_curve_is_told_as_such():
    smooth = identify_stiffness([ramp(Transmission(4000.0, 6500.0, 5e-4))])
    assert "hysteresis_width" not in smooth.parameters
    assert any("no hysteresis" in note for note in smooth.notes)
    straight = identify_stiffness([ramp(Transmission(5000.0, 5000.0, 5e-4, 0.0, 0.6, 1e-4))])
    assert straight.parameters["stiffness_zero"] == straight.parameters["stiffness_load"]
    assert straight.parameters["stiffness_load"].value == pytest.approx(5000.0, rel=1e-3)
    assert straight.stiffness_at(3.0).value == pytest.approx(5000.0, rel=1e-3)


def test_the_slope_at_a_load_lies_between_both_stiffnesses():
    fit = identify_stiffness([ramp()])
    found = [fit.stiffness_at(load) for load in (0.0, 1.5, -1.5, 12.0)]
    for load, one in zip((0.0, 1.5, 1.5, 12.0), found, strict=True):
        true = float(GEAR.slope(GEAR.deflection(load)))
        assert abs(one.value - true) < one.expanded_uncertainty < 0.01 * true
    assert found[1].value == pytest.approx(found[2].value)


def test_ramps_that_end_before_the_gear_is_stiff_say_so():
    fit = identify_stiffness([ramp(reach=6e-4, noise=0.002)])
    assert any("ramp higher" in note for note in fit.notes)


def test_the_transducers_gain_scales_stiffness_and_its_uncertainty_covers_it():
    fit = identify_stiffness([ramp(gain=1.01)], gain_uncertainty=0.006)
    found = fit.parameters["stiffness_load"]
    assert found.value == pytest.approx(6565.0, rel=2e-3)
    assert found.budget["transducer_gain"] == pytest.approx(0.006 * found.value)
    assert abs(found.value - 6500.0) < found.expanded_uncertainty


def test_up_and_down_tell_the_torque_scale():
    fit = identify_stiffness([ramp()])
    assert abs(fit.torque_scale.value - 1.015) <= fit.torque_scale.expanded_uncertainty < 0.03
    assert fit.torque_scale.value == pytest.approx(1.015, rel=5e-3)
    assert identify_stiffness([Ramp(200.0, ramp().torque, ramp().deflection)]).torque_scale is None


def test_stretches_recorded_apart_are_fitted_together():
    fit = identify_stiffness([ramp(cycles=2, seed=1), ramp(cycles=2, seed=2)])
    assert fit.branches == 10
    assert fit.parameters["stiffness_zero"].value == pytest.approx(4000.0, rel=0.01)


def test_turns_are_found_and_branches_have_their_direction():
    data = branches([ramp()], where="here")
    edges = np.cumsum([0, *data.lengths])
    assert [data.direction[i] for i in edges[:-1]] == [1, -1, 1, -1, 1, -1, 1]
    assert data.fresh == [True, *[False] * 6]
    assert branches([ramp(cycles=2), ramp(cycles=2)], where="here").fresh == [True, *[False] * 4] * 2
    assert data.ways[1] == pytest.approx(4.4e-3, rel=0.01)


def test_too_few_cycles_and_a_still_gear_are_refused():
    with pytest.raises(Refused, match="at least twice") as told:
        identify_stiffness([ramp(cycles=1)])
    assert told.value.reason == "too_few_cycles"
    with pytest.raises(Refused, match="Lock the output"):
        identify_stiffness([Ramp(100.0, np.ones(500), np.zeros(500))])


def test_a_stiffness_fit_becomes_plain_data():
    import json

    told = json.loads(json.dumps(identify_stiffness([ramp()]).record()))
    assert told["parameters"]["stiffness_zero"]["unit"] == "N.m/rad"
    assert np.shape(told["covariance"]) == (len(told["names"]),) * 2
