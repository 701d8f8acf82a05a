"""A joint of a few lines: rigid gear, viscous friction, a hanging arm. Time passes when it is slept or talked away."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from bench.archive import Run
from bench.errors import DaqDeviceError, InstrumentDisconnected, LimitError, SafetyAbort
from bench.instruments.protocols import (
    Acquisition,
    AnalogChannel,
    AnalogOutput,
    Anchor,
    AngularEncoder,
    Block,
    DriveState,
    EncoderChannel,
    Identity,
)
from bench.procedures import PROCEDURES, perform
from bench.procedures.joint_frame import JointFrame
from bench.procedures.joint_loop import Command, JointRecording, Tick
from bench.profile import JointRig, load_procedure, load_rig, load_specimen
from bench.safety import Interlock
from bench.safety.prompts import Scripted
from bench.station import JointStation

STEP_NS = 1_000_000
TRANSACTION_NS = 400_000
ZERO_V = 0.02


class FakeJoint:
    """Clock, plant, drive and lines in one.

    What it truly is may differ from what the profile says: ``ratio``, ``encoder_sign``, ``transducer_sign``.
    ``at`` holds actions by time [s]; ``next_reply`` raises an error instead of answering.
    """

    simulated = True

    def __init__(self) -> None:
        self.time_ns = 0
        self.ratio, self.encoder_sign, self.transducer_sign = 100.0, 1, 1
        self.inertia, self.link_inertia, self.viscous, self.gravity = 0.6, 0.4, 1.0, 2.5
        self.angle = self.speed = self.torque = self.link_torque = 0.0
        self.powered, self.estop, self.mode, self.fault = False, True, 0, 0
        self.temperature = 25.0
        self.history: list[tuple[float, float]] = []
        self.stuck_at: float | None = None
        self.at: dict[float, Callable[[], object]] = {}
        self.next_reply: Exception | None = None
        self.log: list[str] = []
        self.commands: list[float] = []
        self.line_broken = False
        self.stop_broken = False

    # -- clock and plant

    def now_ns(self) -> int:
        return self.time_ns

    def sleep_until_ns(self, deadline_ns: int) -> None:
        while self.time_ns < deadline_ns:
            due = (self.time_ns // STEP_NS + 1) * STEP_NS
            if due > deadline_ns:
                self.time_ns = deadline_ns
                return
            self.time_ns = due
            self._step(STEP_NS * 1e-9)

    def _step(self, dt: float) -> None:
        braked = not (self.powered and self.estop)
        gravity = self.gravity * math.sin(self.angle)
        if braked:
            acceleration, self.speed = 0.0, 0.0
        else:
            before = self.speed
            self.speed = (before + (self.torque - gravity) / self.inertia * dt) / (1 + self.viscous / self.inertia * dt)
            acceleration = (self.speed - before) / dt
        self.angle += self.speed * dt
        self.link_torque = self.link_inertia * acceleration + gravity
        seen = self.angle if self.stuck_at is None else self.stuck_at
        self.history.append((self.encoder_sign * seen, self.transducer_sign * self.link_torque))
        for time_s in [time_s for time_s in self.at if time_s <= self.time_ns * 1e-9]:
            self.at.pop(time_s)()

    def stick(self) -> None:
        self.stuck_at = self.angle

    # -- drive

    def identify(self) -> Identity:
        return Identity("moteus", "fake", "6A0F2D11-3B7C4E58-90A1B2C3")

    def arm_watchdog(self, timeout_s: float) -> None:
        self.log.append(f"watchdog {timeout_s:g}")

    def command_torque(self, torque_nm: float) -> DriveState:
        if not abs(torque_nm) <= 0.25:
            raise LimitError("too much for the rotor", reason="torque_limit")
        state = self._answer()
        self.mode = 10
        self.torque = torque_nm * self.ratio
        self.commands.append(torque_nm)
        return state

    def _answer(self) -> DriveState:
        self.sleep_until_ns(self.time_ns + TRANSACTION_NS // 2)
        if self.next_reply is not None:
            raise self.next_reply
        if not self.powered:
            raise InstrumentDisconnected("no supply", where="drive")
        state = DriveState(
            7.0 + self.angle * self.ratio,
            self.speed * self.ratio,
            self.torque / self.ratio,
            self.temperature,
            math.nan,
            24.0,
            self.mode,
            self.fault,
        )
        self.sleep_until_ns(self.time_ns + TRANSACTION_NS // 2)
        return state

    def state(self) -> DriveState:
        return self._answer()

    def stop(self) -> DriveState:
        self.log.append("stop")
        if self.stop_broken:
            raise InstrumentDisconnected("the port is gone", where="drive")
        state = self._answer()
        self.mode, self.torque, self.fault = 0, 0.0, 0
        return state

    def brake(self) -> DriveState:
        return self.stop()

    def clear_fault(self) -> DriveState:
        self.stop()
        return self._answer()

    def close(self) -> None:
        self.log.append("drive closed")


class Lines:
    """The e-stop contact and the enable line."""

    def __init__(self, joint: FakeJoint, name: str = "estop") -> None:
        self.joint, self.name = joint, name

    def read(self) -> bool:
        return self.joint.estop if self.name == "estop" else self.joint.powered

    def write(self, level: bool) -> None:
        if self.joint.line_broken and not level:
            raise DaqDeviceError("the line does not answer", where="port0/line1")
        self.joint.log.append(f"enable {level}")
        self.joint.powered = level

    def close(self) -> None:
        pass


class FakeAcquisition:
    rate_hz = 1000.0

    def __init__(self, joint: FakeJoint, encoder: AngularEncoder) -> None:
        self.joint = joint
        self.encoder = encoder
        self.samples = self.first = 0
        self.gap_at: int | None = None
        self.noise = np.random.default_rng(5)

    def start(self) -> Anchor:
        joint = self.joint
        joint.sleep_until_ns((joint.time_ns // STEP_NS + 1) * STEP_NS)
        self.first = len(joint.history) - 1
        self.origin = joint.history[self.first][0]
        return Anchor(joint.time_ns, 0, 20_000)

    def read(self, samples: int, timeout_s: float) -> Block:
        joint = self.joint
        end = self.first + self.samples + samples
        if end > len(joint.history):
            joint.sleep_until_ns(joint.time_ns + (end - len(joint.history)) * STEP_NS)
        rows = np.array(joint.history[end - samples : end])
        volts = ZERO_V + rows[:, 1] / 3.0 + 1e-4 * self.noise.standard_normal(samples)
        first = self.samples + (7 if self.gap_at is not None and self.samples >= self.gap_at else 0)
        self.samples += samples
        angle = self.encoder.initial_rad + rows[:, 0] - self.origin
        return Block(first, np.clip(volts, -10.0, 10.0)[:, np.newaxis], angle[:, np.newaxis])

    def stop(self) -> None:
        pass

    def close(self) -> None:
        self.joint.log.append("acquisition closed")


class FakeDaq:
    def __init__(self, joint: FakeJoint) -> None:
        self.joint = joint
        self.acquisitions: list[FakeAcquisition] = []

    def identify(self) -> Identity:
        return Identity("fake", "fake", "01F2A3B5")

    def acquisition(
        self,
        analog: Sequence[AnalogChannel],
        encoders: Sequence[EncoderChannel],
        rate_hz: float,
        buffer_s: float = 10.0,
    ) -> Acquisition:
        assert isinstance(encoders[0], AngularEncoder)
        self.acquisitions.append(FakeAcquisition(self.joint, encoders[0]))
        return self.acquisitions[-1]

    def digital_input(self, line: str) -> Lines:
        return Lines(self.joint)

    def digital_output(self, line: str) -> Lines:
        return Lines(self.joint, "enable")

    def analog_output(self, channel: str, minimum_v: float = -10.0, maximum_v: float = 10.0) -> AnalogOutput:
        raise DaqDeviceError("there is none", where=channel)

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class Plan:
    duration_s: float


class Bench:
    """The fake joint behind a station, and runs on it through the frame every run has."""

    def __init__(self, repository: Path, results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        profiles = repository / "profiles"
        rig = load_rig(profiles / "rigs/single_joint.toml")
        assert isinstance(rig, JointRig)
        self.rig = rig
        self.procedure = load_procedure(profiles / "procedures/low_speed_tracking.toml")
        self.specimens = {
            name: load_specimen(profiles / f"specimens/{name}.toml") for name in ("pendulum_arm", "output_lock")
        }
        self.results = results
        self.joint = FakeJoint()
        self.daq = FakeDaq(self.joint)
        self.station = JointStation(
            rig,
            "mock",
            drive=self.joint,
            daq=self.daq,
            interlock=Interlock(Lines(self.joint), Lines(self.joint, "enable")),
            clock=self.joint,
            seed=5,
        )
        self.station.questions.ask(rig.prompts)  # as opening does
        self.station.make_ready()
        self._monkeypatch = monkeypatch

    def run(self, body: Callable[[JointRecording], object], specimen: str = "pendulum_arm") -> Run:
        """Let ``body`` be what a procedure does, and return the archive."""
        entry = SimpleNamespace(
            frame=JointFrame, plan=lambda *_: Plan(30.0), run=lambda station, recording, plan: body(recording)
        )
        self._monkeypatch.setitem(PROCEDURES, self.procedure.procedure, entry)  # type: ignore[arg-type]
        path = perform(
            self.station, self.procedure, self.specimens[specimen], operator="A. Tester", results_dir=self.results
        )
        return Run.open(path)

    def abort(self, body: Callable[[JointRecording], object], specimen: str = "pendulum_arm") -> tuple[Run, str]:
        """As :meth:`run` for one that has to end early: return its archive and what was told."""
        with pytest.raises(SafetyAbort) as stopped:
            self.run(body, specimen)
        assert stopped.value.archive is not None
        return Run.open(stopped.value.archive), str(stopped.value)


def swing(amplitude_rad: float = 0.2, frequency_hz: float = 0.5) -> Callable[[Tick, Command], None]:
    """A controller that swings the joint about zero by its motor angle."""

    def controller(tick: Tick, command: Command) -> None:
        phase = 2 * math.pi * frequency_hz * tick.time_s
        command.desired_angle_rad = amplitude_rad * math.sin(phase)
        command.desired_velocity_rad_s = amplitude_rad * 2 * math.pi * frequency_hz * math.cos(phase)
        command.feedback_nm = 60.0 * (command.desired_angle_rad - tick.motor_angle_rad)
        command.feedback_nm += 10.0 * (command.desired_velocity_rad_s - tick.motor_velocity_rad_s)
        command.feedforward_nm = 0.25
        command.wanted_nm = command.feedback_nm
        command.torque_nm = command.feedback_nm + command.feedforward_nm

    return controller


@pytest.fixture
def swinging() -> Callable[..., Callable[[Tick, Command], None]]:
    """``swinging(amplitude_rad, frequency_hz)``: see :func:`swing`."""
    return swing


@pytest.fixture
def bench(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(repository, tmp_path, monkeypatch)


@pytest.fixture(autouse=True)
def somebody_at_the_rig(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is asked on the terminal says yes: what is opened here as a real rig is none."""
    monkeypatch.setattr("bench.station.Terminal", Scripted)
