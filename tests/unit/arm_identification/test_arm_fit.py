"""Fits of an arm whose parameters are known: exact without noise, honest with it, the same in pieces as whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bench.errors import Refused
from bench.identify.arm_fit import fit_arm
from bench.identify.arm_hold_out import hold_out_arm
from bench.identify.arm_record import ArmRecord
from bench.identify.arm_rows import RowSettings, dead_zone
from bench.identify.filtering import LowPass

SLOW = np.full(6, 0.02)


def cut(record: ArmRecord, length: int, overlap: int) -> list[ArmRecord]:
    """The record in pieces that share rows."""
    pieces = []
    for first in range(0, len(record.time_s) - overlap, length - overlap):
        rows = slice(first, min(first + length, len(record.time_s)))
        parts = [getattr(record, name)[rows] for name in ("time_s", "position", "torque")]
        pieces.append(replace(record, time_s=parts[0], position=parts[1], torque=parts[2], first_index=first))
    return pieces


@pytest.mark.parametrize("band", [None, LowPass(12.0)], ids=["every row", "in a band"])
def test_torques_of_another_engine_give_the_parameters_back(
    bed: Any, motion: Any, other_engine: Any, band: LowPass | None
) -> None:
    rate = 400.0
    time = np.arange(4000) / rate
    q, v, a = motion.of(1).at(time)
    torque = other_engine(bed.description)(q, v, a) + bed.friction(v, a)
    record = ArmRecord(time, q, torque, rate, bed.description.names, bed.rated)
    # nothing below the band is lost by differencing the positions as they are
    fit = fit_arm(bed.base, [record], band, still_speed=SLOW, positions=None)
    assert fit.values == pytest.approx(bed.truth, abs=1e-8)
    assert fit.residual.max() < 1e-7


def test_three_standard_deviations_hold_what_they_should(bed: Any) -> None:
    """Noise that hangs together for a twentieth of a second, half of the band's period."""
    apart = []
    for seed in range(4):
        record = bed.record(seed + 10, seconds=24.0, rate=100.0, noise=0.02)
        fit = fit_arm(bed.base, [record], LowPass(8.0), still_speed=SLOW)
        apart.append((fit.values - bed.truth) / fit.standard_deviation)
    z = np.concatenate(apart)
    assert np.mean(np.abs(z) <= 3.0) >= 0.95
    assert 0.7 < np.sqrt(np.mean(z**2)) < 1.5


def test_pieces_and_blocks_make_the_answer_of_the_whole_record(bed: Any) -> None:
    record = bed.record(2, seconds=20.0, rate=100.0, noise=0.01)
    band = LowPass(8.0)
    whole = fit_arm(bed.base, [record], band, still_speed=SLOW)
    pieces = fit_arm(bed.base, cut(record, 600, 200), band, still_speed=SLOW)
    assert pieces.rows.tolist() == whole.rows.tolist()
    assert pieces.values == pytest.approx(whole.values, abs=1e-5)
    # the same by one dense weighted regression
    rows = list(whole.compare([record], band))
    moving = np.concatenate([moves for _, _, moves in rows])
    assert int(moving.sum()) == int(whole.rows.sum())
    left = np.concatenate([measured - predicted for measured, predicted, _ in rows])
    rms = np.sqrt(np.array([np.mean(left[moving[:, j], j] ** 2) for j in range(6)]))
    assert whole.residual == pytest.approx(rms, rel=1e-9)


def test_weighting_keeps_the_wrist_from_drowning(bed: Any) -> None:
    record = bed.record(3, seconds=20.0, rate=100.0)
    rng = np.random.default_rng(5)
    sigma = np.array([4.0, 4.0, 2.0, 0.02, 0.02, 0.02])
    noisy = replace(record, torque=record.torque + sigma * rng.normal(size=record.torque.shape))
    fits = {name: fit_arm(bed.base, [noisy], LowPass(8.0), method=name, still_speed=SLOW) for name in ("ols", "wls")}
    wrist = [i for i, name in enumerate(bed.base.leading) if name[-1] in "456"]
    error = {name: np.linalg.norm((fit.values - bed.truth)[wrist]) for name, fit in fits.items()}
    assert error["wls"] < 0.2 * error["ols"]
    assert fits["wls"].values != pytest.approx(fits["ols"].values)
    assert fits["wls"].ols == pytest.approx(fits["ols"].values)


