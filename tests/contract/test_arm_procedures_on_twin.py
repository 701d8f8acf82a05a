"""Each procedure of the arm once, in short, over the wire: servos, gate, loop, twin, archive."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.archive import Phase, Run
from bench.arm import arm_model, drivetrain
from bench.identify.arm_stretch import ArmRows
from bench.procedures import perform
from bench.profile import ArmRig, load_procedure, load_rig, load_specimen, load_trajectory, load_twin
from bench.station import open_station

pytest.importorskip("mujoco")
Floats = NDArray[np.float64]
Performed = dict[str, Path]

QUICK: dict[str, object] = {"travel_speed": "60 %", "travel_acceleration": "60 %", "baseline_time": "60 ms"}
POSES = [[f"{x} deg" for x in pose] for pose in ((0, 0, 0, 60, 70, 40), (0, 5, -10, -30, 40, 0))]
SHORT: dict[str, dict[str, object]] = {
    "arm_excitation": {},
    "arm_tracking_short": {"speed": "0.1 rad/s", "travel": "0.025 rad", "run_in": "0.12 s"},
    "payload_hold_short": {"poses": POSES, "crossing_angle": "0.025 rad", "hold_time": "100 ms"},
    "wrench_check_short": {"clearance": "3 mm", "settle": "400 ms", "hold_time": "400 ms"},
    "approach_touch_short": {"clearance": "3 mm", "hold_time": "2 s"},
}


def quickened(text: str, name: str, faster: float = 8.0, smaller: float = 0.02) -> str:
    """A trajectory file gone through ``faster`` times as fast, with amplitudes ``smaller`` times as large."""
    text = re.sub(r'name = "full_arm_\w+"', f'name = "{name}"', text, count=1)

    def scaled(match: re.Match[str], factor: float) -> str:
        return f"{match[1]}{float(match[2]) * factor!r}{match[3]}"

    text = re.sub(r'(base_frequency = ")(\S+)( Hz")', lambda m: scaled(m, faster), text)
    text = re.sub(r'(duration = ")(\S+)( s")', lambda m: scaled(m, 1.0 / faster), text)
    return re.sub(
        r"(?:cosine|sine) = \[[^\]]*\]",
        lambda m: re.sub(r"-?\d+\.\d+(?:e-?\d+)?", lambda n: repr(float(n[0]) * smaller), m[0]),
        text,
    )


@pytest.fixture(scope="module")
def rig(repository: Path) -> ArmRig:
    found = load_rig(repository / "profiles/rigs/full_arm.toml")
    assert isinstance(found, ArmRig)
    return found


@pytest.fixture(scope="module")
def performed(repository: Path, rig: ArmRig, tmp_path_factory: pytest.TempPathFactory) -> Performed:
    """Archive of each procedure; those with one specimen follow each other on one station."""
    profiles, folder = repository / "profiles", tmp_path_factory.mktemp("arm")
    files = {}
    for name in ("train", "hold_out"):
        text = (profiles / f"trajectories/full_arm_{name}.toml").read_text(encoding="utf-8")
        files[name] = folder / f"quick_{name}.toml"
        files[name].write_text(quickened(text, f"quick_{name}"), encoding="utf-8")
    changes = {**SHORT, "arm_excitation": {**SHORT["arm_excitation"], "trajectory": str(files["train"])}}
    changes["arm_excitation"]["hold_out"] = str(files["hold_out"])
    twin = load_twin(profiles / "twins/full_arm.toml")
    found: Performed = {}
    for mounted, names in (
        ("bare_tool", ("arm_excitation", "arm_tracking_short")),
        ("payload_1kg", ("payload_hold_short",)),
        ("arm_phantom_a", ("wrench_check_short", "approach_touch_short")),
    ):
        specimen = load_specimen(profiles / f"specimens/{mounted}.toml")
        with open_station(rig, "mock", twin=twin, specimen=specimen, seed=5) as station:
            station.make_ready()
            for name in names:
                procedure = load_procedure(profiles / f"procedures/{name}.toml")
                overrides = {**QUICK, **changes[name]}
                found[name] = perform(
                    station, procedure, specimen, operator="A. Example", results_dir=folder, overrides=overrides
                )
    return found


def joints(run: Run, name: str, unit: str, kind: str) -> Floats:
    return np.stack([run.get(name.format(i), unit=unit, kind=kind).values for i in range(1, 7)], axis=1)


def rows_of(rows: ArmRows, phase: Phase) -> slice:
    first, last = np.searchsorted(rows.time_s, (phase.start_s, phase.end_s))
    return slice(int(first), int(last))


@pytest.mark.parametrize("name", list(SHORT))
def test_a_run_is_complete_follows_its_path_and_says_what_was_told(
    performed: Performed, rig: ArmRig, name: str
) -> None:
    drives = drivetrain(rig.arm)
    with Run.open(performed[name]) as run:
        assert run.status == "COMPLETE"
        rows = ArmRows(run, drives)
        wanted = joints(run, "desired_{}_position", "rad", "angle")
        assert np.abs(rows.position - wanted).max() < 0.015
        made = drives.joint_torque_of_current(joints(run, "motor_{}_command_current", "A", "current"))
        parts = [joints(run, f"{part}_{{}}_torque", "N.m", "torque") for part in ("feedback", "feedforward")]
        assert made == pytest.approx(parts[0] + parts[1], abs=0.02)
        warned = [event.code for event in run.events if event.severity == "warning"]
        assert warned == []
        start = np.radians([0.0, -20.0, 10.0, 0.0, 60.0, 0.0])
        assert rows.position[-1] == pytest.approx(start, abs=0.01)


def test_excitation_and_hold_out_are_whole_trajectories_and_their_files_are_archived(performed: Performed) -> None:
    with Run.open(performed["arm_excitation"]) as run:
        lasts = {phase.name: phase.end_s - phase.start_s for phase in run.phases}
        assert lasts == pytest.approx({"train": 16.0 / 8.0, "hold_out": 40.0 / 3.0 / 8.0}, abs=0.01)
        assert 'name = "quick_train"' in run.texts["trajectory.toml"]
        assert 'name = "quick_hold_out"' in run.texts["hold_out_trajectory.toml"]


def test_slow_tracking_shows_every_joints_friction_in_both_directions(performed: Performed, rig: ArmRig) -> None:
    with Run.open(performed["arm_tracking_short"]) as run:
        rows = ArmRows(run, drivetrain(rig.arm))
        fed = joints(run, "feedforward_{}_torque", "N.m", "torque")
        left: dict[int, list[float]] = {}
        for phase in run.phases:
            assert phase.name == "uncompensated"
            joint, down = divmod(phase.replicate, 10)
            assert phase.angular_speed_rad_s == (-0.1 if down else 0.1)
            part = rows_of(rows, phase)
            late = slice((part.start + part.stop) // 2, part.stop)
            left.setdefault(joint, []).append(float((rows.torque - fed)[late, joint - 1].mean()))
    assert sorted(left) == [1, 2, 3, 4, 5, 6]
    for joint, (up, down) in left.items():
        coulomb = rig.arm.joints[joint - 1].number("coulomb")
        assert coulomb is not None
        assert 0.5 * (up - down) == pytest.approx(coulomb, rel=0.6)


def test_crossings_tell_the_payload_that_standing_hides(performed: Performed, rig: ArmRig, repository: Path) -> None:
    payload = load_specimen(repository / "profiles/specimens/payload_1kg.toml")
    loaded, bare = arm_model(rig, payload), arm_model(rig)
    shares = []
    with Run.open(performed["payload_hold_short"]) as run:
        rows = ArmRows(run, drivetrain(rig.arm))
        assert {phase.name for phase in run.phases} == {"crossing", "hold"}
        for number in (1, 2):
            ways = [phase for phase in run.phases if (phase.name, phase.replicate) == ("crossing", number)]
            assert [np.sign(phase.angular_speed_rad_s) for phase in ways] == [1.0, -1.0]
            parts = [rows_of(rows, phase) for phase in ways]
            torque = 0.5 * sum(rows.torque[part].mean(axis=0) for part in parts)
            place = 0.5 * sum(rows.position[part].mean(axis=0) for part in parts)
            added = loaded.gravity(place) - bare.gravity(place)
            shares.append((torque - bare.gravity(place)) @ added / (added @ added))
    assert np.mean(shares) == pytest.approx(1.0, abs=0.3)  # links are known to some per cent only


def pressed(run: Run, phase: Phase) -> Floats:
    """Force along the upright normal while the tool points down, from the phase's start [N]."""
    force = run.channel_slice("force_z", phase.start_s, phase.end_s, unit="N", kind="force").values
    return -np.asarray(force)


