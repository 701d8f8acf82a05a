"""One arm from a standard table, a modified table and a URDF is one arm; what is no arm is refused with its place."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from bench.errors import ModelError
from bench.models.arm_description import ArmDescription, ArmJoint, LinkInertia
from bench.models.arm_plausible import check_description
from bench.models.dh import from_dh
from bench.models.rigid import ArmModel
from bench.models.transforms import from_rpy, shift, to_rpy, turn_of_z, turn_x, turn_y, turn_z
from bench.models.urdf import parse_urdf, read_urdf, write_urdf


def modified_rows(rows):
    """The same arm by Craig's convention: a and alpha of the row before, links seen from the frame before them."""
    out, a, alpha = [], 0.0, 0.0
    for row in rows:
        own = row.link.moved(shift(row.a, 0.0, 0.0) @ turn_x(row.alpha))
        out.append(replace(row, a=a, alpha=alpha, link=own))
        a, alpha = row.a, row.alpha
    return out, shift(a, 0.0, 0.0) @ turn_x(alpha)


def assert_same(one: ArmDescription, other: ArmDescription, atol=1e-12):
    """Same dynamics and the same place of tip and flange, whatever the frames between."""
    pytest.importorskip("pinocchio", reason="extra `arm` is not installed")
    a, b = ArmModel(one), ArmModel(other)
    for seed in range(4):
        q, v, w = np.random.default_rng(seed).uniform(-2.0, 2.0, (3, a.n))
        np.testing.assert_allclose(a.inverse_dynamics(q, v, w), b.inverse_dynamics(q, v, w), atol=atol * 100)
        np.testing.assert_allclose(a.mass_matrix(q), b.mass_matrix(q), atol=atol * 10)
        for frame in ("tip", "flange"):
            np.testing.assert_allclose(a.placement(q, frame), b.placement(q, frame), atol=atol)


@pytest.mark.parametrize("slide", [None, 1, 4])
def test_standard_modified_and_urdf_are_one_arm(six_rows, slide):
    rows = [replace(r, kind="prismatic") if i == slide else r for i, r in enumerate(six_rows)]
    standard = from_dh("arm", rows, tool=shift(0.0, 0.0, 0.1))
    moved, flange = modified_rows(rows)
    modified = from_dh("arm", moved, "modified", flange=flange, tool=shift(0.0, 0.0, 0.1))
    assert_same(standard, modified)
    assert_same(standard, parse_urdf(write_urdf(standard)))
    assert_same(standard, parse_urdf(write_urdf(modified)))


def test_a_standard_table_is_not_read_as_a_modified_one(six_rows):
    with pytest.raises(AssertionError):
        assert_same(from_dh("arm", six_rows), from_dh("arm", six_rows, "modified"))


@pytest.mark.parametrize("arm", ["six_axes", "sliding"])
def test_urdf_keeps_every_digit(arm, request):
    description = request.getfixturevalue(arm)
    read = parse_urdf(write_urdf(description))
    assert read.names == description.names
    assert read.name == description.name
    for a, b in zip(read.joints, description.joints, strict=True):
        assert a.kind == b.kind
        np.testing.assert_allclose(a.placement, b.placement, atol=1e-12)
        np.testing.assert_allclose(a.link.parameters(), b.link.parameters(), atol=1e-12)
    np.testing.assert_allclose(read.flange, description.flange, atol=1e-12)
    np.testing.assert_allclose(read.tip, description.tip, atol=1e-12)
    # What was read once comes back the same for good.
    np.testing.assert_allclose(parse_urdf(write_urdf(read)).parameters(), read.parameters(), atol=1e-15)


def test_limits_stand_in_the_urdf(six_axes):
    limits = np.tile([-2.5, 2.25, 40.0, 1.5], (6, 1))
    assert write_urdf(six_axes, limits).count('lower="-2.5" upper="2.25" effort="40.0" velocity="1.5"') == 6
    with pytest.raises(ModelError, match="shape"):
        write_urdf(six_axes, limits[:5])


def test_turns_come_back_also_where_pitch_is_a_right_angle():
    rng = np.random.default_rng(2)
    near = [
        (r, p, y) for r in (0.3, -2.0) for p in (math.pi / 2, math.pi / 2 - 1e-9, -math.pi / 2 + 1e-7) for y in (1, 3)
    ]
    for rpy in [*rng.uniform(-np.pi, np.pi, (50, 3)), *near]:
        turn = from_rpy(rpy)[:3, :3]
        np.testing.assert_allclose(from_rpy(to_rpy(turn))[:3, :3], turn, atol=1e-15)
    for axis in [*rng.normal(size=(50, 3)), [0, 0, -1], [1e-9, 0, -1], [0, 1e-5, -1], [1, 0, 0], [0, 0, 1]]:
        unit = np.asarray(axis) / np.linalg.norm(axis)
        turn = turn_of_z(unit)
        np.testing.assert_allclose(turn[:, 2], unit, atol=1e-12)
        np.testing.assert_allclose(turn.T @ turn, np.eye(3), atol=1e-12)
        assert np.linalg.det(turn) > 0.0


