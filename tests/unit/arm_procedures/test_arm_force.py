"""The way to a phantom, contact told from free air, and a force that rises as its mass, damper and tissue say."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bench.arm import arm_model
from bench.errors import LimitError, SafetyAbort
from bench.procedures.arm_contact import creeping
from bench.procedures.arm_force import ContactDetector, ContactLaw, ContactSensor, PressOnRail
from bench.procedures.arm_motion import Rail
from bench.procedures.arm_reach import rail, reach
from bench.procedures.arm_tick import ArmCommand, ArmTick
from bench.profile import ArmRig

SEED = np.radians([0.0, 40.0, -10.0, 0.0, 55.0, 0.0])
SURFACE, NORMAL = np.array([0.45, 0.05, 0.15]), np.array([0.0, 0.0, 1.0])
PERIOD = 4e-3


@pytest.fixture(scope="module")
def model(rig: ArmRig) -> Any:
    return arm_model(rig)


# -- where the joints have to be


@pytest.mark.parametrize("normal", [(0.0, 0.0, 1.0), (0.3, -0.2, math.sqrt(1.0 - 0.13))])
def test_the_tip_goes_straight_along_the_normal_and_the_tool_with_it(model: Any, normal: tuple[float, ...]) -> None:
    up = np.array(normal)
    made = rail(model, SEED, SURFACE, up, -0.01, 0.015)
    for s in np.linspace(-0.01, 0.015, 7):
        q, slope, _ = made.place(float(s))
        placed = model.placement(q)
        assert placed[:3, 3] == pytest.approx(SURFACE - s * up, abs=3e-5)
        assert placed[:3, 2] == pytest.approx(-up, abs=1e-4)
        near = [made.place(float(s) + d)[0] for d in (-1e-5, 1e-5)]
        assert (near[1] - near[0]) / 2e-5 == pytest.approx(slope, abs=1e-4)
        assert model.jacobian(q)[:3] @ slope == pytest.approx(-up, abs=1e-2)
    q, v, a = made.at(0.004, 0.01, 0.5)
    assert v == pytest.approx(0.01 * made.place(0.004)[1])
    assert a == pytest.approx(0.5 * made.place(0.004)[1] + 1e-4 * made.place(0.004)[2])


def test_a_place_out_of_reach_is_refused_with_how_near_the_arm_comes(model: Any) -> None:
    with pytest.raises(LimitError, match=r"cannot put its tip at \(1200, 0, 150\) mm.*came within \d+\.\d mm") as told:
        reach(model, SEED, (1.2, 0.0, 0.15), (0.0, 0.0, -1.0))
    assert told.value.reason == "out_of_reach"


def test_creeping_moves_every_joint_that_bears_the_force_and_leaves_the_tip_where_it_is(model: Any) -> None:
    q = reach(model, SEED, SURFACE, -NORMAL)
    jacobian = model.jacobian(q)[:3]
    forces = -(jacobian.T @ NORMAL)
    way = creeping(model, q, forces, 0.008)
    assert np.abs(jacobian @ way).max() < 1e-9
    bears = np.abs(forces) >= 0.05
    assert bears.sum() == 2
    assert np.abs(way[bears]).min() == pytest.approx(0.008)
    assert not creeping(model, q, forces, 0.0).any()


# -- contact


def test_contact_needs_its_force_for_some_ticks_and_ends_below_a_smaller_one() -> None:
    detector = ContactDetector(0.6, 0.3, 3)
    told = [detector.update(force) for force in (0.9, 0.9, 0.1, 0.9, 0.9, 0.9, 0.4, 0.2, 0.2, 0.4, 0.2, 0.2, 0.2, 0.5)]
    assert told == [False] * 5 + [True] * 7 + [False] * 2


def test_the_sensor_gives_the_force_along_the_normal_beyond_its_zero() -> None:
    sensor = ContactSensor(np.array([0.6, 0.0, -0.8]))
    wrench = [3.0, 7.0, -4.0, 0.0, 0.0, 0.0]
    assert sensor.force(wrench) == pytest.approx(5.0)
    sensor.zero([1.0, 2.0])
    assert sensor.force(wrench) == pytest.approx(3.5)


class Follower:
    """An arm that is where it is wanted: takes the place of the output, so that the law stands alone."""

    def __init__(self) -> None:
        self.place = 0.0
        self.beside: Any = None

    def fill(self, tick: Any, command: Any, q: Any, v: Any, a: Any, friction: Any, beside: Any) -> None:
        self.place, self.beside = float(q[0]), beside


STRAIGHT = Rail(np.array([[0.0], [1.0]]), -0.01, 0.05)
LAW = ContactLaw(mass=6.0, free=40.0, contact=260.0, approach=0.01, press=0.5, touch=0.6, release=0.3, debounce=2)
STIFFNESS, FORCE = 2500.0, 10.0


def pressed(*, switch: bool, law: ContactLaw = LAW, stiffness: float = STIFFNESS, above: float = 4e-3) -> Any:
    """Forces (k,) on a spring, and the controller, that begins ``above`` it [m]."""
    arm = Follower()
    press = PressOnRail(
        STRAIGHT, arm, None, ContactSensor(np.array([0.0, 0.0, 1.0])), law, np.array([-1.0]),  # type: ignore[arg-type]
        start_m=-above, period_s=PERIOD, search_s=2.0, switch=switch,
    )  # fmt: skip
    press.aim(FORCE, 3.0)
    arm.place = -above
    forces, ended, k = [], False, 0
    while not ended:
        forces.append(stiffness * max(arm.place, 0.0))
        ended = press(ArmTick(k, k * PERIOD, [0.0], [0.0], [0.0], [0.0, 0.0, forces[-1], 0.0, 0.0, 0.0]), ArmCommand())
        k += 1
    return SimpleNamespace(force=np.array(forces), press=press, arm=arm)


@pytest.mark.parametrize("damping", [25.0, 40.0, 70.0])
def test_without_the_switch_the_force_overshoots_as_mass_damper_and_tissue_say(damping: float) -> None:
    law = ContactLaw(**{**LAW.__dict__, "free": damping, "approach": 1e-3, "touch": 0.05, "release": 0.01})
    found = pressed(switch=False, law=law, above=5e-4)
    zeta = damping / (2.0 * math.sqrt(STIFFNESS * law.mass))
    expected = math.exp(-math.pi * zeta / math.sqrt(1.0 - zeta**2))
    assert found.force.max() / FORCE - 1.0 == pytest.approx(expected, abs=0.07)
    assert found.force[-1] == pytest.approx(FORCE, rel=0.01)
    assert found.arm.beside is None


def test_with_the_switch_it_does_not_and_the_wanted_force_is_fed_forward() -> None:
    found = pressed(switch=True)
    assert found.force.max() < 1.02 * FORCE
    assert found.force[-1] == pytest.approx(FORCE, rel=0.01)
    assert found.arm.beside == pytest.approx([-FORCE], rel=1e-3)


def test_in_free_air_the_tip_moves_at_the_approach_speed_at_most() -> None:
    found = pressed(switch=False)
    touched = int(np.argmax(found.force > 0.0))
    assert touched * PERIOD == pytest.approx(0.004 / LAW.approach, rel=0.05)
    assert found.press.touched_s == pytest.approx(touched * PERIOD, abs=0.05)


def test_a_surface_that_is_not_there_ends_the_run() -> None:
    with pytest.raises(SafetyAbort, match=r"nothing was touched within 2\.0 s; .* at 1\d\.\d mm") as told:
        pressed(switch=True, stiffness=0.0)
    assert told.value.reason == "no_contact"
    fast = ContactLaw(**{**LAW.__dict__, "approach": 0.1})
    with pytest.raises(SafetyAbort, match=r"50.* mm below where the surface should be") as told:
        pressed(switch=True, stiffness=0.0, law=fast)
    assert told.value.reason == "no_contact"


def test_a_surface_that_is_too_soft_ends_the_run_at_the_end_of_the_rail() -> None:
    with pytest.raises(SafetyAbort, match=r"feels .* N of 10 N") as told:
        pressed(switch=True, stiffness=100.0)
    assert told.value.reason == "too_deep"


def test_a_force_that_is_old_is_none_to_press_by() -> None:
    press = PressOnRail(
        STRAIGHT, Follower(), None, ContactSensor(NORMAL), LAW, np.array([-1.0]),  # type: ignore[arg-type]
        start_m=-0.004, period_s=PERIOD, search_s=2.0, switch=True,
    )  # fmt: skip
    press.aim(FORCE, 1.0)
    with pytest.raises(SafetyAbort, match="last reading is 80 ms old") as told:
        press(ArmTick(wrench_age_s=0.08), ArmCommand())
    assert told.value.reason == "stale_force"
