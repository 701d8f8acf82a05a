"""Parameters of a joint from motion and torque: both sides, what is left out, what cannot be told."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bench.errors import Refused
from bench.identify.estimate import Estimate
from bench.identify.filtering import LowPass, differentiate
from bench.identify.joint_dynamics import direction_filter, identify, stiction_speed, velocity_noise
from bench.identify.joint_laws import Stretch, link_side, motor_side, one_mass

BAND = LowPass(6.0)
TIME = np.arange(30000) / 1000.0


def motor_stretch(joint: Any, time: Any = TIME, first: int = 0, **noise: Any) -> Stretch:
    rng = np.random.default_rng(int(noise.get("seed", 0)))
    angle = joint.motion(time)[0] + noise.get("angle", 0.0) * rng.normal(size=len(time))
    torque = joint.torque(time) + noise.get("torque", 0.0) * rng.normal(size=len(time))
    return Stretch(1000.0, angle, torque, {"command": joint.command(time)}, first)


def link_stretch(joint: Any, **noise: Any) -> Stretch:
    rng = np.random.default_rng(int(noise.get("seed", 0)))
    angle = joint.motion(TIME)[0] + noise.get("angle", 0.0) * rng.normal(size=len(TIME))
    torque = joint.torque(TIME) + joint.torque_zero + noise.get("torque", 0.0) * rng.normal(size=len(TIME))
    return Stretch(1000.0, angle, torque)


def relative(fit: Any, truth: Any) -> float:
    return max(abs(float(found.value / getattr(truth, name) - 1.0)) for name, found in fit.parameters.items())


def test_without_noise_the_motor_side_comes_back_with_the_torque_scale(joint: Any) -> None:
    fit = identify(motor_side(), [motor_stretch(joint)], BAND, stiction_speed=0.05)
    assert set(fit.parameters) == {"torque_scale", "motor_inertia", "viscous", "coulomb", "offset"}
    assert relative(fit, joint) < 1e-8
    assert fit.excluded_share > 0.01


def test_without_noise_the_link_side_comes_back_with_moment_and_phase_of_gravity(joint: Any) -> None:
    fit = identify(link_side(), [link_stretch(joint)], BAND, stiction_speed=0.0)
    truth = replace(joint, offset=joint.torque_zero)
    assert set(fit.parameters) == {"link_inertia", "gravity_moment", "gravity_phase", "offset"}
    assert relative(fit, truth) < 1e-8
    assert (fit.excluded_share, fit.parameters["gravity_phase"].unit) == (0.0, "rad")


def test_one_mass_with_a_friction_of_its_own_in_either_direction(joint: Any) -> None:
    q, v, a = joint.motion(TIME)
    force = 95.0 * a + np.where(v > 0.0, 166.0 * v + 20.0, 240.0 * v - 21.0)
    fit = identify(one_mass("asymmetric"), [Stretch(1000.0, q, force)], LowPass(20.0), stiction_speed=0.01)
    truth = {
        "mass": 95.0, "viscous_positive": 166.0, "coulomb_positive": 20.0, "viscous_negative": 240.0,
        "coulomb_negative": 21.0,
    }  # fmt: skip
    assert {name: found.value for name, found in fit.parameters.items()} == pytest.approx(truth, rel=1e-8)
    assert fit.parameters["mass"].unit == "kg"
    predicted = fit.predict(q, 1000.0)
    assert np.abs(predicted - force)[10:-10].max() < 1e-6 * np.abs(force).max()


def test_with_noise_both_sides_are_within_two_percent_and_their_uncertainty(joint: Any) -> None:
    inside = []
    for seed in range(6):
        noise: dict[str, Any] = {"angle": 2e-5, "torque": 0.02, "seed": seed}
        motor = identify(motor_side(), [motor_stretch(joint, TIME, 0, **noise)], BAND)
        link = identify(link_side(), [link_stretch(joint, **noise)], BAND, stiction_speed=0.0)
        for fit, truth in ((motor, joint), (link, replace(joint, offset=joint.torque_zero))):
            for name, found in fit.parameters.items():
                inside.append(abs(found.value - getattr(truth, name)) < 1.5 * found.expanded_uncertainty)
            for name in {"motor_inertia", "link_inertia", "coulomb", "viscous", "gravity_moment"} & set(fit.parameters):
                assert fit.parameters[name].value == pytest.approx(getattr(truth, name), rel=0.02)
    assert np.mean(inside) >= 0.95


def test_a_balanced_load_does_not_tell_the_torque_scale_unless_it_is_given(joint: Any) -> None:
    balanced = replace(joint, gravity_moment=0.0)
    with pytest.raises(Refused, match="torque_scale") as refusal:
        identify(motor_side(), [motor_stretch(balanced)], BAND, stiction_speed=0.05)
    assert refusal.value.reason == "rank_deficient"
    known = {"torque_scale": Estimate(0.96, 0.005, "1", "number")}
    fit = identify(motor_side(), [motor_stretch(balanced)], BAND, stiction_speed=0.05, known=known)
    assert relative(fit, balanced) < 1e-8
    # all of it scales with the torque: half a percent of it is half a percent of the whole friction and inertia
    assert fit.parameters["coulomb"].standard_uncertainty == pytest.approx(0.005 / 0.96 * 1.2, rel=0.05)


def test_an_offset_beside_two_coulomb_levels_is_named(joint: Any) -> None:
    law = one_mass("asymmetric")
    twice = replace(law, terms=(*law.terms, one_mass().terms[-1]))
    q, v, a = joint.motion(TIME)
    with pytest.raises(Refused, match="coulomb_positive and coulomb_negative and offset cannot be told apart"):
        identify(twice, [Stretch(1000.0, q, 3.0 * a + v)], BAND, stiction_speed=0.05)


def test_leaving_the_stiction_zone_out_keeps_a_stribeck_excess_out_of_the_others(joint: Any) -> None:
    plain = motor_stretch(joint)
    _, v, _ = joint.motion(TIME)
    excess = 0.6 * np.exp(-((v / 0.05) ** 2)) * np.sign(v) / joint.torque_scale
    stuck = replace(plain, inputs={"command": plain.inputs["command"] + excess})
    errors = {}
    for name, speed in (("in", 0.0), ("out", 0.1)):
        fit = identify(motor_side(), [stuck], BAND, stiction_speed=speed)
        errors[name] = abs(fit.parameters["coulomb"].value / joint.coulomb - 1.0)
        assert fit.rms_all >= fit.rms_moving or speed == 0.0
    assert errors["out"] < 0.02
    assert errors["out"] < 0.2 * errors["in"]
    with_excess = identify(motor_side(stribeck_velocity=0.05), [stuck], BAND, stiction_speed=0.005)
    assert with_excess.parameters["stribeck_excess"].value == pytest.approx(0.6, rel=1e-3)
    assert with_excess.parameters["coulomb"].value == pytest.approx(1.2, rel=1e-3)


def test_filtering_the_position_alone_biases_what_parallel_filtering_does_not(joint: Any) -> None:
    rapid = replace(joint, base_hz=0.5, amplitudes=(0.3, 0.15, 0.08, 0.05))
    stretch = motor_stretch(rapid)
    low = LowPass(3.0, decimation=20)
    parallel = identify(motor_side(), [stretch], low, stiction_speed=0.01)
    alone = replace(stretch, position=low.smooth(stretch.position, 1000.0))
    biased = identify(motor_side(), [alone], LowPass(40.0), stiction_speed=0.01)
    assert relative(parallel, joint) < 4e-3
    assert abs(biased.parameters["motor_inertia"].value / joint.motor_inertia - 1.0) > 0.02


def test_the_default_stiction_speed_is_four_sd_of_the_velocity_noise_or_twice_the_stribeck_velocity(joint: Any) -> None:
    stretch = motor_stretch(joint, angle=1e-4)
    rng = np.random.default_rng(3)
    low = direction_filter(BAND, 1000.0)
    measured = low.smooth(differentiate(1e-4 * rng.normal(size=200_000), 1000.0).velocity, 1000.0)[500:-500].std()
    assert velocity_noise(stretch.position, 1000.0, low) == pytest.approx(measured, rel=0.1)
    assert stiction_speed(stretch, BAND) == pytest.approx(4.0 * measured, rel=0.1)
    assert stiction_speed(stretch, BAND, stribeck_velocity=0.05) == 0.1


def test_a_record_that_hardly_moves_is_refused(joint: Any) -> None:
    slow = replace(joint, amplitudes=(0.01,), phases=(0.0,))
    with pytest.raises(Refused, match="stiction zone") as refusal:
        identify(motor_side(), [motor_stretch(slow)], BAND, stiction_speed=0.1)
    assert refusal.value.reason == "mostly_stiction"
    with pytest.raises(Refused, match="no stretch"):
        identify(motor_side(), [], BAND)


def test_the_report_says_band_excluded_share_and_condition(joint: Any) -> None:
    fit = identify(motor_side(), [motor_stretch(joint)], BAND, stiction_speed=0.05)
    text = "\n".join(fit.lines())
    for due in ("6 Hz", "excluded", "condition number", "torque_scale", "moving", "all"):
        assert due in text
    assert fit.provenance()["band"]["cutoff_hz"] == 6.0
    assert fit.covariance.shape == (5, 5)


def test_pieces_of_a_record_give_the_answer_of_the_whole_in_flat_memory(joint: Any) -> None:
    def stretches(seconds: int) -> Iterator[Stretch]:
        for start in range(0, seconds - 20, 20):
            index = np.arange(start * 1000, (start + 22) * 1000)
            yield motor_stretch(joint, index / 1000.0, int(index[0]), torque=0.02, angle=1e-5, seed=start)

    def peak(seconds: int) -> tuple[int, Any]:
        tracemalloc.start()
        fit = identify(motor_side(), stretches(seconds), BAND, stiction_speed=0.05)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found, fit

    peak(60)
    one, _ = peak(60)
    thirty, fit = peak(600)
    assert thirty < 1.2 * one
    assert relative(fit, joint) < 0.02
    assert len(fit.path.pieces) == 1


def test_cut_into_overlapping_pieces_a_record_keeps_its_rows_and_its_answer(joint: Any) -> None:
    whole = motor_stretch(joint, torque=0.02)

    def piece(start: int, stop: int) -> Stretch:
        inputs = {"command": whole.inputs["command"][start:stop]}
        return replace(
            whole, position=whole.position[start:stop], response=whole.response[start:stop], inputs=inputs,
            first_index=start,
        )  # fmt: skip

    dropped = identify(motor_side(), [whole], BAND, stiction_speed=0.05).band.dropped
    cut = 41 * BAND.step(1000.0) * 10
    parts = [piece(0, cut + dropped), piece(cut - dropped, len(TIME))]
    one = identify(motor_side(), [whole], BAND, stiction_speed=0.05)
    two = identify(motor_side(), parts, BAND, stiction_speed=0.05)
    assert two.linear.rows == one.linear.rows
    assert two.coefficients == pytest.approx(one.coefficients, rel=1e-6)