FOREIGN = """<robot name="foreign">
  <link name="world"/>
  <link name="base"><inertial><mass value="50"/>
    <inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>
  <link name="upper"><inertial><origin xyz="0.02 0 0.15" rpy="0.1 0.2 0.3"/><mass value="3"/>
    <inertia ixx="0.02" ixy="0.001" ixz="0" iyy="0.03" iyz="-0.002" izz="0.015"/></inertial>
    <visual><geometry><mesh filename="package://nowhere/upper.stl"/></geometry></visual></link>
  <link name="fore"><inertial><origin xyz="0 0.05 0.1"/><mass value="1.5"/>
    <inertia ixx="0.01" ixy="0" ixz="0" iyy="0.012" iyz="0" izz="0.006"/></inertial></link>
  <link name="wrist"><inertial><mass value="0.6"/>
    <inertia ixx="0.001" ixy="0" ixz="0" iyy="0.001" iyz="0" izz="0.0015"/></inertial></link>
  <link name="gripper"><inertial><origin xyz="0 0 0.04"/><mass value="0.4"/>
    <inertia ixx="0.001" ixy="0" ixz="0" iyy="0.002" iyz="0" izz="0.0015"/></inertial></link>
  <link name="camera"/>
  <link name="tip"/>
  <joint name="stand" type="fixed"><origin xyz="0 0 0.5" rpy="0 0 0.4"/>
    <parent link="world"/><child link="base"/></joint>
  <joint name="shoulder" type="revolute"><origin xyz="0 0 0.2"/><parent link="base"/><child link="upper"/>
    <axis xyz="0 2 0"/><limit lower="-2" upper="2" effort="50" velocity="2"/></joint>
  <joint name="elbow" type="revolute"><origin xyz="0.05 0 0.3" rpy="0.2 -1.1 0.5"/>
    <parent link="upper"/><child link="fore"/><axis xyz="0 0 -1"/>
    <limit lower="-2" upper="2" effort="50" velocity="2"/></joint>
  <joint name="slide" type="prismatic"><origin xyz="0 0 0.2"/><parent link="fore"/><child link="wrist"/>
    <axis xyz="0.6 0 0.8"/><limit lower="-2" upper="2" effort="50" velocity="2"/></joint>
  <joint name="mount" type="fixed"><origin xyz="0 0.01 0.05" rpy="0.3 0 0"/>
    <parent link="wrist"/><child link="gripper"/></joint>
  <joint name="look" type="fixed"><parent link="wrist"/><child link="camera"/></joint>
  <joint name="end" type="fixed"><origin xyz="0 0 0.1"/><parent link="gripper"/><child link="tip"/></joint>
</robot>"""


def test_a_foreign_urdf_is_read_as_pinocchio_reads_it():
    """Axes in any direction, bodies behind fixed joints, meshes that are nowhere."""
    pin = pytest.importorskip("pinocchio", reason="extra `arm` is not installed")
    ours = ArmModel(parse_urdf(FOREIGN))
    theirs = pin.buildModelFromXML(FOREIGN)
    theirs.gravity.linear = ours.description.gravity
    data = theirs.createData()
    assert ours.names == ("shoulder", "elbow", "slide")
    for seed in range(4):
        q, v, a = np.random.default_rng(seed).uniform(-1.5, 1.5, (3, 3))
        np.testing.assert_allclose(ours.inverse_dynamics(q, v, a), pin.rnea(theirs, data, q, v, a), atol=1e-12)
        pin.framesForwardKinematics(theirs, data, q)
        for ask, frame in (("tip", "tip"), ("flange", "wrist")):
            there = data.oMf[theirs.getFrameId(frame)].homogeneous
            np.testing.assert_allclose(ours.placement(q, ask), there, atol=1e-12)
    named = parse_urdf(FOREIGN, flange="gripper", tip="camera")
    np.testing.assert_allclose(named.flange @ shift(0.0, 0.0, 0.1), ours.description.tip, atol=1e-15)
    np.testing.assert_allclose(named.tip, ours.description.flange, atol=1e-15)


