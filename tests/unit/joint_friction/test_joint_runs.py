"""From an archived run to identifications: read phase by phase, flat in memory; the feed-forward file goes round."""

from __future__ import annotations

import math
import tracemalloc
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from bench.archive import Phase
from bench.errors import Refused
from bench.identify.alignment import Alignment
from bench.identify.estimate import Estimate
from bench.identify.feedforward import assemble
from bench.identify.friction import identify_friction
from bench.identify.joint_runs import Origin, ramp_stretches, sweep_segments, transducer_uncertainty
from bench.identify.lugre import identify_lugre
from bench.identify.stiffness import identify_stiffness
from bench.models.friction import Friction
from bench.models.lugre import lugre
from bench.models.transmission import Transmission
from bench.profile import load_feedforward

JOINT = Friction(1.2, 0.8, 0.6, 0.05, offset=0.03, load_coefficient=0.01)
GEAR = Transmission(4000.0, 6500.0, 5e-4, 2e-5, 0.5, 1e-4)
COUNT = 2.0 * math.pi / 16384
SCALE = 1.01
SAME = Alignment(0.0, 1e-4, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0)
SPEEDS = (0.005, 0.02, 0.05, 0.1, 0.4, 1.5)


@dataclass
class MadeUpRun:
    """An archived run whose channels are worked out when they are asked for; drive and DAQ have the same rate."""

    rig_text: str
    stretch_s: float = 4.0
    locked: bool = False
    daq_hz: float = 250.0
    speeds: tuple[float, ...] = SPEEDS
    path: Path = Path("20260101T000000Z_friction_sweep.h5")
    name: str = "friction_sweep"
    digest: str = "ab" * 32
    simulated: bool = True
    started_utc: str = "2026-01-01T00:00:00.000000Z"
    ended_utc: str = "2026-01-01T00:02:00.000000Z"
    phases: tuple[Phase, ...] = field(init=False)
    provenance: dict = field(init=False)

    def __post_init__(self) -> None:
        told = [{"name": "drive", "serial_number": "AB-1"}]
        self.provenance = {"rig": "single_joint", "specimen": "pendulum_arm", "instruments": told}
        if self.locked:
            self.phases = tuple(Phase("ramp", i + 1, math.nan, 12.0 * i, 12.0 * (i + 1)) for i in range(3))
            return
        made = [Phase("warm_up", 1, math.nan, 0.0, 8.0, 1.0)]
        for i, speed in enumerate(s * v for v in self.speeds for s in (1.0, -1.0)):
            start = made[-1].end_s + 1.0
            made.append(Phase("sweep", i + 1, math.nan, start, start + self.stretch_s, speed))
        start = made[-1].end_s + 1.0
        made.append(Phase("breakaway", 1, math.nan, start, start + 7.0))
        self.phases = tuple(made)

    @property
    def texts(self) -> dict[str, str]:
        return {"rig.toml": self.rig_text}

    def channels(self) -> list[str]:
        return ["joint_angle", "joint_torque", "motor_angle", "command_torque", "drive_temperature"]

    def channel_slice(self, name, start_s, stop_s, *, unit=None, kind=None):
        rate = self.daq_hz
        time = np.arange(math.ceil(max(start_s, 0.0) * rate), math.ceil(stop_s * rate)) / rate
        return SimpleNamespace(time_s=time, values=self.values(name, time), rate_hz=rate)

    def values(self, name, time):
        if self.locked:
            return self.ramp(name, time)
        angle, torque, command = np.zeros((3, len(time)))
        for phase in self.phases:
            # a second of the phase's own motion on both sides, for what is interpolated across its ends
            inside = (time >= phase.start_s - 0.5) & (time < phase.end_s + 0.5)
            t = time[inside] - phase.start_s
            if phase.name == "sweep":
                q = phase.angular_speed_rad_s * (t - 0.5 * self.stretch_s)
                load = 2.5 * np.sin(q)
                made = load + JOINT.torque(np.full(len(t), phase.angular_speed_rad_s), load=load)
            elif phase.name == "warm_up":
                q = 0.8 * np.sin(1.5 * t)
                load = 2.5 * np.sin(q)
                made = load + JOINT.torque(1.2 * np.cos(1.5 * t), load=load)
            else:
                q = 5e-4 * np.sin(2.0 * np.pi * t / 3.5)
                load = 0.2 * np.sin(2.0 * np.pi * t / 3.5)
                made = load
                if len(t) > 1:
                    made = load + lugre(
                        t, 5e-4 * 2.0 * np.pi / 3.5 * np.cos(2.0 * np.pi * t / 3.5), JOINT, 5000.0, 10.0
                    )
            angle[inside], torque[inside], command[inside] = q, load, made / SCALE
        return {
            "joint_angle": angle,
            "joint_torque": torque,
            "motor_angle": np.round(100.0 * angle / COUNT) * COUNT,
            "command_torque": command / 100.0,
            "drive_temperature": np.full(len(time), 26.0),
        }[name]

    def ramp(self, name, time):
        full = np.arange(0.0, 36.0, 1e-3)
        path = 2.2e-3 * np.interp((full / 12.0) % 1.0, [0.0, 0.25, 0.75, 1.0], [0.0, 1.0, -1.0, 0.0])
        torque = GEAR.along(path)
        way = np.sign(np.gradient(path))
        lock = 2e-5 * torque  # the lock gives way a little
        made = {
            "joint_angle": lock + 0.3,
            "joint_torque": torque + 0.004 * np.random.default_rng(1).standard_normal(len(full)),
            "motor_angle": np.round(100.0 * (path + lock + 0.3) / COUNT) * COUNT,
            "command_torque": (torque + way * 1.8) / SCALE / 100.0,
            "drive_temperature": np.full(len(full), 26.0),
        }[name]
        return made[np.clip(np.round(time * 1000.0).astype(int), 0, len(full) - 1)]


