"""Designs of an arm's excitation: limits, condition number, the same again for a seed, refusals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bench.errors import LimitError, ModelError
from bench.identify.excitation import compare, design, design_hold_out, model_digest, refuse_repeat
from bench.identify.excitation_cost import BaseColumns, condition_along, scaled_condition
from bench.models.motion_limits import Resonance
from bench.models.rigid import ArmModel

ARGUMENTS: dict[str, Any] = {"base_hz": 0.05, "harmonics": 8, "seed": 1, "evaluations": 250}


def test_a_small_design_keeps_every_limit_and_is_well_conditioned(bed: Any, excitation: Any) -> None:
    assert all(row.ok for row in excitation.rows)
    assert excitation.evaluations == ARGUMENTS["evaluations"]
    assert excitation.columns == 58
    assert excitation.condition_number < 16.0
    assert excitation.path.duration_s <= 30.0
    assert excitation.tightest.share >= 0.0


def test_the_condition_number_is_that_of_a_singular_value_decomposition(bed: Any, excitation: Any) -> None:
    columns = bed.columns(*excitation.path.sample(np.linspace(0.0, 20.0, 400, endpoint=False)))
    scaled = columns / np.linalg.norm(columns, axis=0)
    values = np.linalg.svd(scaled, compute_uv=False)
    assert scaled_condition(columns) == pytest.approx(values[0] / values[-1], rel=1e-9)
    assert condition_along(excitation.path, bed.columns, 400) == pytest.approx(values[0] / values[-1], rel=1e-9)


def test_columns_that_depend_on_each_other_have_no_condition_number() -> None:
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(40, 3))
    assert scaled_condition(np.hstack([columns, columns[:, :1] + columns[:, 1:2]])) > 1e6
    assert scaled_condition(np.hstack([columns, np.zeros((40, 1))])) == np.inf


def test_base_columns_span_the_whole_regressor(bed: Any) -> None:
    rng = np.random.default_rng(5)
    q, v, a = (rng.uniform(-1.0, 1.0, (50, 6)) for _ in range(3))
    base = bed.columns(q, v, a)
    whole = bed.model.regressor_rows(q, v, a).reshape(300, 60)
    assert np.linalg.matrix_rank(base) == bed.columns.count == 58
    rest = whole - base @ np.linalg.lstsq(base, whole, rcond=None)[0]
    assert np.abs(rest).max() < 1e-9


def test_a_seed_gives_one_series(bed: Any) -> None:
    short = ARGUMENTS | {"evaluations": 30}
    first, again, other = (
        design(bed.model, bed.limits.narrowed(), bed.columns, **(short | {"seed": seed})) for seed in (1, 1, 2)
    )
    assert np.array_equal(again.path.cosine, first.path.cosine)
    assert np.array_equal(again.path.offset, first.path.offset)
    assert again.condition_number == first.condition_number
    assert not np.array_equal(other.path.cosine, first.path.cosine)


def test_more_evaluations_make_it_better(bed: Any, excitation: Any) -> None:
    first = design(bed.model, bed.limits.narrowed(), bed.columns, **(ARGUMENTS | {"evaluations": 24}))
    assert excitation.condition_number < 0.8 * first.condition_number


def test_a_hold_out_is_another_trajectory(bed: Any, excitation: Any) -> None:
    held = design_hold_out(
        excitation,
        bed.model,
        bed.limits.narrowed(),
        bed.columns,
        base_hz=0.06,
        harmonics=6,
        seed=2,
        evaluations=40,
    )
    assert not any(match.repeat for match in compare(excitation.path, held.path))
    assert all(row.ok for row in held.rows)


def test_a_repeat_is_refused_even_shifted_in_time(excitation: Any) -> None:
    path = excitation.path
    angle = 2.0 * np.pi * np.array(path.harmonics) * 0.3
    shifted = replace(
        path,
        cosine=path.cosine * np.cos(angle) + path.sine * np.sin(angle),
        sine=path.sine * np.cos(angle) - path.cosine * np.sin(angle),
        periods=2,
    )
    with pytest.raises(LimitError, match="repeats the first one on joints base") as refused:
        refuse_repeat(replace(path, periods=2), shifted, excitation.limits.names)
    assert refused.value.reason == "repeat"


@pytest.mark.parametrize("same", ["base_hz", "seed"])
def test_a_hold_out_of_the_same_frequency_or_seed_is_refused(bed: Any, excitation: Any, same: str) -> None:
    given: dict[str, Any] = {"base_hz": 0.06, "harmonics": 6, "seed": 2, "evaluations": 5}
    given[same] = ARGUMENTS[same]
    with pytest.raises(LimitError, match="of the first"):
        design_hold_out(excitation, bed.model, bed.limits, bed.columns, **given)


def refused(bed: Any, limits: Any, **changes: Any) -> LimitError:
    with pytest.raises(LimitError) as error:
        design(bed.model, limits, bed.columns, **(ARGUMENTS | {"evaluations": 20} | changes))
    assert error.value.remedy
    return error.value


def test_limits_that_leave_no_room_are_refused_with_the_joint(bed: Any) -> None:
    high = bed.limits.position_max.copy()
    high[3] = bed.limits.position_min[3]
    error = refused(bed, replace(bed.limits, position_max=high))
    assert error.reason == "no_room"
    assert "forearm" in str(error)
    assert "empty along z" in str(refused(bed, replace(bed.limits, box_max=np.array([1.0, 1.0, 0.01]))))


def test_a_joint_without_a_speed_limit_is_refused(bed: Any) -> None:
    speed = bed.limits.speed.copy()
    speed[5] = np.inf
    error = refused(bed, replace(bed.limits, speed=speed))
    assert error.reason == "no_limit"
    assert "joint flange has no speed limit" in str(error)


def test_a_resonance_hit_is_refused_with_frequency_and_joint(bed: Any) -> None:
    error = refused(bed, replace(bed.limits, resonances=(Resonance(0.4, 0.1, "the elbow's gear"),)))
    assert error.reason == "resonance"
    for said in ("harmonic 8", "0.4 Hz", "the elbow's gear", "base"):
        assert said in str(error)


def test_a_rest_pose_outside_the_box_is_refused(bed: Any) -> None:
    error = refused(bed, bed.limits, rest_pose=np.radians([0.0, 95.0, 30.0, 0.0, 0.0, 0.0]))
    assert error.reason == "box"
    assert "rest pose [0.0, 95.0, 30.0, 0.0, 0.0, 0.0] deg" in str(error)


def test_a_box_no_series_stays_in_is_refused_with_the_tightest_limit(bed: Any) -> None:
    small = replace(bed.limits, box_min=np.array([0.3, -0.01, 0.5]), box_max=np.array([0.4, 0.01, 0.6]))
    error = refused(bed, small)
    assert error.reason == "infeasible"
    assert "box" in str(error)
    assert "deg" in str(error)


def test_torque_an_arm_does_not_have_is_refused(bed: Any) -> None:
    rated = bed.limits.rated_torque.copy()
    rated[1] = 3.0
    error = refused(bed, replace(bed.limits, rated_torque=rated))
    assert error.reason == "infeasible"
    assert "torque of shoulder" in str(error)


def test_wrong_joint_count_and_numbers_that_are_none_are_refused(bed: Any) -> None:
    with pytest.raises(ModelError, match="5 values of speed for an arm of 6 joints"):
        design(bed.model, replace(bed.limits, speed=bed.limits.speed[:5]), bed.columns, **ARGUMENTS)
    speed = bed.limits.speed.copy()
    speed[0] = np.nan
    with pytest.raises(ModelError, match="not a number"):
        design(bed.model, replace(bed.limits, speed=speed), bed.columns, **ARGUMENTS)
    with pytest.raises(ModelError, match="base frequency nan"):
        design(bed.model, bed.limits, bed.columns, **(ARGUMENTS | {"base_hz": float("nan")}))


def test_the_digest_tells_models_apart_and_not_roundings(bed: Any) -> None:
    described = bed.model.description
    links = [joint.link for joint in described.joints]
    rounded = described.with_links(tuple(replace(link, mass=link.mass * (1.0 + 1e-14)) for link in links))
    heavier = described.with_links((replace(links[0], mass=links[0].mass * 1.001), *links[1:]))
    inertia = bed.model.motor_inertia
    assert model_digest(ArmModel(rounded, inertia)) == model_digest(bed.model)
    assert model_digest(ArmModel(heavier, inertia)) != model_digest(bed.model)
    assert model_digest(ArmModel(described, inertia * 1.01)) != model_digest(bed.model)


def test_rotors_of_the_first_joint_are_not_told_from_its_link(bed: Any) -> None:
    assert 0 not in bed.columns.rotors
    assert BaseColumns.of(bed.model, friction=False, offset=False).count == 40


@pytest.mark.slow
@pytest.mark.performance
def test_the_full_design_reaches_a_condition_of_eight_within_thirty_seconds(bed: Any) -> None:
    found = design(bed.model, bed.limits.narrowed(), bed.columns, **(ARGUMENTS | {"evaluations": 2000}))
    assert found.condition_number <= 8.0
    assert found.path.duration_s <= 30.0