def test_reweighting_bears_knocks_and_says_whether_it_settled(bed: Any) -> None:
    record = bed.record(4, seconds=20.0, rate=100.0, noise=0.003)
    torque = record.torque.copy()
    for first in range(100, 1900, 190):
        torque[first : first + 12] += 0.8 * bed.rated
    knocked = [replace(record, torque=torque)]
    band = LowPass(8.0)
    plain = fit_arm(bed.base, knocked, band, still_speed=SLOW)
    robust = fit_arm(bed.base, knocked, band, method="irls", still_speed=SLOW)
    weight = 1.0 / robust.standard_deviation
    assert np.linalg.norm(weight * (robust.values - bed.truth)) < 0.4 * np.linalg.norm(
        weight * (plain.values - bed.truth)
    )
    assert robust.converged
    assert 1 < robust.rounds <= 12
    assert "rounds" in robust.lines()[0]
    with pytest.raises(Refused) as refusal:
        fit_arm(bed.base, iter(knocked), band, method="irls", still_speed=SLOW)
    assert refusal.value.reason == "one_pass"


def test_stated_torque_scales_move_the_answer_as_a_changed_scale_does(bed: Any) -> None:
    record = bed.record(6, seconds=16.0, rate=100.0, noise=0.003)
    band = LowPass(8.0)
    scale = np.array([0.0, 0.02, 0.0, 0.0, 0.0, 0.0])
    plain = fit_arm(bed.base, [record], band, method="ols", still_speed=SLOW)
    stated = fit_arm(bed.base, [record], band, method="ols", still_speed=SLOW, torque_scale_uncertainty=scale)
    other = replace(record, torque=record.torque * (1.0 + scale))
    moved = fit_arm(bed.base, [other], band, method="ols", still_speed=SLOW).values - plain.values
    added = stated.covariance - plain.covariance
    assert added == pytest.approx(np.outer(moved, moved), abs=1e-8 * np.abs(added).max())
    assert stated.estimate("Izz2").standard_uncertainty > plain.estimate("Izz2").standard_uncertainty


def test_an_estimate_carries_its_unit_and_the_report_its_conditions(bed: Any) -> None:
    fit = fit_arm(bed.base, [bed.record(7, noise=0.003)], LowPass(8.0), still_speed=SLOW)
    one = fit.estimate("fs4")
    assert (one.unit, one.kind) == ("N.m", "torque")
    assert one.degrees_of_freedom >= 3.0
    text = "\n".join(fit.lines())
    for word in ("58 base parameters by WLS", "low-pass 8 Hz", "excluded as dead zone", "condition number", "Izz1"):
        assert word in text
    told = fit.provenance()
    assert told["band"]["cutoff_hz"] == 8.0
    assert told["dead_zone"] == SLOW.tolist()
    regressor, response = fit.standard_problem()
    assert regressor.shape == (58, len(bed.base.law.names))
    assert np.linalg.lstsq(regressor @ np.linalg.pinv(bed.base.grouping), response, rcond=None)[0] == pytest.approx(
        fit.values, rel=1e-6, abs=1e-9
    )
    q, v, a = np.random.default_rng(0).normal(size=(3, 5, 6))
    assert fit.predict(q, v, a) == pytest.approx(bed.base.regressor(q, v, a) @ fit.values)


def test_records_that_tell_too_little_are_refused(bed: Any) -> None:
    record = bed.record(8)
    band = LowPass(8.0)
    still = replace(record, position=record.position * [1, 1, 0, 1, 1, 1])
    broken = replace(record, torque=np.where(np.arange(len(record.torque))[:, None] == 900, np.nan, record.torque))
    cases = {
        "no_rows": [still],
        "not_finite": [broken],
        "band": [record.between(0.0, 0.3)],
        "too_short": [],
        "too_few_rows": [record.between(0.0, 1.4)],
        "shape": [replace(record, position=record.position[:, :5])],
    }
    for reason, records in cases.items():
        with pytest.raises(Refused) as refusal:
            fit_arm(bed.base, records, band, still_speed=SLOW)
        assert refusal.value.reason == reason
        assert refusal.value.remedy
    # joints that turn together all the time: their parameters cannot be told apart
    same = np.repeat(record.position[:, :1], 6, axis=1)
    with pytest.raises(Refused) as refusal:
        fit_arm(bed.base, [replace(record, position=same)], band, still_speed=SLOW)
    assert refusal.value.reason == "rank_deficient"


