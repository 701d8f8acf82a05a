"""Each procedure of the joint once, in short, over the wire: driver, gate, loop, twin, archive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.archive import Phase, Run
from bench.errors import ProfileError
from bench.procedures import perform
from bench.profile import load_procedure, load_rig, load_specimen, load_twin
from bench.station import open_station

#: Coulomb, viscous, excess and Stribeck velocity as the twin's profile states them; the truth scatters about them.
FEEDFORWARD = """
schema = "bench.feedforward/1"
name = "near_the_truth"
version = 1
rig = "single_joint"
created = 2026-01-07T10:00:00Z
software_version = "0.1.0"
[friction]
coulomb = "1.2 N.m"
viscous = "0.8 N.m.s/rad"
stribeck_excess = "0.6 N.m"
stribeck_velocity = "0.05 rad/s"
reference_temperature = "25 degC"
[drive]
torque_scale = 1.015
[validity]
speed_min = "0.005 rad/s"
speed_max = "2 rad/s"
load_max = "12 N.m"
temperature_min = "20 degC"
temperature_max = "45 degC"
[[sources]]
file = "sweep.h5"
procedure = "friction_sweep"
digest = "0000000000000000000000000000000000000000000000000000000000000000"
simulated = true
"""
SHORT: dict[str, dict[str, object]] = {
    "friction_sweep": {
        "speeds": ["0.02 rad/s", "0.1 rad/s", "0.6 rad/s"], "amplitude": "0.5 rad", "segment_time": "0.5 s",
        "least_travel": "0.01 rad", "warm_up_time": "2 s", "breakaway_cycles": 1, "breakaway_rate": "2.8 N.m/s",
    },
    "fourier_excitation": {
        "base_frequency": "0.5 Hz", "hold_out_base_frequency": "0.7 Hz", "hold_out_harmonics": 3,
        "hold_out_periods": 1, "amplitude": "0.3 rad",
    },
    "low_speed_tracking": {"replicates": 1, "travel": "0.02 rad", "run_in": "0.5 s"},
    "stiffness_ramp": {"replicates": 1, "torque": "6 N.m", "rate": "12 N.m/s"},
    "impedance_step": {"replicates": 1, "record_time": "2.5 s"},
}  # fmt: skip

Performed = dict[str, Path]


@pytest.fixture(scope="module")
def performed(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Performed:
    """Archive of each procedure; those on the pendulum arm follow each other on one station."""
    profiles, folder = repository / "profiles", tmp_path_factory.mktemp("joint")
    feedforward = folder / "near_the_truth.toml"
    feedforward.write_text(FEEDFORWARD)
    rig = load_rig(profiles / "rigs/single_joint.toml")
    found: Performed = {}
    for twin, arm, names in (
        ("single_joint", "pendulum_arm", ("friction_sweep", "fourier_excitation", "low_speed_tracking")),
        ("single_joint", "output_lock", ("stiffness_ramp",)),
        ("single_joint_ideal", "balanced_arm", ("impedance_step",)),
    ):
        specimen = load_specimen(profiles / f"specimens/{arm}.toml")
        with open_station(
            rig, "mock", twin=load_twin(profiles / f"twins/{twin}.toml"), specimen=specimen, seed=7
        ) as station:
            for name in names:
                overrides = {**SHORT[name], "baseline_time": "0.3 s"}
                if name == "low_speed_tracking":
                    overrides["feedforward"] = feedforward
                found[name] = perform(
                    station,
                    load_procedure(profiles / f"procedures/{name}.toml"),
                    specimen,
                    operator="A. Tester",
                    results_dir=folder,
                    overrides=overrides,
                )
    return found


def phases(run: Run, *names: str) -> list[Phase]:
    return [phase for phase in run.phases if phase.name in names]


def during(run: Run, channel: str, phase: Phase) -> tuple[Any, Any]:
    """Time and values of a channel in a phase."""
    found = run.channel(channel)
    inside = (found.time_s >= phase.start_s) & (found.time_s <= phase.end_s)
    return found.time_s[inside], found.values[inside]


def speed_of(run: Run, channel: str, phase: Phase, scale: float = 1.0) -> float:
    """Mean speed of an angle in a phase, by a straight line."""
    time, angle = during(run, channel, phase)
    time = time - time.mean()
    return float(time @ (angle - angle.mean()) / (time @ time)) / scale


@pytest.mark.parametrize("name", sorted(SHORT))
def test_every_procedure_ends_as_planned_and_moves_as_wanted(performed: Performed, name: str) -> None:
    with Run.open(performed[name]) as run:
        assert (run.status, run.simulated) == ("COMPLETE", True)
        assert [event for event in run.events if event.severity not in ("info",)] == []
        planned = run.provenance["details"]["plan"]
        assert planned["control"]["torque_limit_nm"] > 0
        assert run.channel("missed_ticks").values.sum() == 0
        for phase in run.phases:
            assert run.channel("joint_angle").time_s[0] < phase.start_s < phase.end_s
            assert phase.end_s <= run.channel("joint_angle").time_s[-1]


def test_a_sweep_slides_at_each_speed_in_both_directions(performed: Performed) -> None:
    with Run.open(performed["friction_sweep"]) as run:
        strokes = phases(run, "sweep")
        speeds = [phase.angular_speed_rad_s for phase in strokes]
        assert speeds == [0.02, -0.02, -0.6, 0.6, 0.1, -0.1], "slow and fast take turns, and so do the directions"
        assert [phase.replicate for phase in strokes] == [1, 2, 3, 4, 5, 6]
        for phase in strokes:
            assert speed_of(run, "joint_angle", phase) == pytest.approx(phase.angular_speed_rad_s, rel=0.02)
            assert speed_of(run, "motor_angle", phase, 100.0) == pytest.approx(phase.angular_speed_rad_s, rel=0.02)
            # Run in: friction is on its side from the first sample on.
            time, velocity = during(run, "motor_velocity", phase)
            early = velocity[time < phase.start_s + 0.1].mean() / 100.0
            assert early == pytest.approx(phase.angular_speed_rad_s, rel=0.1)
        assert [phase.name for phase in run.phases][:1] == ["warm_up"]


def test_a_push_stays_below_breakaway(performed: Performed) -> None:
    with Run.open(performed["friction_sweep"]) as run:
        (push,) = phases(run, "breakaway")
        _, torque = during(run, "command_torque", push)
        np.testing.assert_allclose([100 * torque.max(), 100 * torque.min()], [1.4, -1.4], atol=0.08)
        _, angle = during(run, "motor_angle", push)
        assert 2e-4 < np.ptp(angle) / 100.0 < 5e-3, "it bends its bristles and does not slide away"


def test_train_and_hold_out_are_different_and_inside_their_limits(performed: Performed) -> None:
    with Run.open(performed["fourier_excitation"]) as run:
        train, hold_out = phases(run, "train", "hold_out")
        assert (train.name, hold_out.name) == ("train", "hold_out")
        assert train.end_s - train.start_s == pytest.approx(2 / 0.5, abs=0.01)
        assert hold_out.end_s - hold_out.start_s == pytest.approx(1 / 0.7, abs=0.01)
        for phase in (train, hold_out):
            _, angle = during(run, "joint_angle", phase)
            _, wanted = during(run, "desired_angle", phase)
            _, speed = during(run, "desired_velocity", phase)
            quickest = np.abs(np.diff(speed) * 500.0).max()
            assert np.abs(wanted).max() <= 0.3
            assert np.abs(speed).max() <= 2.0
            assert 4.0 < quickest <= 8.0 * 1.01, "short periods: acceleration is what limits them"
            np.testing.assert_allclose(angle[::2][:100], wanted[:100], atol=0.02)
        _, wanted = during(run, "desired_angle", train)
        half = len(wanted) // 2
        np.testing.assert_allclose(wanted[: half - 2], wanted[half : 2 * half - 2], atol=0.01)


def test_ramps_load_the_gear_both_ways_while_the_output_stands(performed: Performed) -> None:
    with Run.open(performed["stiffness_ramp"]) as run:
        (ramp,) = phases(run, "ramp")
        _, torque = during(run, "joint_torque", ramp)
        assert (torque.max(), torque.min()) == pytest.approx((4.5, -4.5), abs=0.8), "six less friction"
        _, joint = during(run, "joint_angle", ramp)
        _, motor = during(run, "motor_angle", ramp)
        assert np.ptp(joint) < 1e-4 < 1e-3 < np.ptp(motor) / 100.0


def test_slow_tracking_shows_the_friction_and_its_compensation(performed: Performed) -> None:
    with Run.open(performed["low_speed_tracking"]) as run:
        assert "near_the_truth" in run.texts["feedforward.toml"]
        assert "near_the_truth.toml" in run.texts["procedure.toml"]
        found: dict[str, list[float]] = {"uncompensated": [], "compensated": []}
        for phase in phases(run, *found):
            time, wanted = during(run, "wanted_torque", phase)
            torque = run.channel("joint_torque")
            found[phase.name].append(float(np.mean(wanted - np.interp(time, torque.time_s, torque.values))))
            _, command = during(run, "command_torque", phase)
            _, added = during(run, "feedforward_torque", phase)
            np.testing.assert_allclose(command * 100.0 * 1.015, wanted + added, atol=1e-9)
        assert [np.sign(residual) for residual in found["uncompensated"]] == [1, -1]
        assert np.abs(found["uncompensated"]).min() > 1.2
        assert np.abs(found["compensated"]).max() < 0.25 * np.abs(found["uncompensated"]).min()


def test_an_ideal_joint_steps_as_the_impedance_should(performed: Performed) -> None:
    with Run.open(performed["impedance_step"]) as run:
        steps = phases(run, "step")
        assert len(steps) == 2
        for phase, direction in zip(steps, (1, -1), strict=True):
            time, angle = during(run, "joint_angle", phase)
            _, wanted = during(run, "desired_angle", phase)
            step = wanted[-1] - angle[0]
            assert step == pytest.approx(0.12 * direction, abs=0.002)
            share = (angle - angle[0]) / step
            settled = time[np.flatnonzero(np.abs(share - 1.0) > 0.02)[-1]] - phase.start_s
            assert share.max() - 1.0 == pytest.approx(0.163, abs=0.02)
            assert settled == pytest.approx(1.62, abs=0.15)


def test_a_feedforward_of_another_rig_is_refused_before_anything_moves(
    repository: Path, tmp_path: Path, performed: Performed
) -> None:
    from bench.procedures.feedforward_file import check_belongs
    from bench.profile import JointRig, load_feedforward

    rig = load_rig(repository / "profiles/rigs/single_joint.toml")
    assert isinstance(rig, JointRig)
    arm = load_specimen(repository / "profiles/specimens/pendulum_arm.toml")
    load_of = 'load = "balanced_arm"\ncreated'
    of_a_load = '[dynamics]\nmotor_inertia = "0.2 kg.m2"\nlink_inertia = "2 kg.m2"\n[validity]'
    for text, serial, message in (
        (FEEDFORWARD.replace('rig = "single_joint"', 'rig = "elbow"'), "A", 'identified on rig "elbow"'),
        (FEEDFORWARD.replace("created", 'drive_serial_number = "B"\ncreated'), "A", "with drive B, here is drive A"),
        (FEEDFORWARD.replace("created", load_of).replace("[validity]", of_a_load), "A", 'load "balanced_arm", mounted'),
    ):
        file = tmp_path / "feedforward.toml"
        file.write_text(text)
        with pytest.raises(ProfileError, match=message):
            check_belongs(load_feedforward(file), rig, arm, serial)
