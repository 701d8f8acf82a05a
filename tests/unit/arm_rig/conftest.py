"""An arm of a few lines: rigid axes, viscous friction, nominal weight. Time passes when it is slept away."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pinocchio")

from bench.archive import Run
from bench.arm import arm_model, body, drivetrain, sensor_frame
from bench.errors import BusSilent, DaqDeviceError, InstrumentDisconnected, InstrumentTimeout, LimitError, SafetyAbort
from bench.instruments.protocols import (
    Acquisition,
    AnalogChannel,
    AnalogOutput,
    Anchor,
    ArmCondition,
    ArmHealth,
    ArmState,
    Block,
    EncoderChannel,
    Identity,
)
from bench.procedures import PROCEDURES, perform
from bench.procedures.arm_frame import ArmFrame
from bench.procedures.arm_loop import ArmCommand, ArmRecording, ArmTick
from bench.profile import ArmRig, load_procedure, load_rig, load_specimen
from bench.safety import Interlock
from bench.safety.arm_watch import WristWatch
from bench.safety.prompts import Scripted
from bench.station_arm import ArmStation
from bench.station_drivers import open_wrist_sensor

STEP_NS = 1_000_000
READ_NS = 1_000_000
BRAKE_NS = 50_000_000
#: Older commands hold nothing: two ticks, and what is done between two of them.
HELD_NS = 12_000_000
START = (0.0, -0.35, 0.175, 0.0, 1.05, 0.0)
OFFSET_V = 0.01
INERTIA = np.array([1.5, 1.5, 0.5, 0.1, 0.06, 0.02])
VISCOUS = np.array([1.5, 2.0, 1.5, 0.4, 0.3, 0.2])


class FakeArm:
    """Clock, plant, servos and lines in one.

    ``at`` holds actions by time [s]; ``missing``, ``dead`` and ``gone`` are a servo, all servos and the port that do
    not answer any more; ``log`` what was done to it, and ``unheld`` the times at which the brakes were open and nothing
    held the arm.
    """

    simulated = True
    command_s = 0.0003

    def __init__(self, rig: ArmRig) -> None:
        self.time_ns = 0
        self.model = arm_model(rig)
        self.drives = drivetrain(rig.arm)
        self.ratio = np.diag(self.drives.to_motor)
        self.n = self.model.n
        self.q, self.v = np.array(START), np.zeros(self.n)
        self.currents = np.zeros(self.n)
        self.push = np.zeros(self.n)
        self.force = np.zeros(6)
        self.wire = np.zeros(6)
        self.enable = self.brake = self.on = False
        self.estop = True
        self.braked, self.brakes_at = True, 0
        self.commanded_ns = -(1 << 60)
        self.temperature = [25.0] * self.n
        self.hardware_error = [0] * self.n
        self.watchdog_s = 0.0
        self.tripped = False
        self.stuck: dict[int, float] = {}
        self.weak: dict[int, float] = {}
        self.next_reply: Exception | None = None
        self.missing = self.dead = self.gone = False
        self.line_broken = False
        self.history: list[np.ndarray] = []
        self.at: dict[float, Callable[[], object]] = {}
        self.log: list[str] = []
        self.unheld: list[float] = []
        self.commands: list[list[float]] = []
        self._alarm: Callable[[], None] = lambda: None

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

    @property
    def powered(self) -> bool:
        return self.enable and self.estop

    def _step(self, dt: float) -> None:
        if not self.powered:
            self.on = False
        if self.on and self.watchdog_s and (self.time_ns - self.commanded_ns) * 1e-9 > self.watchdog_s:
            self.tripped = True
        makes = self.on and not self.tripped
        if self.braked == (self.powered and self.brake):
            self.brakes_at = self.brakes_at or self.time_ns + BRAKE_NS
            if self.time_ns >= self.brakes_at:
                self.braked = not self.braked
        else:
            self.brakes_at = 0
        if self.braked:
            self.v = np.zeros(self.n)
        else:
            if not makes or self.time_ns - self.commanded_ns > HELD_NS:
                self.unheld.append(self.time_ns * 1e-9)
            torque = self.drives.joint_torque_of_current(self.currents) if makes else np.zeros(self.n)
            free = torque + self.push - self.model.gravity(self.q)
            self.v = (self.v + free / INERTIA * dt) / (1 + VISCOUS / INERTIA * dt)
        self.q = self.q + self.v * dt
        self.history.append(np.concatenate([self.q, self.force]))
        for time_s in [time_s for time_s in self.at if time_s <= self.time_ns * 1e-9]:
            self.at.pop(time_s)()

    def stick(self, joint: int) -> None:
        self.stuck[joint] = float(self.q[joint])

    # -- servos

    def identify(self) -> tuple[Identity, ...]:
        return tuple(Identity("dynamixel", "PH54-200-S500", "", "12", f"id {11 + k}") for k in range(self.n))

    def on_silence(self, action: Callable[[], None]) -> None:
        self._alarm = action

    def arm_watchdog(self, timeout_s: float) -> None:
        self.log.append(f"watchdog {timeout_s:g}")
        self.watchdog_s = timeout_s

    def _answer(self) -> None:
        self.sleep_until_ns(self.time_ns + READ_NS // 2)
        if self.gone:
            raise InstrumentDisconnected("the port is gone", where="bus")
        if self.next_reply is not None:
            raise self.next_reply
        if self.dead or not self.powered or self.missing:
            self._alarm()
            self.sleep_until_ns(self.time_ns + 60_000_000)  # they are asked one by one
            if self.missing:
                raise InstrumentTimeout("servo id 13 (joint 3) did not answer; 11, 12, 14, 15, 16 did", where="bus")
            raise BusSilent("no servo answers to a sync read: 11 … 16", where="bus")

    def read(self) -> ArmState:
        self._answer()
        q, v = self.q.copy(), self.v.copy()
        for joint, angle in self.stuck.items():
            q[joint], v[joint] = angle, 0.0
        state = ArmState((q * self.ratio).tolist(), (v * self.ratio).tolist(), self.currents.tolist())
        self.sleep_until_ns(self.time_ns + READ_NS // 2)
        return state

    def write_currents(self, currents_a: Sequence[float], *, blindly: bool = False) -> None:
        if self.gone:
            raise InstrumentDisconnected("the port is gone", where="bus")
        if self.missing and not blindly:
            raise InstrumentTimeout("servo id 13 (joint 3) did not answer", where="bus")
        self.commands.append(list(currents_a))
        self.commanded_ns = self.time_ns
        if self.on and not self.dead:
            self.currents = np.array([c * self.weak.get(k, 1.0) for k, c in enumerate(currents_a)])

    def condition(self) -> ArmCondition:
        self._answer()
        return ArmCondition(self.temperature, [24.0] * self.n)

    def health(self) -> ArmHealth:
        self._answer()
        return ArmHealth(
            self.temperature,
            [24.0] * self.n,
            self.hardware_error,
            [self.on] * self.n,
            [self.tripped] * self.n,
            [self.watchdog_s] * self.n,
        )

    def torque_enable(self, on: bool) -> None:
        self._answer()
        self.log.append(f"torque {on}")
        self.on, self.currents, self.commanded_ns = on, np.zeros(self.n), self.time_ns

    def clear_faults(self) -> None:
        self._answer()
        self.log.append("clear")
        self.on = self.tripped = False

    def stop(self) -> None:
        self.log.append("stop")
        self.on, self.currents = False, np.zeros(self.n)
        self._answer()

    def close(self) -> None:
        self.log.append("drives closed")


class Line:
    """``estop``, ``enable`` or ``brake``."""

    def __init__(self, arm: FakeArm, name: str) -> None:
        self.arm, self.name = arm, name

    def read(self) -> bool:
        return bool(getattr(self.arm, self.name))

    def write(self, level: bool) -> None:
        if self.arm.line_broken and self.name == "brake" and not level:
            raise DaqDeviceError("the line does not answer", where="port0/line2")
        self.arm.log.append(f"{self.name} {level}")
        setattr(self.arm, self.name, level)

    def close(self) -> None:
        pass


class FakeAcquisition:
    rate_hz = 1000.0

    def __init__(self, daq: FakeDaq) -> None:
        self.daq, self.arm = daq, daq.arm
        self.samples = self.first = 0
        self.gap_at: int | None = None
        self.noise = np.random.default_rng(5)

    def start(self) -> Anchor:
        arm = self.arm
        arm.sleep_until_ns((arm.time_ns // STEP_NS + 1) * STEP_NS)
        self.first = len(arm.history) - 1
        return Anchor(arm.time_ns, 0, 20_000)

    def read(self, samples: int, timeout_s: float) -> Block:
        arm = self.arm
        end = self.first + self.samples + samples
        if end > len(arm.history):
            arm.sleep_until_ns(arm.time_ns + (end - len(arm.history)) * STEP_NS)
        rows = np.array(arm.history[end - samples : end])
        volts = self.daq.gauges(rows) + 1e-5 * self.noise.standard_normal((samples, 6))
        first = self.samples + (7 if self.gap_at is not None and self.samples >= self.gap_at else 0)
        self.samples += samples
        return Block(first, np.clip(volts, -10.0, 10.0), np.empty((samples, 0)))

    def stop(self) -> None:
        pass

    def close(self) -> None:
        self.arm.log.append("acquisition closed")


class FakeDaq:
    def __init__(self, arm: FakeArm, rig: ArmRig, matrix: np.ndarray) -> None:
        self.arm = arm
        self.response = np.linalg.inv(matrix)
        self.acquisitions: list[FakeAcquisition] = []
        limits = SimpleNamespace(force_n=1e3, wrist_torque_nm=1e3)
        self.wrist = WristWatch(arm_model(rig), sensor_frame(rig), [body(rig.tool)], limits, 1.0)  # type: ignore[arg-type]

    def gauges(self, rows: np.ndarray) -> np.ndarray:
        # The weight turns slowly: one pose for a block is near enough.
        wrench = self.wrist.weight(rows[-1, : self.arm.n]) + rows[:, self.arm.n :]
        volts: np.ndarray = wrench @ self.response.T + OFFSET_V + self.arm.wire
        return volts

    def identify(self) -> Identity:
        return Identity("fake", "fake", "01F2A3B6")

    def acquisition(
        self,
        analog: Sequence[AnalogChannel],
        encoders: Sequence[EncoderChannel],
        rate_hz: float,
        buffer_s: float = 10.0,
    ) -> Acquisition:
        self.acquisitions.append(FakeAcquisition(self))
        return self.acquisitions[-1]

    def digital_input(self, line: str) -> Line:
        return Line(self.arm, "estop")

    def digital_output(self, line: str) -> Line:
        return Line(self.arm, "brake" if line.endswith("line2") else "enable")

    def analog_output(self, channel: str, minimum_v: float = -10.0, maximum_v: float = 10.0) -> AnalogOutput:
        raise DaqDeviceError("there is none", where=channel)

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class Plan:
    duration_s: float


class Bench:
    """The fake arm behind a station, and runs on it through the frame every run has."""

    def __init__(self, repository: Path, results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        profiles = repository / "profiles"
        rig = load_rig(profiles / "rigs/full_arm.toml")
        assert isinstance(rig, ArmRig)
        self.rig = rig
        self.procedure = load_procedure(profiles / "procedures/arm_tracking_short.toml")
        self.specimens = {
            name: load_specimen(profiles / f"specimens/{name}.toml")
            for name in ("bare_tool", "payload_1kg", "arm_phantom_a")
        }
        self.results = results
        self.arm = FakeArm(rig)
        sensor = open_wrist_sensor(rig)
        self.daq = FakeDaq(self.arm, rig, sensor.calibration.matrix)
        self.station = ArmStation(
            rig,
            "mock",
            drives=self.arm,
            daq=self.daq,
            interlock=Interlock(Line(self.arm, "estop"), Line(self.arm, "enable")),
            brake=Line(self.arm, "brake"),
            force_sensor=sensor,
            clock=self.arm,
            seed=5,
        )
        self.station.questions.ask(rig.prompts)  # as opening does
        self.station.make_ready()
        self.refusal: LimitError | None = None
        self._monkeypatch = monkeypatch
        monkeypatch.setattr("bench.procedures.arm_frame.preflight", self._preflight)

    def _preflight(self, *_: object) -> Any:
        def refuse() -> None:
            if self.refusal is not None:
                raise self.refusal

        return SimpleNamespace(refuse=refuse, lines=lambda: ["all limits are kept"])

    def run(self, procedure: Callable[[ArmRecording], object], specimen: str = "bare_tool") -> Run:
        """Let ``procedure`` be what is carried out, and return the archive."""
        entry = SimpleNamespace(
            frame=ArmFrame, plan=lambda *_: Plan(30.0), run=lambda station, recording, plan: procedure(recording)
        )
        self._monkeypatch.setitem(PROCEDURES, self.procedure.procedure, entry)  # type: ignore[arg-type]
        path = perform(
            self.station, self.procedure, self.specimens[specimen], operator="A. Tester", results_dir=self.results
        )
        return Run.open(path)

    def abort(self, procedure: Callable[[ArmRecording], object], specimen: str = "bare_tool") -> tuple[Run, str]:
        """As :meth:`run` for one that has to end early: return its archive and what was told."""
        with pytest.raises(SafetyAbort) as stopped:
            self.run(procedure, specimen)
        assert stopped.value.archive is not None
        return Run.open(stopped.value.archive), str(stopped.value)


class Swing:
    """Swings every joint about where it stands, by weight, spring and damper."""

    def __init__(self, recording: ArmRecording, amplitude_rad: float = 0.1, frequency_hz: float = 0.5) -> None:
        self.model = recording.model
        self.amplitude, self.turn = amplitude_rad, 2 * math.pi * frequency_hz
        self.home: list[float] = []
        self.start_s = 0.0
        self.seen: list[tuple[int, float]] = []
        self.ages: list[float] = []

    def __call__(self, tick: ArmTick, command: ArmCommand) -> None:
        if not self.home:
            self.home, self.start_s = list(tick.position), tick.time_s + 0.2
        self.seen.append((tick.index, tick.time_s))
        self.ages.append(tick.wrench_age_s)
        phase = self.turn * max(0.0, tick.time_s - self.start_s)
        q = np.array(self.home) + self.amplitude * (1 - math.cos(phase))
        v = np.full(len(q), self.amplitude * self.turn * math.sin(phase))
        feedback = INERTIA * (400.0 * (q - tick.position) + 40.0 * (v - tick.velocity))
        weight = self.model.gravity(np.array(tick.position))
        command.torque[:] = (weight + feedback).tolist()
        command.desired_position[:], command.desired_velocity[:] = q.tolist(), v.tolist()
        command.feedback[:], command.feedforward[:] = feedback.tolist(), weight.tolist()


@pytest.fixture
def swing() -> type[Swing]:
    """``swing(recording, amplitude_rad, frequency_hz)``: a controller."""
    return Swing


@pytest.fixture
def bench(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(repository, tmp_path, monkeypatch)


@pytest.fixture(autouse=True)
def somebody_at_the_rig(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is asked on the terminal says yes: what is opened here as a real rig is none."""
    monkeypatch.setattr("bench.station.Terminal", Scripted)
