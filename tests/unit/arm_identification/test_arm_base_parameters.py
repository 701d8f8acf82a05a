"""Which combinations of an arm's parameters its torques tell: how many, by which name, at which joints."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from bench.errors import Refused
from bench.identify.arm_base import BaseParameters
from bench.identify.arm_law import ArmLaw, split, unit_of
from bench.models.dh import DhRow, from_dh
from bench.models.rigid import ArmModel

HALF = math.pi / 2
# d, a, alpha of a modified table: Franka Emika's control documentation for the Panda
PANDA = [
    (0.333, 0.0, 0.0), (0.0, 0.0, -HALF), (0.316, 0.0, HALF), (0.0, 0.0825, HALF), (0.384, -0.0825, -HALF),
    (0.0, 0.0, HALF), (0.0, 0.088, HALF),
]  # fmt: skip


def arm(table: list[tuple[float, float, float]]) -> ArmModel:
    rows = [DhRow(f"j{i}", d=d, a=a, alpha=alpha) for i, (d, a, alpha) in enumerate(table)]
    return ArmModel(from_dh("arm", rows, "modified", inertias="unchecked"))


def test_a_panda_has_forty_three_base_parameters_and_twenty_one_of_friction_and_offset() -> None:
    assert BaseParameters.of(ArmLaw(arm(PANDA), motor_inertia=False)).count == 43 + 21
    assert BaseParameters.of(ArmLaw(arm(PANDA), motor_inertia=False, friction=False, offset=False)).count == 43


def test_the_count_of_the_full_arm_is_that_of_its_kind(bed: Any) -> None:
    """36 of the links of six axes with parallel second and third, four motors told apart, eighteen of friction."""
    links = BaseParameters.of(ArmLaw(bed.base.law.model, motor_inertia=False, friction=False, offset=False))
    assert links.count == 36
    assert bed.base.count == 36 + 4 + 18
    assert BaseParameters.of(bed.base.law, seed=5).names == bed.base.names


def test_a_pendulum_by_hand() -> None:
    """One axis across gravity: its moment of inertia with the motor's, and two first moments."""
    base = BaseParameters.of(ArmLaw(arm([(0.0, 0.0, HALF)])))
    assert base.names == ("Izz1 + Ia1", "mx1", "my1", "fv1", "fs1", "off1")
    assert set(base.unseen) == {"m1", "mz1", "Ixx1", "Ixy1", "Iyy1", "Ixz1", "Iyz1"}


def test_base_values_make_the_torques_of_the_standard_ones(bed: Any) -> None:
    rng = np.random.default_rng(2)
    q, v, a = rng.normal(size=(3, 40, 6))
    whole = bed.base.law.columns(q, v, a) @ bed.standard
    assert bed.base.regressor(q, v, a) @ bed.truth == pytest.approx(whole, rel=1e-9, abs=1e-8)
    assert whole == pytest.approx(bed.base.law.model.inverse_dynamics_rows(q, v, a) + bed.friction(v, a), abs=1e-9)


def test_structural_columns_leave_out_zeros_only(bed: Any) -> None:
    rng = np.random.default_rng(3)
    q, v, a = rng.normal(size=(3, 30, 6))
    base = bed.base
    out = np.full((30, base.width), np.nan)
    base.fill(q, v, a, v, out)
    whole = base.regressor(q, v, a)
    for j, (own, spots) in enumerate(zip(base.joint_columns, base.spots, strict=True)):
        assert np.array_equal(out[:, spots], whole[:, j, own])
        assert np.abs(np.delete(whole[:, j], own, axis=1)).max(initial=0.0) < 1e-9
    assert base.width < 0.6 * base.count * 6


def test_a_coupled_motor_stands_at_both_of_its_axes_by_virtual_work() -> None:
    """Its energy and its losses, differentiated along every joint: power at the joints is the motor's."""
    coupling = np.eye(7)
    coupling[6, 5] = -1.0
    law = ArmLaw(arm(PANDA), coupling=coupling)
    assert law.coupled_motors == (6,)
    rng = np.random.default_rng(4)
    q, v, a = rng.normal(size=(3, 50, 7))
    columns = law.columns(q, v, a)
    names = law.names
    inertia, viscous, coulomb = 0.3, 0.7, 1.1
    theta = np.zeros(len(names))
    # the motor's share of the joints' own parameters, and the cross terms
    for j in (5, 6):
        theta[names.index(f"Ia{j + 1}")] = inertia
        theta[names.index(f"fv{j + 1}")] = viscous
    theta[names.index("Iam7")], theta[names.index("fvm7")], theta[names.index("fsm7")] = inertia, viscous, coulomb
    speed, push = v[:, 5] + v[:, 6], a[:, 5] + a[:, 6]
    motor = inertia * push + viscous * speed + coulomb * np.sign(speed)
    torque = columns @ theta
    assert torque[:, 5] == pytest.approx(motor)
    assert torque[:, 6] == pytest.approx(motor)
    assert np.all(torque[:, :5] == 0.0)
    assert np.sum(torque * v, axis=1) == pytest.approx(motor * speed)


def test_names_say_what_they_are(bed: Any) -> None:
    assert split("Izz12") == ("Izz", 11)
    assert unit_of("fv3") == ("N.m.s/rad", "rotational_damping")
    assert unit_of("fv3", prismatic=True) == ("N.s/m", "damping")
    with pytest.raises(Refused) as refusal:
        bed.base.index("m6")
    assert refusal.value.reason == "no_parameter"
    assert "told within" in str(refusal.value)
    with pytest.raises(Refused) as refusal:
        bed.base.index("m1")
    assert "No torque depends on it" in str(refusal.value)
