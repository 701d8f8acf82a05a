"""The check of a path against independent calculation, and its refusals one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

from bench.errors import LimitError, ModelError
from bench.models.arm_description import LinkInertia
from bench.models.arm_path import ArmPath
from bench.models.motion_limits import CheckRow
from bench.models.path_check import check_path, distinct
from bench.models.preflight_report import PreflightReport
from bench.models.rigid import ArmModel

DOWN = (0.0, 0.0, -1.0)
POSE = np.radians((0.0, 20.0, -20.0, 10.0, 60.0, 0.0))
MakePath = Callable[..., ArmPath]


def row_of(report: PreflightReport, check: str, joint: str = "") -> CheckRow:
    found = [row for row in report.rows if row.check == check and joint in ("", row.joint)]
    assert len(found) == 1, [(row.check, row.joint) for row in report.rows]
    return found[0]


def refused(report: PreflightReport) -> LimitError:
    assert not report.ok
    with pytest.raises(LimitError) as error:
        report.refuse()
    worst = report.broken[0]
    assert error.value.remedy
    for said in (worst.check, worst.joint, "margin -", worst.pose, f"{worst.time_s:.2f} s", worst.during):
        assert said in str(error.value)
    return error.value


def only(report: PreflightReport, *checks: str) -> None:
    assert {row.check for row in report.broken} == set(checks), report.lines()


# -- against independent calculation ---------------------------------------------------------------------------------


def test_a_path_inside_every_limit_passes(ground: Any, make_swing: MakePath) -> None:
    report = check_path(make_swing(), ground.model, ground.limits, "swing")
    report.refuse()
    assert report.ok
    assert report.lines()[0] == "preflight of swing: all limits are kept"
    assert all(row.margin >= 0.0 for row in report.rows)


def test_rows_are_the_worst_of_the_samples(ground: Any, make_swing: MakePath) -> None:
    """Everything again, sample by sample, with single calls of the model."""
    path = make_swing(force_needed=8.0, direction=DOWN)
    report = check_path(path, ground.model, ground.limits)
    model, limits = ground.model, ground.limits
    force = np.array([0.0, 0.0, -8.0, 0.0, 0.0, 0.0])
    torque, bent, singular, speed = [], [], [], []
    for q, v, a in zip(path.q, path.v, path.a, strict=True):
        jacobian = model.jacobian(q)
        rigid = model.mass_matrix(q) @ a + model.bias(q, v) + jacobian.T @ force
        friction = limits.coulomb * np.where(np.abs(v) > 1e-4, np.sign(v), np.sign(rigid)) + limits.viscous * v
        torque.append(rigid + friction)
        load = rigid - np.diag(model.motor_inertia) * a
        bent.append(np.linalg.norm(jacobian[:3] @ (load / limits.stiffness)))
        scaled = jacobian * np.array([1.0] * 3 + [limits.characteristic_length] * 3)[:, None]
        singular.append(np.sqrt(np.linalg.eigvalsh(scaled @ scaled.T)[0]))
        speed.append(np.linalg.norm(jacobian[:3] @ v))
    for j, name in enumerate(limits.names):
        worst = np.abs(np.array(torque)[:, j]).max()
        assert row_of(report, "torque (rated)", name).value == pytest.approx(worst, rel=0.01)
        assert row_of(report, "torque (rated)", name).limit == limits.rated_torque[j] / 1.5
        assert row_of(report, "torque (peak)", name).limit == limits.peak_torque[j] / 2.0
        assert row_of(report, "speed", name).value == np.abs(path.v[:, j]).max()
        assert row_of(report, "acceleration", name).value == np.abs(path.a[:, j]).max()
    assert row_of(report, "deflection").value == pytest.approx(1e3 * max(bent), rel=0.01)
    assert row_of(report, "singularity").value == pytest.approx(1e3 * min(singular), rel=0.01)
    assert row_of(report, "tip speed").value == pytest.approx(max(speed), rel=0.01)


def test_every_sample_lies_near_one_that_is_looked_at(ground: Any, make_swing: MakePath) -> None:
    path = ArmPath.joined([ArmPath.standing("waiting", POSE, 60.0), make_swing(period_s=20.0)])
    kept = distinct(path, ground.limits)
    assert len(kept) < len(path.time)
    q, v, a = path.q[kept], path.v[kept], path.a[kept]
    for i in range(len(path.time)):
        near = (
            (np.abs(q - path.q[i]) <= 0.005).all(axis=1)
            & (np.abs(v - path.v[i]) <= 0.01 * ground.limits.speed).all(axis=1)
            & (np.abs(a - path.a[i]) <= 0.01 * ground.limits.acceleration).all(axis=1)
        )
        assert near.any(), i


@pytest.mark.parametrize("direction", [DOWN, (1.0, 0.0, 0.0), (0.3, -0.5, 0.8)])
def test_the_available_force_is_that_of_a_linear_programme(ground: Any, direction: tuple[float, float, float]) -> None:
    path = ArmPath.standing("pressing", POSE, 1.0, force_needed=5.0, direction=direction)
    row = row_of(check_path(path, ground.model, ground.limits), "contact force")
    unit = np.array(direction) / np.linalg.norm(direction)
    along = ground.model.jacobian(POSE)[:3].T @ unit
    held, left = ground.model.gravity(POSE), ground.limits.torque - ground.limits.coulomb
    best = linprog(
        [-1.0], A_ub=np.concatenate([along, -along])[:, None], b_ub=np.concatenate([left - held, left + held])
    )
    assert row.value == pytest.approx(float(best.x[0]), rel=1e-9)
    torque = held + along * row.value
    limiting = ground.limits.names.index(row.joint)
    assert abs(torque[limiting]) == pytest.approx(left[limiting], rel=1e-9)


def test_the_box_holds_joints_and_tip_and_not_the_base(ground: Any) -> None:
    """The frames of the first two axes stand where they are, whatever the box says."""
    path = ArmPath.standing("standing", POSE, 1.0)
    places = ground.model.joint_positions_rows(POSE[None])[0]
    tight = replace(ground.limits, box_min=places[2:].min(axis=0) - 1e-6, box_max=places[2:].max(axis=0) + 1e-6)
    assert places[0, 2] < tight.box_min[2] - 0.1
    assert check_path(path, ground.model, tight).ok
    lower = replace(tight, box_max=tight.box_max - [0.0, 0.0, 1e-3])
    report = check_path(path, ground.model, lower)
    only(report, "box z")
    highest = ("axis of elbow", "axis of forearm", "axis of wrist", "axis of flange", "flange", "tip")
    assert report.broken[0].joint == highest[int(np.argmax(places[2:, 2]))]
    assert report.broken[0].margin == pytest.approx(-1e-3 + 1e-6, rel=1e-6)


# -- refusals --------------------------------------------------------------------------------------------------------


def test_a_payload_beyond_the_safety_factor_is_refused(ground: Any, make_swing: MakePath) -> None:
    def loaded(mass: float) -> PreflightReport:
        load = LinkInertia(mass, np.array([0.0, 0.0, 0.1]), np.zeros((3, 3)))
        model = ArmModel(ground.model.description.with_load(load), ground.model.motor_inertia)
        return check_path(make_swing(), model, replace(ground.limits, max_deflection=1.0), f"swing with {mass:g} kg")

    assert loaded(1.0).ok
    report = loaded(4.0)
    only(report, "torque (rated)")
    error = refused(report)
    assert error.reason == "preflight_torque"
    assert "lighter payload" in error.remedy
    # with the safety factors taken away the same path is bearable: it is they that refuse it
    bearable = replace(ground.limits, factor_rated=1.0, factor_peak=1.0, max_deflection=1.0)
    load = LinkInertia(4.0, np.array([0.0, 0.0, 0.1]), np.zeros((3, 3)))
    assert check_path(
        make_swing(), ArmModel(ground.model.description.with_load(load), ground.model.motor_inertia), bearable
    ).ok


def test_a_path_through_a_singular_pose_is_refused_where_the_tip_is_led(ground: Any, make_swing: MakePath) -> None:
    through = {"middle_deg": (0.0, 20.0, -20.0, 10.0, 0.0, 0.0), "reach_deg": (0.0, 0.0, 0.0, 0.0, 20.0, 0.0)}
    report = check_path(make_swing(**through, led=True), ground.model, ground.limits)
    only(report, "singularity")
    assert refused(report).reason == "preflight_singularity"
    assert report.broken[0].value < 1.0
    assert abs(report.broken[0].pose_deg[4]) < 0.5
    assert check_path(make_swing(**through, led=False), ground.model, ground.limits).ok


def test_a_box_violated_is_refused_with_point_and_pose(ground: Any, make_swing: MakePath) -> None:
    report = check_path(make_swing(middle_deg=(0.0, 75.0, 5.0, 0.0, 40.0, 0.0)), ground.model, ground.limits)
    only(report, "box z")
    assert refused(report).reason == "preflight_box"
    assert report.broken[0].sense == "at least"


def test_a_contact_force_that_is_not_feasible_is_refused(ground: Any) -> None:
    path = ArmPath.standing("pressing 100 N", POSE, 1.0, force_needed=100.0, direction=DOWN)
    report = check_path(path, ground.model, ground.limits)
    assert row_of(report, "contact force").value < 100.0
    assert "contact force" in {row.check for row in report.broken}
    assert "while pressing 100 N" in str(refused(report))


def test_a_force_the_joints_bear_along_one_direction_alone(ground: Any) -> None:
    """What a wrench asks of the joints and what is available are two checks: here only the second one refuses."""
    path = ArmPath.of(
        "about to press", [0.0, 1.0], [POSE, POSE], np.zeros((2, 6)), np.zeros((2, 6)),
        force_needed=80.0, direction=DOWN, wrench=np.zeros(6),
    )  # fmt: skip
    report = check_path(path, ground.model, ground.limits)
    only(report, "contact force")
    assert refused(report).reason == "preflight_contact_force"


def test_too_large_a_deflection_is_refused(ground: Any, make_swing: MakePath) -> None:
    soft = replace(ground.limits, stiffness=ground.limits.stiffness / 20.0)
    report = check_path(make_swing(), ground.model, soft)
    only(report, "deflection")
    assert refused(report).reason == "preflight_deflection"


def test_a_joint_limit_is_refused_with_the_joint(ground: Any, make_swing: MakePath) -> None:
    report = check_path(make_swing(middle_deg=(0.0, 0.0, 65.0, 0.0, 0.0, 0.0)), ground.model, ground.limits)
    only(report, "position")
    assert "position of elbow is 75 deg where at most 70 deg is allowed, margin -5 deg" in str(refused(report))


def test_speed_and_acceleration_are_refused_with_the_joint(ground: Any, make_swing: MakePath) -> None:
    quick = make_swing(reach_deg=(0.0, 0.0, 0.0, 0.0, 0.0, 90.0), period_s=2.0)
    report = check_path(quick, ground.model, ground.limits)
    only(report, "speed")
    assert report.broken[0].joint == "flange"
    assert refused(report).reason == "preflight_speed"
    jerky = make_swing(reach_deg=(0.0, 0.0, 0.0, 0.0, 0.0, 5.0), period_s=0.35)
    only(check_path(jerky, ground.model, ground.limits), "acceleration")


def test_too_quick_a_tip_is_refused(ground: Any, make_swing: MakePath) -> None:
    fast = make_swing(middle_deg=(0.0, 60.0, -20.0, 0.0, 40.0, 0.0), reach_deg=(53.5, 0, 0, 0, 0, 0), period_s=3.0)
    report = check_path(fast, ground.model, replace(ground.limits, max_deflection=1.0))
    only(report, "tip speed")
    assert refused(report).reason == "preflight_tip_speed"


def test_a_path_of_another_arm_or_with_holes_is_refused(ground: Any) -> None:
    short = np.zeros((2, 5))
    with pytest.raises(ModelError, match="a path of 5 joints for an arm of 6"):
        check_path(ArmPath.of("standing", [0.0, 1.0], short, short, short), ground.model, ground.limits)
    holed = np.zeros((2, 6))
    holed[1, 3] = np.nan
    with pytest.raises(ModelError, match="q is not finite at sample 1"):
        ArmPath.of("standing", [0.0, 1.0], holed, np.zeros((2, 6)), np.zeros((2, 6)))


def test_the_table_marks_what_is_refused(ground: Any, make_swing: MakePath) -> None:
    lines = check_path(make_swing(middle_deg=(0.0, 0.0, 65.0, 0.0, 0.0, 0.0)), ground.model, ground.limits).lines()
    marked = [line for line in lines if line.startswith("NO")]
    assert len(marked) == 1
    assert "elbow" in marked[0]
    assert "REFUSED" in lines[0]
    assert any("Take another pose" in line for line in lines)


def test_parts_are_joined_one_after_the_other(make_swing: MakePath) -> None:
    one, two = ArmPath.standing("waiting", POSE, 2.0), make_swing(force_needed=3.0, direction=(0.0, 0.0, -2.0))
    path = ArmPath.joined([one, two, one])
    assert path.time[-1] == pytest.approx(4.0 + two.time[-1])
    assert [path.text(i) for i in (0, 1, 2, len(path.time) - 1)] == ["waiting", "waiting", "swinging", "waiting"]
    assert np.array_equal(path.wrenches()[2], [0.0, 0.0, -3.0, 0.0, 0.0, 0.0])
    assert path.led_samples().sum() == len(two.time)


def test_springs_behind_coupled_axes_and_joints_that_slide(ground: Any, make_swing: MakePath) -> None:
    path = make_swing()
    coupling = np.eye(6)
    coupling[2, 1] = -1.0
    still = ArmPath.standing("standing", POSE, 1.0)
    coupled = check_path(still, ground.model, replace(ground.limits, coupling=coupling))
    angles = coupling @ ((coupling.T @ ground.model.gravity(POSE)) / ground.limits.stiffness)
    given_way = np.linalg.norm(ground.model.jacobian(POSE)[:3] @ angles)
    assert row_of(coupled, "deflection").value == pytest.approx(1e3 * given_way, rel=1e-9)
    sliding = check_path(path, ground.model, replace(ground.limits, prismatic=(5,)))
    row = row_of(sliding, "position", "flange")
    assert (row.unit, row.value) == ("m", pytest.approx(np.abs(path.q[:, 5]).max()))
    assert row_of(sliding, "torque (rated)", "flange").unit == "N"
    assert row_of(sliding, "position", "base").unit == "deg"