@pytest.fixture(scope="module")
def rig_text(repository) -> str:
    return (repository / "profiles" / "rigs" / "single_joint.toml").read_text()


@pytest.fixture(scope="module")
def sweep_run(rig_text) -> MadeUpRun:
    return MadeUpRun(rig_text)


@pytest.fixture(scope="module")
def friction(sweep_run):
    return identify_friction(sweep_run, alignment=SAME)


def test_a_run_is_identified_with_the_transducers_uncertainty_of_its_rig(friction, sweep_run):
    assert transducer_uncertainty(sweep_run) == pytest.approx((0.0015, 0.025))
    for name, true in {"coulomb": 1.2, "viscous": 0.8, "stribeck_excess": 0.6, "stribeck_velocity": 0.05}.items():
        found = friction.parameters[name]
        assert found.value == pytest.approx(true, rel=3e-3), name
        assert abs(found.value - true) < found.expanded_uncertainty
    assert friction.parameters["coulomb"].budget["transducer_gain"] == pytest.approx(0.0018, rel=0.01)
    assert friction.parameters["torque_scale"].value == pytest.approx(SCALE, rel=1e-3)
    assert friction.origin.digest == "ab" * 32


def test_bristles_are_told_from_the_same_run(friction, sweep_run):
    fit = identify_lugre(sweep_run, friction, alignment=SAME)
    found = fit.parameters["bristle_stiffness"]
    assert found.value == pytest.approx(5000.0, rel=0.03)
    assert found.budget["angle resolution"] > 0.0


def test_a_locked_ramp_needs_no_motion_to_align_its_clocks(rig_text):
    run = MadeUpRun(rig_text, locked=True, name="stiffness_ramp", digest="cd" * 32)
    stretches, step = ramp_stretches(run)
    assert len(stretches) == 1
    assert step == pytest.approx(COUNT / 100.0)
    fit = identify_stiffness(run)
    for name in ("stiffness_zero", "stiffness_load", "hysteresis_width"):
        assert fit.parameters[name].value == pytest.approx(getattr(GEAR, name), rel=0.02), name
    assert fit.origin.procedure == "stiffness_ramp"
    assert fit.backlash_limit > 2e-5


def test_a_lock_that_slips_is_refused(rig_text):
    run = MadeUpRun(rig_text, locked=True)
    honest = run.values
    run.values = lambda name, time: honest(name, time) + 2e-3 * (time > 20.0) * (name == "joint_angle")
    with pytest.raises(Refused, match="Tighten") as told:
        ramp_stretches(run)
    assert told.value.reason == "output_moved"


def peak(run) -> tuple[int, int]:
    tracemalloc.start()
    found = sweep_segments(run, alignment=SAME)
    top = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return top, sum(len(one.command) for one in found)


