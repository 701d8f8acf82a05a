"""Plans of the joint refuse what does not fit before anything moves, and say what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.errors import LimitError, ProfileError
from bench.procedures import (
    PROCEDURES,
    joint_fourier_excitation,
    joint_friction_sweep,
    joint_impedance_step,
    joint_low_speed_tracking,
    joint_stiffness_ramp,
)
from bench.procedures.feedforward_file import load_for, taken_from
from bench.procedures.joint_friction_sweep import alternating, warm_up_legs
from bench.procedures.joint_motion import Strokes
from bench.profile.procedure_joint import JOINT_PROCEDURES
from bench.units import Value

MOVING = {
    "friction_sweep": joint_friction_sweep,
    "fourier_excitation": joint_fourier_excitation,
    "low_speed_tracking": joint_low_speed_tracking,
    "impedance_step": joint_impedance_step,
}
ALL = {**MOVING, "stiffness_ramp": joint_stiffness_ramp}


def angle(number: float) -> Value:
    return Value(number, "rad", "angle")


def speed(number: float) -> Value:
    return Value(number, "rad/s", "angular_speed")


def torque(number: float) -> Value:
    return Value(number, "N.m", "torque")


def hertz(number: float) -> Value:
    return Value(number, "Hz", "frequency")


@pytest.fixture
def plan(rig: Any, procedure: Callable[..., Any], load: Callable[[str], Any]) -> Callable[..., Any]:
    """``plan("friction_sweep", "pendulum_arm", amplitude=…)``; ``on`` is another rig, ``given`` a feed-forward."""

    def made(name: str, arm: str = "pendulum_arm", *, on: Any = None, given: Any = None, **changes: Any) -> Any:
        return ALL[name].plan(on or rig, procedure(name, **changes), load(arm), given)

    return made


def test_every_procedure_of_the_profiles_can_be_performed() -> None:
    assert {name for name, entry in PROCEDURES.items() if entry.frame.__name__ == "JointFrame"} == set(JOINT_PROCEDURES)
    for name in JOINT_PROCEDURES:
        assert PROCEDURES[name].plan is ALL[name].plan


@pytest.mark.parametrize("name", sorted(MOVING))
def test_the_profiles_fit_and_take_a_reasonable_time(plan: Callable[..., Any], name: str) -> None:
    made = plan(name, "balanced_arm" if name == "impedance_step" else "pendulum_arm")
    assert 20.0 < made.duration_s < 125.0
    assert 20.0 < plan("stiffness_ramp", "output_lock").duration_s < 60.0


@pytest.mark.parametrize("name", sorted(MOVING))
def test_what_moves_is_refused_on_a_locked_output(plan: Callable[..., Any], name: str) -> None:
    with pytest.raises(LimitError, match=r"output_lock is mounted .* must be free") as caught:
        plan(name, "output_lock")
    assert caught.value.reason == "output_locked"


def test_a_ramp_is_refused_on_a_free_arm(plan: Callable[..., Any]) -> None:
    with pytest.raises(LimitError, match=r"pendulum_arm is mounted .* must be locked") as caught:
        plan("stiffness_ramp")
    assert caught.value.reason == "output_not_locked"


@pytest.mark.parametrize(
    ("name", "changes", "reason", "message"),
    [
        ("friction_sweep", {"amplitude": angle(1.8)}, "travel_limit", "the sweep goes from -1.800 to 1.800 rad"),
        ("friction_sweep", {"speeds": (speed(0.02), speed(2.8))}, "speed_limit", "the fastest of speeds is 2.8 rad/s"),
        ("friction_sweep", {"amplitude": angle(0.5)}, "travel_limit", "at 2 rad/s an amplitude of 0.5 rad leaves"),
        ("friction_sweep", {"breakaway_torque": torque(20.0)}, "torque_limit", "the push needs 20 N.m"),
        (
            "friction_sweep",
            {"check_angle": angle(0.02)},
            "wiring_check",
            "moves by 0.02 rad, at least 0.05 rad are needed",
        ),
        ("friction_sweep", {"check_angle": angle(1.8)}, "travel_limit", "the wiring check goes from -1.800"),
        ("fourier_excitation", {"centre": angle(0.6)}, "travel_limit", "the excitation goes from -0.700 to 1.900 rad"),
        ("fourier_excitation", {"max_speed": speed(2.9)}, "speed_limit", "max_speed is 2.9 rad/s"),
        ("low_speed_tracking", {"centre": angle(1.72)}, "travel_limit", "the tracking goes from"),
        ("low_speed_tracking", {"travel_speed": speed(2.9)}, "speed_limit", "travel_speed is 2.9 rad/s"),
        ("impedance_step", {"step": angle(0.7)}, "speed_limit", "the step's speed is 3.5 rad/s"),
        ("impedance_step", {"centre": angle(1.7)}, "travel_limit", "the step with its overshoot goes from"),
    ],
)
def test_what_does_not_fit_is_refused(
    plan: Callable[..., Any], name: str, changes: dict[str, Any], reason: str, message: str
) -> None:
    with pytest.raises(LimitError, match=message) as caught:
        plan(name, **changes)
    assert caught.value.reason == reason
    assert caught.value.remedy


def test_a_ramp_beyond_the_lock_is_refused(plan: Callable[..., Any]) -> None:
    with pytest.raises(
        LimitError, match=r"the ramp needs 14 N\.m; rig and load bear 15 N\.m, of which 13\.5"
    ) as caught:
        plan("stiffness_ramp", "output_lock", torque=torque(14.0))
    assert caught.value.reason == "torque_limit"


def test_gravity_friction_and_inertia_count_together(plan: Callable[..., Any]) -> None:
    hard = Value(30.0, "rad/s2", "angular_acceleration")
    with pytest.raises(LimitError, match=r"gravity 2\.46, friction 3, inertia 18") as caught:
        plan("friction_sweep", acceleration=hard)
    assert caught.value.reason == "torque_limit"


def test_a_step_whose_ringing_the_transducer_would_not_bear_is_refused(plan: Callable[..., Any]) -> None:
    assert plan("impedance_step", "balanced_arm", step=angle(0.15)).step_rad == 0.15
    with pytest.raises(LimitError, match="as the gear rings") as caught:
        plan("impedance_step", "balanced_arm", step=angle(0.2))
    assert caught.value.reason == "torque_limit"


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"base_frequency": hertz(5.0)}, "train series has a line at 20 Hz"),
        ({"hold_out_base_frequency": hertz(4.5)}, "held-out series has a line at 18 Hz"),
    ],
)
def test_a_line_near_a_resonance_is_refused(plan: Callable[..., Any], changes: dict[str, Any], line: str) -> None:
    with pytest.raises(LimitError, match=f"{line}, inside 16.1 … 29.9 Hz around the resonance at 23 Hz") as caught:
        plan("fourier_excitation", **changes)
    assert caught.value.reason == "resonance"


def test_a_feedforward_for_a_hotter_drive_than_is_allowed_is_refused(
    plan: Callable[..., Any], feedforward: Callable[..., Any]
) -> None:
    hot = feedforward(temperature_min='"65 degC"', temperature_max='"70 degC"')
    with pytest.raises(LimitError, match=r"holds from 65 degC on, .* 60 degC") as caught:
        plan("low_speed_tracking", given=hot)
    assert caught.value.reason == "temperature_limit"


def test_the_sweep_keeps_travel_speed_and_acceleration_at_every_instant(plan: Callable[..., Any]) -> None:
    made = plan("friction_sweep")
    control = made.control
    motions = [Strokes(made.centre_rad, made.warm_up, control.acceleration)]
    motions += [stroke.motion(control.acceleration) for stroke in made.strokes]
    for motion in motions:
        path = np.array([motion.at(t) for t in np.arange(0.0, motion.duration_s, 0.004).tolist()])
        largest = np.abs(path).max(axis=0)
        assert (largest <= np.array([1.4, 2.0, 8.0]) * (1 + 1e-9)).all()


def test_the_sweep_takes_every_speed_both_ways_with_a_run_in_on_the_same_side(plan: Callable[..., Any]) -> None:
    made = plan("friction_sweep")
    speeds = {stroke.speed for stroke in made.strokes}
    assert speeds == {sign * v for v in (0.005, 0.01, 0.02, 0.035, 0.05, 0.08, 0.15, 0.4, 1.0, 2.0) for sign in (1, -1)}
    for stroke in made.strokes:
        assert all(leg[0] * stroke.speed > 0 for leg in stroke.legs)
        assert stroke.legs[-1][0] == stroke.speed
        held = stroke.legs[-1][1] - stroke.settle_s
        assert held * abs(stroke.speed) >= 0.032 - 1e-9
        if abs(stroke.speed) < 0.05:
            assert abs(stroke.legs[0][0]) == 0.05
    # What drifts with time must not look like what changes with speed.
    order = np.log([abs(stroke.speed) for stroke in made.strokes])
    place = np.arange(len(order)) - np.arange(len(order)).mean()
    assert abs((place * (order - order.mean())).mean()) < 0.25 * place.std() * order.std()
    first = [np.sign(stroke.speed) for stroke in made.strokes[::2]]
    assert first == [1, -1] * 5


def test_slow_and_fast_take_turns() -> None:
    assert alternating([1.0, 2.0, 3.0, 4.0, 5.0]) == [1.0, 5.0, 2.0, 4.0, 3.0]


def test_the_warm_up_ends_where_it_began() -> None:
    motion = Strokes(0.2, warm_up_legs(1.0, 1.4, 10.0, 8.0), 8.0)
    path = np.array([motion.at(t)[0] for t in np.arange(0.0, motion.duration_s, 0.005).tolist()]) - 0.2
    assert motion.duration_s == pytest.approx(10.0, rel=0.2)
    assert (path.max(), path.min()) == pytest.approx((1.4, -1.4), abs=0.05)
    assert abs(motion.end_rad - 0.2) < 0.2
    assert warm_up_legs(1.0, 1.4, 0.0, 8.0) == ()


def test_train_and_hold_out_differ_in_all_that_makes_them(plan: Callable[..., Any]) -> None:
    made = plan("fourier_excitation")
    assert made.train.base_hz != made.hold_out.base_hz
    assert len(made.train.cosine) != len(made.hold_out.cosine)
    for series in (made.train, made.hold_out):
        reach, fastest, quickest = series.extremes()
        assert reach <= 1.3 + 1e-9
        assert fastest <= 2.0 + 1e-9
        assert quickest <= 8.0 + 1e-9


def test_only_a_feedforward_makes_a_compensated_phase(
    plan: Callable[..., Any], feedforward: Callable[..., Any]
) -> None:
    assert plan("low_speed_tracking").modes == ("uncompensated",)
    made = plan("low_speed_tracking", given=feedforward())
    assert made.modes == ("uncompensated", "compensated")
    assert made.control.friction_nm == pytest.approx(1.2 + 0.6 + 0.8 * 2.0)


# -- the feed-forward file


class Identified:
    """What an identification hands over: the text of its file."""

    def __init__(self, text: str) -> None:
        self.text = text


def test_a_feedforward_is_taken_as_a_path_a_profile_or_a_text(feedforward: Callable[..., Any], tmp_path: Path) -> None:
    profile = feedforward()
    file = tmp_path / "known.toml"
    file.write_text(profile.source.text)
    for given, name in ((file, str(file)), (str(file), str(file)), (profile, "known_joint.toml")):
        rest, taken = taken_from({"feedforward": given, "replicates": 3})
        assert taken is not None
        assert taken.name == "known_joint"
        assert rest == {"feedforward": name, "replicates": 3}
    _, taken = taken_from({"feedforward": Identified(profile.source.text)})
    assert taken is not None
    assert taken.source.text == profile.source.text
    assert taken_from({"replicates": 3}) == ({"replicates": 3}, None)


@pytest.mark.parametrize(
    ("given", "message"),
    [(3.5, "cannot be made of float"), (Identified("schema = 'bench.rig/1'"), "this is no feed-forward file")],
)
def test_what_is_no_feedforward_is_refused(given: object, message: str) -> None:
    with pytest.raises(ProfileError, match=message):
        taken_from({"feedforward": given})


class Opened:
    """As much of a station as is asked for."""

    def __init__(self, rig: Any) -> None:
        self.rig = rig
        self.identities: dict[str, Any] = {}


def test_the_procedures_own_file_is_looked_for_beside_it(
    rig: Any, procedure: Callable[..., Any], load: Callable[[str], Any], feedforward: Callable[..., Any], tmp_path: Path
) -> None:
    from bench.profile import load_procedure

    (tmp_path / "known.toml").write_text(feedforward().source.text)
    text = procedure("low_speed_tracking").source.text + '\nfeedforward = "known.toml"\n'
    (tmp_path / "slow.toml").write_text(text)
    found = load_for(Opened(rig), load_procedure(tmp_path / "slow.toml"), load("pendulum_arm"))  # type: ignore[arg-type]
    assert found is not None
    assert found.name == "known_joint"
    assert load_for(Opened(rig), procedure("low_speed_tracking"), load("pendulum_arm")) is None  # type: ignore[arg-type]