def test_forces_of_the_wrench_check_are_held(performed: Performed) -> None:
    with Run.open(performed["wrench_check_short"]) as run:
        free, *levels = run.phases
        assert [phase.name for phase in run.phases] == ["free", "press", "press"]
        zero = pressed(run, free).mean()
        found = [pressed(run, phase).mean() - zero for phase in levels]
        assert found == pytest.approx([6.0, 12.0], rel=0.05)


def test_the_gain_switch_takes_the_overshoot_out_of_a_touch(performed: Performed) -> None:
    over: dict[str, Any] = {}
    with Run.open(performed["approach_touch_short"]) as run:
        assert [phase.name for phase in run.phases] == ["without_switch", "with_switch"]
        for phase in run.phases:
            force = pressed(run, phase)
            force = force - force[:100].mean()
            over[phase.name] = force.max() / 10.0 - 1.0
            assert force[-200:].mean() == pytest.approx(10.0, rel=0.05)
    assert over["without_switch"] > 0.15
    assert over["with_switch"] < 0.05


def test_a_quickened_trajectory_is_still_one_from_rest_to_rest(repository: Path, tmp_path: Path) -> None:
    file = tmp_path / "quick.toml"
    text = (repository / "profiles/trajectories/full_arm_train.toml").read_text(encoding="utf-8")
    file.write_text(quickened(text, "quick"), encoding="utf-8")
    assert load_trajectory(file).duration.to("s") == pytest.approx(2.0)
