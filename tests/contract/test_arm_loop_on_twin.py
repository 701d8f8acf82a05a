"""What an arm's rows say and when, against the twin's own history: positions, commands and their times, the wrist."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pinocchio")
pytest.importorskip("mujoco")

from bench.archive import Provenance, Run, RunWriter
from bench.procedures.arm_frame import ArmFrame
from bench.procedures.arm_loop import ArmCommand, ArmRecording, ArmTick
from bench.profile import find_profile, load_specimen

Swayed = tuple[Path, dict[str, np.ndarray], dict[str, Any], float]


@pytest.fixture(scope="module")
def swayed(open_rig: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Swayed:
    """A run in which all joints sway: archive, the twin's history and truth, and the world's time at sample 0 [s]."""
    with open_rig("payload_1kg", rig="full_arm", seed=2) as station:
        specimen = load_specimen(find_profile("specimens", "payload_1kg"))
        station.mount(specimen)
        provenance = Provenance(
            operator="A. Tester",
            specimen=specimen.name,
            procedure="sway",
            rig=station.rig.name,
            started_utc=datetime.now(UTC),
            backend="mock",
            simulated=True,
            seed=2,
        )
        with RunWriter.create(
            tmp_path_factory.mktemp("arm"), "sway", provenance, ArmFrame.groups(station, None)
        ) as writer:
            recording = ArmRecording(station, writer, planned_s=5.0, specimen=specimen)
            station.make_ready()
            recording.start()
            home: list[float] = []

            def sway(tick: ArmTick, command: ArmCommand) -> None:
                if not home:
                    home.extend(tick.position)
                phase = 2 * math.pi * max(0.0, tick.time_s - 1.3)
                q = np.array(home) + 0.1 * (1.0 - math.cos(phase))
                v = np.full(6, 0.1 * 2 * math.pi * math.sin(phase))
                feedback = recording.model.mass_matrix(q) @ (1000.0 * (q - tick.position) + 60.0 * (v - tick.velocity))
                command.torque[:] = (recording.model.gravity(q) + feedback).tolist()
                command.desired_position[:], command.desired_velocity[:] = q.tolist(), v.tolist()

            recording.run(sway, 2.5)
            zero_s = recording.grid.zero_ns * 1e-9
            recording.park()
            recording.stop()
            path = writer.close("COMPLETE")
        history, truth = station.twin.control.history(), station.twin.control.truth()
    return path, history, truth, zero_s


def late_s(time_s: np.ndarray, values: np.ndarray, truth: Callable[[np.ndarray], np.ndarray]) -> float:
    """Return by how much ``values`` lag behind the truth, by least squares [s]."""
    step = 1e-4
    slope = (truth(time_s + step) - truth(time_s - step)) / (2 * step)
    return float(-(slope @ (values - truth(time_s))) / (slope @ slope))


def test_rows_tell_what_was_and_when(swayed: Swayed) -> None:
    path, history, truth, zero_s = swayed
    with Run.open(path) as run:
        half_width = float(run.get("time_half_width").values.max())
        for joint in range(1, 7):
            shaft = run.get(f"motor_{joint}_position")
            ratio = truth["gear_ratio"][joint - 1]
            places = history[f"axis_{joint}_position_rad"]
            ticks = np.arange(len(places)) * truth["tick_s"] - zero_s

            def there(at: np.ndarray, ticks: np.ndarray = ticks, places: np.ndarray = places) -> np.ndarray:
                return np.interp(at, ticks, places)

            moving = (shaft.time_s > 1.5) & (shaft.time_s < 3.4)
            seen = shaft.values[moving] / ratio
            assert np.abs(seen - there(shaft.time_s[moving])).max() < 1e-3
            assert abs(late_s(shaft.time_s[moving], seen, there)) < half_width


def test_a_command_holds_from_its_time_on(swayed: Swayed) -> None:
    path, history, truth, zero_s = swayed
    with Run.open(path) as run:
        for joint in (1, 2, 5):
            since = run.get("command_time").values
            per_ampere = [truth[key][joint - 1] for key in ("torque_constant", "torque_scale", "gear_ratio")]
            torque = run.get(f"motor_{joint}_command_current").values * math.prod(per_ampere)
            made = history[f"motor_{joint}_torque_Nm"]
            ticks = np.arange(len(made)) * truth["tick_s"] - zero_s
            inside = (ticks > 1.5) & (ticks < 3.4)
            errors = {}
            # The twin tells the mean of the tick that ends there.
            parts = ((np.arange(20) + 0.5) / 20 - 1.0) * truth["tick_s"]
            for shift_us in (-1000, 0, 1000):
                index = np.searchsorted(since + shift_us * 1e-6, ticks[inside][:, None] + parts, side="right") - 1
                errors[shift_us] = float(np.abs(torque[index].mean(axis=1) - made[inside]).mean())
            assert errors[0] < 0.35 * min(errors[-1000], errors[1000])


def test_the_wrist_feels_what_the_tool_weighs(swayed: Swayed) -> None:
    path, history, truth, zero_s = swayed
    with Run.open(path) as run:
        for axis in "xyz":
            force = run.get(f"force_{axis}")
            felt = history[f"force_{axis}_N"]
            ticks = np.arange(len(felt)) * truth["tick_s"] - zero_s
            there = np.interp(force.time_s, ticks, felt)
            rest = force.time_s < 0.9
            off = np.abs(force.values - (there - there[rest].mean()))
            assert np.quantile(off, 0.99) < 0.4, "but for the knock of the brakes"
            assert np.abs(force.values).max() > 1.0