def test_memory_of_a_sweeps_analysis_is_flat_from_one_to_thirty_minutes(rig_text):
    """Four stretches of 15 s against four of 450 s."""
    minute, half_hour = (MadeUpRun(rig_text, stretch_s=s, daq_hz=80.0, speeds=(0.005, 0.02)) for s in (15.0, 450.0))
    short, _ = peak(minute)
    long, bins = peak(half_hour)
    assert sum(p.end_s - p.start_s for p in half_hour.phases if p.name == "sweep") == 1800.0
    assert long < 1.2 * short
    assert bins <= 4 * 128


def test_the_feed_forward_file_goes_round_and_says_where_it_holds(friction, sweep_run, rig_text, tmp_path):
    gear = identify_stiffness(MadeUpRun(rig_text, locked=True, name="stiffness_ramp", digest="cd" * 32))
    bristles = identify_lugre(sweep_run, friction, alignment=SAME)
    dynamics = {
        "motor_inertia": Estimate(0.2, 0.001, "kg.m2", "inertia"),
        "link_inertia": Estimate(0.4, 0.002, "kg.m2", "inertia"),
        "gravity_moment": Estimate(2.5, 0.004, "N.m", "torque"),
    }
    made = assemble(friction, lugre=bristles, stiffness=gear, dynamics=dynamics, version=3, residual=0.031)
    read = load_feedforward(made.write(tmp_path / "feedforward.toml"))
    assert read.friction.coulomb.to("N.m") == friction.parameters["coulomb"].value
    assert read.friction.stribeck_velocity.to("rad/s") == friction.parameters["stribeck_velocity"].value
    assert read.friction.bristle_stiffness.to("N.m/rad") == bristles.parameters["bristle_stiffness"].value
    assert read.drive.torque_scale == friction.parameters["torque_scale"].value
    assert read.transmission.load.to("N.m") == gear.load_Nm
    assert read.dynamics.gravity_moment.to("N.m") == 2.5
    assert (read.validity.speed_min.to("rad/s"), read.validity.speed_max.to("rad/s")) == (0.005, 1.5)
    assert read.validity.load_max.to("N.m") == friction.span.load_max
    assert read.uncertainty["friction.coulomb"].to("N.m") == friction.parameters["coulomb"].expanded_uncertainty
    assert [one.digest for one in read.sources] == ["ab" * 32, "cd" * 32]
    assert (read.version, read.rig, read.load, read.drive_serial_number) == (3, "single_joint", "pendulum_arm", "AB-1")
    assert read.residual.to("%") == pytest.approx(3.1)
    assert all(one.simulated for one in read.sources)


def test_a_friction_fit_of_a_run_is_a_feed_forward_by_itself(friction, tmp_path):
    (tmp_path / "feedforward.toml").write_text(assemble(friction).text)
    read = load_feedforward(tmp_path / "feedforward.toml")
    assert read.friction.offset.to("N.m") == friction.parameters["offset"].value
    assert read.transmission is None
    assert "stribeck" in read.description


def test_a_model_without_stribeck_writes_no_excess(sweep_run, tmp_path):
    fit = identify_friction(sweep_run, "coulomb_viscous", alignment=SAME)
    (tmp_path / "feedforward.toml").write_text(assemble(fit).to_toml())
    assert load_feedforward(tmp_path / "feedforward.toml").friction.stribeck_excess.to("N.m") == 0.0


def test_what_noise_put_below_zero_is_written_as_zero_and_what_is_wrong_is_refused(friction, tmp_path):
    small = Estimate(-1e-4, 1e-3, "1", "number")
    fit = replace(friction, parameters={**friction.parameters, "load_coefficient": small})
    (tmp_path / "feedforward.toml").write_text(assemble(fit).text)
    assert load_feedforward(tmp_path / "feedforward.toml").friction.load_coefficient == 0.0
    wrong = replace(fit, parameters={**fit.parameters, "viscous": Estimate(-0.5, 0.01, "N.m.s/rad", "x")})
    with pytest.raises(Refused, match="viscous") as told:
        assemble(wrong)
    assert told.value.reason == "below_zero"


def test_parameters_from_nowhere_make_no_file(friction):
    with pytest.raises(Refused, match="archive") as told:
        assemble(replace(friction, origin=None))
    assert told.value.reason == "no_source"
    named = Origin("a.h5", "friction_sweep", "ef" * 32, False, "single_joint", "arm", None, "2026-01-01T00:00:00Z")
    assert "ef" * 32 in assemble(replace(friction, origin=None), sources=[named]).text
    with pytest.raises(Refused, match="motor_inertia"):
        assemble(friction, dynamics={"link_inertia": Estimate(0.4, 0.01, "kg.m2", "inertia")})
