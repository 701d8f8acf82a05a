"""A joint's run becomes arrays on one grid, whole or in pieces, with the clocks aligned."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.archive import Run
from bench.errors import Refused
from bench.identify.filtering import LowPass
from bench.identify.joint_dynamics import identify
from bench.identify.joint_laws import link_side, motor_side
from bench.identify.joint_record import JointRecord, alignment_of, pieces


def test_the_drives_rows_come_to_the_daqs_grid_through_the_offset(
    recorded: Callable[..., Any], joint_run: Callable[..., Path], joint: Any
) -> None:
    made = recorded(noise_rad=0.0, hysteresis_rad=0.0)
    with Run.open(joint_run(made)) as run:
        record = JointRecord.from_run(run)
    assert (record.rate_hz, record.gear_ratio, record.rated_torque) == (1000.0, 100.0, 10.0)
    assert record.alignment.offset_s == pytest.approx(0.0037, abs=2e-5)
    time = record.time_s
    assert np.array_equal(np.diff(np.round(time * 1000.0)), np.ones(len(time) - 1))
    assert np.abs(record.joint_angle - joint.motion(time)[0]).max() < 1e-12
    assert np.abs(record.motor_angle - joint.motor(time))[100:-100].max() < 2e-5
    assert np.abs(record.desired_angle - joint.motion(time)[0])[100:-100].max() < 5e-5
    assert set(record.temperature) == {31.0}
    # a command is held until the next tick: on average it is a millisecond old
    age = np.argmin(
        [np.abs(record.motor_torque_command - joint.command(time - k * 1e-4))[500:-500].mean() for k in range(30)]
    )
    assert 7 <= age <= 13


def test_a_joint_is_identified_from_its_run_piece_by_piece(
    recorded: Callable[..., Any], joint_run: Callable[..., Path], joint: Any
) -> None:
    made = recorded(seconds=45.0, phases=(("warm_up", 0.0, 5.0), ("train", 5.0, 45.0)))
    with Run.open(joint_run(made)) as run:
        alignment = alignment_of(run, ("train",))
        parts = list(pieces(run, ("train",), alignment=alignment, longest_s=21.0))
        assert [len(r.time_s) > 15000 for r in parts] == [True, True]
        assert [p.name for p in parts[0].phases] == ["train"]
        assert parts[1].first_index == round(float(parts[1].time_s[0]) * 1000.0)
        motor = identify(motor_side(), (r.motor_side() for r in parts), LowPass(6.0), stiction_speed=0.05)
        link = identify(link_side(), (r.link_side() for r in parts), LowPass(6.0), stiction_speed=0.0)
    for name in ("coulomb", "viscous", "motor_inertia", "torque_scale"):
        assert motor.parameters[name].value == pytest.approx(getattr(joint, name), rel=0.02), name
    for name in ("link_inertia", "gravity_moment"):
        assert link.parameters[name].value == pytest.approx(getattr(joint, name), rel=0.005), name
    assert motor.sources == ("train",)


def test_reading_in_pieces_needs_no_more_memory_for_a_longer_run(
    recorded: Callable[..., Any], joint_run: Callable[..., Path]
) -> None:
    def peak(seconds: float, seed: int) -> int:
        with Run.open(joint_run(recorded(seconds=seconds, seed=seed))) as run:
            alignment = alignment_of(run)
            tracemalloc.start()
            for record in pieces(run, alignment=alignment, longest_s=8.0):
                assert len(record.time_s) > 1000
            found = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        return found

    assert peak(80.0, 40) < 1.25 * peak(20.0, 20)


def test_a_run_without_the_phase_names_those_it_has(
    recorded: Callable[..., Any], joint_run: Callable[..., Path]
) -> None:
    with (
        Run.open(joint_run(recorded(seconds=10.0))) as run,
        pytest.raises(Refused, match="Its phases: train") as refusal,
    ):
        JointRecord.from_run(run, ("hold_out",))
    assert refusal.value.reason == "no_phase"


def test_missing_rows_of_the_drive_are_told_by_time(
    recorded: Callable[..., Any], joint_run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = recorded(seconds=12.0)
    whole = type(made).drive_times
    monkeypatch.setattr(type(made), "drive_times", lambda self: whole(self)[np.r_[0:3000, 3200:6000]])
    with Run.open(joint_run(made)) as run, pytest.raises(Refused, match=r"a gap of 40\d ms") as refusal:
        JointRecord.from_run(run)
    assert refusal.value.reason == "gap"


def test_a_run_of_another_rig_is_refused(recorded: Callable[..., Any], joint_run: Callable[..., Path]) -> None:
    with Run.open(joint_run(recorded(seconds=10.0))) as run:
        run.__dict__["texts"] = {"rig.toml": 'schema = "bench.rig/1"\nkind = "indenter"\n'}
        with pytest.raises(Refused, match="no profile of a single-joint rig") as refusal:
            JointRecord.from_run(run)
    assert refusal.value.reason == "no_rig"