def test_the_hold_out_knows_its_baselines_and_a_repeat(bed: Any) -> None:
    train, other = (bed.record(seed, seconds=16.0, rate=100.0, noise=0.01) for seed in (20, 21))
    band = LowPass(8.0)
    fit = fit_arm(bed.base, [train], band, still_speed=SLOW)
    report = hold_out_arm(fit, [other], band)
    assert report.distinct
    assert report.moving.relative < 10.0
    # the noise alone, as much of it as the band lets through
    assert all(0.3 < one.rms_of_rated < 3.0 for one in report.joints)
    total = np.sqrt(sum(one.all.rms**2 for one in report.joints) / 6)
    assert report.all.rms == pytest.approx(total, rel=1e-9)
    worst = max(one.all.relative_of_mean for one in report.joints)
    assert worst <= 100.0
    text = "\n".join(report.lines())
    for word in ("another trajectory", "zero 100 %", "of rated", *bed.description.names):
        assert word in text
    assert report.record()["distinct_trajectory"] is True
    late = train.between(2.0, 99.0)
    with pytest.raises(Refused) as refusal:
        hold_out_arm(fit, [replace(late, time_s=late.time_s - 2.0)], band)
    assert refusal.value.reason == "repeat"
    allowed = hold_out_arm(fit, [late], band, allow_repeat=True)
    assert not allowed.distinct
    assert "THE SAME TRAJECTORY" in allowed.lines()[0]
    # one joint on a path of its own makes it another trajectory
    mixed = replace(train, position=np.column_stack([train.position[:, :5], other.position[:, 5]]))
    assert hold_out_arm(fit, [mixed], band).distinct
    with pytest.raises(Refused) as refusal:
        hold_out_arm(fit, [], band)
    assert refusal.value.reason == "too_short"


def test_fewer_rows_are_made_where_the_band_needs_fewer_and_the_answer_stays(bed: Any) -> None:
    """5 kHz for a band of 20 Hz: one row in five is made, and the torques lose what would fold into the band."""
    record = bed.record(30, seconds=6.0, rate=5000.0, noise=0.005)
    settings = RowSettings(LowPass(20.0), LowPass(100.0), SLOW)
    assert settings.thinning(5000.0) == 5
    assert RowSettings(LowPass(20.0), None, SLOW).thinning(5000.0) == 1
    thin = fit_arm(bed.base, [record], LowPass(20.0), still_speed=SLOW)
    every = fit_arm(bed.base, [record], LowPass(20.0), still_speed=SLOW, positions=None)
    assert thin.settings.position_filter == LowPass(100.0)
    assert thin.band_record is not None
    assert thin.band_record.rate_hz == 1000.0
    assert np.abs((thin.values - every.values) / every.standard_deviation).max() < 0.6
    assert np.abs((thin.values - bed.truth) / thin.standard_deviation).max() < 4.5


def test_the_dead_zone_is_a_share_of_the_speed_limit_unless_noise_is_worse(bed: Any) -> None:
    record = bed.record(31)
    limits = np.array([1.0, 2.0, 3.0, 4.0, 5.0, np.inf])
    quiet = dead_zone(record, LowPass(8.0), limits)
    assert quiet[:5] == pytest.approx(0.01 * limits[:5])
    assert quiet[5] < 1e-3
    rough = replace(
        record, position=record.position + 1e-3 * np.random.default_rng(0).normal(size=record.position.shape)
    )
    # four times (2 pi) sigma sqrt(2 f^3 / rate / 3) or so of white noise through 16 Hz
    found = dead_zone(rough, LowPass(8.0), limits)
    assert np.all((found > 0.08) & (found < 0.13))