def changed(old: str, new: str) -> str:
    assert old in FOREIGN
    return FOREIGN.replace(old, new)


STAND = """<joint name="stand" type="fixed"><origin xyz="0 0 0.5" rpy="0 0 0.4"/>
    <parent link="world"/><child link="base"/></joint>"""
CAMERA_TURNS = changed(
    '<joint name="look" type="fixed"><parent', '<joint name="look" type="revolute"><axis xyz="0 0 1"/><parent'
)


TWO_IN_A_LOOP = """<robot><link name="a"/><link name="b"/>
  <joint name="out" type="fixed"><parent link="a"/><child link="b"/></joint>
  <joint name="back" type="fixed"><parent link="b"/><child link="a"/></joint></robot>"""


@pytest.mark.parametrize(
    ("text", "options", "reason", "word"),
    [
        (changed('mass value="1.5"', 'mass value="-1.5"'), {}, "not_positive_mass", "fore"),
        (changed('mass value="1.5"', 'mass value="0"'), {}, "not_positive_mass", "elbow"),
        (changed('ixx="0.01"', 'ixx="-0.01"'), {}, "not_a_body", "elbow"),
        (changed('izz="0.006"', 'izz="0.03"'), {}, "not_a_body", "triangle"),
        (changed('xyz="0.05 0 0.3"', 'xyz="50 0 300"'), {}, "implausible_length", "millimetres"),
        (changed('xyz="0 0.05 0.1"', 'xyz="0 50 100"'), {}, "implausible_length", "centre"),
        (
            changed('ixx="0.01" ixy="0" ixz="0" iyy="0.012" iyz="0" izz="0.006"',
                    'ixx="10000" ixy="0" ixz="0" iyy="12000" iyz="0" izz="6000"'),
            {}, "implausible_inertia", "kg.mm2",
        ),
        (changed('mass value="1.5"', 'mass value="150000"'), {}, "implausible_inertia", "elbow"),
        (FOREIGN, {"expect_joints": 6}, "joint_count", "6 are expected"),
        (FOREIGN, {"expect_joints": ["shoulder", "elbow", "slides"]}, "unknown_joint", "did you mean 'slide'"),
        (FOREIGN, {"expect_joints": ["elbow", "shoulder", "slide"]}, "joint_order", "from the base"),
        (FOREIGN, {"flange": "flansch"}, "unknown_link", "gripper"),
        (changed('xyz="0 0.05 0.1"', 'xyz="0 nan 0.1"'), {}, "not_finite", "fore"),
        (changed('mass value="1.5"', 'mass value="inf"'), {}, "not_finite", "fore"),
        (changed('xyz="0 0.05 0.1"', 'xyz="0 0.05"'), {}, "bad_number", "fore"),
        (changed('mass value="1.5"', 'mass value="1,5"'), {}, "bad_number", "1,5"),
        (changed('<axis xyz="0 0 -1"/>', '<axis xyz="0 0 0"/>'), {}, "bad_number", "elbow"),
        (changed('<axis xyz="0 0 -1"/>', '<axis xyz="0 0 -1"/><mimic joint="a"/>'), {}, "unsupported", "coupling"),
        (changed('name="elbow" type="revolute"', 'name="elbow" type="floating"'), {}, "unsupported", "floating"),
        (CAMERA_TURNS, {}, "not_positive_mass", "look"),
        (changed('<parent link="fore"/><child link="wrist"/>', '<parent link="upper"/><child link="wrist"/>'), {},
         "unsupported", "branch"),
        (changed('<child link="wrist"/>', '<child link="wirst"/>'), {}, "unknown_link", "wirst"),
        (changed('<child link="wrist"/>', '<child link="upper"/>'), {}, "not_a_chain", "upper"),
        (changed(STAND, ""), {}, "not_a_chain", "world, base"),
        (changed('name="elbow"', 'name="shoulder"'), {}, "duplicate_name", "shoulder"),
        (changed('<link name="camera"/>', '<link name="tip"/>'), {}, "duplicate_name", "tip"),
        (changed('<parent link="world"/><child link="base"/>', '<parent link="tip"/><child link="base"/>'), {},
         "not_a_chain", "hang on each other"),
        (TWO_IN_A_LOOP, {}, "not_a_chain", "a loop"),
        ("<robot", {}, "unreadable", "XML"),
        ("<arm/>", {}, "unreadable", "<robot>"),
        ("<robot><link name='a'/></robot>", {}, "joint_count", "0 moving joints"),
        ("<robot><link/></robot>", {}, "unreadable", "name"),
        ('<robot xmlns:xacro="http://x"><xacro:macro/></robot>', {}, "unsupported", "xacro"),
        ("<robot><xacro:macro/></robot>", {}, "unreadable", "xacro"),
        ('<robot><link name="a"><inertial><mass value="1"/></inertial></link></robot>', {}, "bad_number", "inertia"),
    ],
)  # fmt: skip
def test_a_urdf_that_is_no_arm_is_refused_with_its_place(text, options, reason, word):
    with pytest.raises(ModelError) as caught:
        parse_urdf(text, where="arm.urdf", **options)
    assert caught.value.reason == reason, str(caught.value)
    assert word in str(caught.value)
    assert "arm.urdf" in str(caught.value)
    assert caught.value.remedy


def test_files_that_cannot_be_read(tmp_path, six_axes):
    path = tmp_path / "arm.urdf"
    with pytest.raises(ModelError, match=r"arm\.urdf") as caught:
        read_urdf(path)
    assert caught.value.reason == "unreadable"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ModelError) as caught:
        read_urdf(path)
    assert caught.value.reason == "unreadable"
    path.write_text(write_urdf(six_axes), encoding="utf-8")
    assert read_urdf(path, expect_joints=6).names == six_axes.names
    assert read_urdf(path, expect_joints=list(six_axes.names), gravity=[0, 0, 0]).gravity.tolist() == [0, 0, 0]


def with_joint(description: ArmDescription, index: int, **changes) -> ArmDescription:
    joints = list(description.joints)
    joints[index] = replace(joints[index], **changes)
    return replace(description, joints=tuple(joints))


@pytest.mark.parametrize(
    ("placement", "reason"),
    [
        (np.diag([1.0, 1.0, -1.0, 1.0]), "not_orthogonal"),
        (turn_z(0.3) * 1.01, "not_orthogonal"),
        (np.eye(4) + 1e-3, "not_orthogonal"),
        (shift(np.nan, 0.0, 0.0), "not_finite"),
        (np.eye(3), "not_finite"),
        (shift(0.0, 0.0, 280.0), "implausible_length"),
    ],
)
@pytest.mark.parametrize("part", ["joint", "tip"])
def test_a_placement_that_is_none_is_refused(six_axes, placement, reason, part):
    wrong = with_joint(six_axes, 2, placement=placement) if part == "joint" else replace(six_axes, tip=placement)
    with pytest.raises(ModelError, match="joint_3" if part == "joint" else "tip") as caught:
        check_description(wrong)
    assert caught.value.reason == reason


def test_inertias_yet_unknown_pass_where_that_is_said(six_axes, six_rows):
    strange = with_joint(six_axes, 1, link=LinkInertia(1.0, np.zeros(3), -np.eye(3)))
    with pytest.raises(ModelError):
        check_description(strange)
    assert check_description(strange, inertias="as_given") is strange
    bare = from_dh("bare", [replace(row, link=LinkInertia(0.0)) for row in six_rows])
    assert bare.parameters().tolist() == [0.0] * 60
    with pytest.raises(ModelError) as caught:
        from_dh("half", [replace(row, link=LinkInertia(0.0)) if i == 4 else row for i, row in enumerate(six_rows)])
    assert caught.value.reason == "not_positive_mass"


def test_a_table_in_millimetres_or_of_too_few_rows_is_refused(six_rows):
    with pytest.raises(ModelError) as caught:
        from_dh("arm", [replace(row, d=row.d * 1e3, a=row.a * 1e3) for row in six_rows])
    assert caught.value.reason == "implausible_length"
    with pytest.raises(ModelError) as caught:
        from_dh("arm", six_rows[:5], expect_joints=6)
    assert caught.value.reason == "joint_count"
    with pytest.raises(ModelError) as caught:
        from_dh("arm", [replace(six_rows[0], alpha=math.nan), *six_rows[1:]])
    assert caught.value.reason == "not_finite"


def test_a_thin_rod_is_a_body_and_a_point_is_none():
    """Principal moments of a rod: zero about its axis, the two others the same."""
    for inertia, fine in ((np.diag([0.0, 0.1, 0.1]), True), (np.zeros((3, 3)), False)):
        arm = ArmDescription(
            "rod",
            (ArmJoint("a", "revolute", turn_y(0.3), LinkInertia(5.0, np.array([0.25, 0, 0]), inertia)),),
            flange=shift(0.5, 0.0, 0.0),
        )
        if fine:
            check_description(arm)
        else:
            with pytest.raises(ModelError, match="point mass"):
                check_description(arm)
