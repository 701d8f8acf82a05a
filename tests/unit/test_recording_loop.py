"""The loop, the indentation and its endings on a lab of a few lines, for what the twin's hardware would not do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from bench.archive import Run, RunWriter
from bench.errors import ArchiveError, DaqDeviceError, InstrumentDisconnected, SafetyAbort
from bench.instruments.protocols import (
    Acquisition,
    AnalogChannel,
    AnalogOutput,
    Anchor,
    Block,
    EncoderChannel,
    Identity,
    LinearEncoder,
)
from bench.procedures import perform
from bench.profile import ProcedureProfile, SpecimenProfile, load_procedure, load_rig, load_specimen
from bench.safety import Interlock
from bench.station import IndenterStation
from bench.station_drivers import open_force_sensor

SURFACE_MM = 30.1
STIFFNESS_N_MM = 0.5
N_PER_MV_V = 25.0
RATE = 1000.0


class Lab:
    """Axis, specimen and sensor in one; time passes when it is slept or read away."""

    simulated = True

    def __init__(self) -> None:
        self.time_ns = 0
        self.start_ns = 0
        self.position = 0.0
        self.origin, self.target, self.speed, self.begun_ns = 0.0, 0.0, 1.0, 0
        self.powered = False
        self.estop = True
        self.line_broken = False
        self.ignores_stop = False
        self.faults: dict[float, str] = {}
        self.unplugged = False
        self.dead_daq = False
        self.log: list[str] = []
        self.touching = True

    # the clock

    def now_ns(self) -> int:
        return self.time_ns

    def sleep_until_ns(self, deadline_ns: int) -> None:
        self.time_ns = max(self.time_ns, deadline_ns)

    # the world

    def at(self, time_ns: int) -> float:
        way = self.target - self.origin
        gone = self.speed * (time_ns - self.begun_ns) * 1e-9
        return self.origin + np.sign(way) * min(abs(way), gone)

    def halt(self) -> None:
        if not self.ignores_stop:
            self.origin = self.target = self.at(self.time_ns)

    def force(self, position: float) -> float:
        return STIFFNESS_N_MM * max(0.0, position - SURFACE_MM) if self.touching else 0.0

    def inject(self) -> None:
        for time_s, fault in list(self.faults.items()):
            if self.time_ns * 1e-9 >= time_s:
                del self.faults[time_s]
                self.log.append(fault)
                if fault == "estop":
                    self.estop = False
                    self.halt()
                elif fault == "unplug":
                    self.unplugged = True
                elif fault == "overrun":
                    self.dead_daq = True

    # the stage

    def identify(self) -> Identity:
        return Identity("fake", "fake", "57012")

    def _answer(self) -> None:
        self.time_ns += 2_000_000
        if self.unplugged:
            raise InstrumentDisconnected("the port is gone", where="stage")

    def home(self) -> None:
        self._answer()
        self.origin = self.target = 0.0

    def clear_faults(self) -> None:
        self._answer()

    def is_homed(self) -> bool:
        return True

    def position_mm(self) -> float:
        self._answer()
        return self.at(self.time_ns)

    def is_moving(self) -> bool:
        self._answer()
        return self.at(self.time_ns) != self.target

    def start_move(self, position_mm: float, speed_mm_s: float) -> float:
        self._answer()
        self.origin, self.begun_ns = self.at(self.time_ns), self.time_ns
        self.target, self.speed = position_mm, speed_mm_s
        return abs(self.target - self.origin) / speed_mm_s + 0.5

    def wait_idle(self, timeout_s: float) -> None:
        pass

    def stop(self) -> None:
        self._answer()
        self.log.append("stop")
        self.halt()

    def arm_travel_limits(self, minimum_mm: float, maximum_mm: float) -> None:
        self.log.append(f"armed {minimum_mm:.2f} {maximum_mm:.2f}")

    def close(self) -> None:
        pass


class Lines:
    def __init__(self, lab: Lab, name: str = "estop") -> None:
        self.lab, self.name = lab, name

    def read(self) -> bool:
        return self.lab.estop if self.name == "estop" else self.lab.powered

    def write(self, level: bool) -> None:
        if self.lab.line_broken and not level:
            raise DaqDeviceError("the line does not answer", where="port0/line1")
        self.lab.powered = level
        if not level:
            self.lab.halt()

    def close(self) -> None:
        pass


class FakeAcquisition:
    rate_hz = RATE

    def __init__(self, lab: Lab, encoder: LinearEncoder) -> None:
        self.lab = lab
        self.offset = encoder.initial_mm - lab.at(lab.time_ns)
        self.samples = 0
        self.noise = np.random.default_rng(5)

    def start(self) -> Anchor:
        self.lab.start_ns = self.lab.time_ns
        return Anchor(self.lab.time_ns, 0, 0)

    def read(self, samples: int, timeout_s: float) -> Block:
        lab = self.lab
        # Positions are those of the motion under way now: good enough for blocks of a tenth of a second.
        times = lab.start_ns + (self.samples + np.arange(samples)) * 1_000_000
        lab.time_ns = max(lab.time_ns, int(times[-1]) + 1_000_000)
        lab.inject()
        if lab.dead_daq:
            raise DaqDeviceError("samples were overwritten", code=-200279, where="Dev1")
        position = np.array([lab.at(int(time)) for time in times])
        force = np.array([lab.force(x) for x in position]) + 0.002 * self.noise.standard_normal(samples)
        block = Block(self.samples, (force / N_PER_MV_V + 0.01)[:, np.newaxis], (position + self.offset)[:, np.newaxis])
        self.samples += samples
        return block

    def stop(self) -> None:
        pass

    def close(self) -> None:
        self.lab.log.append("acquisition closed")


class FakeDaq:
    def __init__(self, lab: Lab) -> None:
        self.lab = lab

    def identify(self) -> Identity:
        return Identity("fake", "fake", "01F2A3B5")

    def acquisition(
        self,
        analog: Sequence[AnalogChannel],
        encoders: Sequence[EncoderChannel],
        rate_hz: float,
        buffer_s: float = 10.0,
    ) -> Acquisition:
        assert isinstance(encoders[0], LinearEncoder)
        return FakeAcquisition(self.lab, encoders[0])

    def digital_input(self, line: str) -> Lines:
        return Lines(self.lab)

    def digital_output(self, line: str) -> Lines:
        return Lines(self.lab, "enable")

    def analog_output(self, channel: str, minimum_v: float = -10.0, maximum_v: float = 10.0) -> AnalogOutput:
        raise DaqDeviceError("there is none", where=channel)

    def close(self) -> None:
        pass


@pytest.fixture
def lab() -> Lab:
    return Lab()


@pytest.fixture
def station(lab: Lab, repository: Path) -> IndenterStation:
    rig = load_rig(repository / "profiles/rigs/indenter_load_cell.toml")
    made = IndenterStation(
        rig,
        "mock",
        stage=lab,
        daq=FakeDaq(lab),
        force_sensor=open_force_sensor(rig),
        interlock=Interlock(Lines(lab), Lines(lab, "enable")),
        clock=lab,
        seed=5,
    )
    made.make_ready()
    return made


@pytest.fixture
def phantom(repository: Path) -> SpecimenProfile:
    return load_specimen(repository / "profiles/specimens/liver_phantom_a.toml")


@pytest.fixture
def short(repository: Path) -> ProcedureProfile:
    return load_procedure(repository / "profiles/procedures/indentation_short.toml")


def run(
    station: IndenterStation, procedure: ProcedureProfile, specimen: SpecimenProfile, to: Path, **overrides: object
) -> Run:
    return Run.open(
        perform(station, procedure, specimen, operator="A. Tester", results_dir=to, overrides=overrides or None)
    )


def aborted(
    station: IndenterStation, procedure: ProcedureProfile, specimen: SpecimenProfile, to: Path
) -> tuple[Run, str]:
    with pytest.raises(SafetyAbort) as stopped:
        perform(station, procedure, specimen, operator="A. Tester", results_dir=to)
    assert stopped.value.archive is not None
    return Run.open(stopped.value.archive), stopped.value.reason


def test_a_run_to_a_force_ends_near_it(
    station: IndenterStation, short: ProcedureProfile, phantom: SpecimenProfile, tmp_path: Path
) -> None:
    with run(station, short, phantom, tmp_path, depth=None, force="1.5 N") as done:
        force = done.get("contact_force", unit="N", kind="force")
        presses = [phase for phase in done.phases if phase.name == "press"]
        assert len(presses) == 3
        for press in presses:
            inside = force.values[(force.time_s >= press.end_s) & (force.time_s < press.end_s + 1.0)]
            assert inside.mean() == pytest.approx(1.5, abs=0.05)
        ended = [event.code for event in done.events if event.code.startswith("press_ended")]
        assert ended == ["press_ended_by_force"] * 3


def test_the_travel_limits_are_armed_before_the_first_approach(
    station: IndenterStation, lab: Lab, short: ProcedureProfile, phantom: SpecimenProfile, tmp_path: Path
) -> None:
    lab.log.clear()
    run(station, short, phantom, tmp_path).close()
    assert lab.log[0] == "armed 0.00 42.00"
    assert lab.log[-3:] == ["armed 0.00 55.00", "acquisition closed", "stop"]
    assert station.resting


def test_a_line_that_cannot_be_dropped_is_told_by_the_status(
    station: IndenterStation, lab: Lab, short: ProcedureProfile, phantom: SpecimenProfile, tmp_path: Path
) -> None:
    lab.faults[6.0] = "estop"
    lab.line_broken = True
    archive, reason = aborted(station, short, phantom, tmp_path)
    with archive:
        assert archive.status == "ABORTED"
        assert archive.reason.startswith("estop; safe_state_failed: ")
        assert reason == "estop; safe_state_failed"
        (event,) = [event for event in archive.events if event.code == "safe_state_failed"]
        assert event.severity == "fatal"
        assert "the line does not answer" in event.message
    with pytest.raises(SafetyAbort, match="could not be made safe while closing"):
        station._leave()


def test_an_axis_that_does_not_stop_is_told_by_the_status(
    station: IndenterStation, lab: Lab, short: ProcedureProfile, phantom: SpecimenProfile, tmp_path: Path
) -> None:
    lab.faults[6.5] = "unplug"
    lab.ignores_stop = True
    archive, _ = aborted(station, short, phantom, tmp_path)
    with archive:
        assert archive.reason.startswith("instrument_disconnected; safe_state_failed: ")
        assert "stand seen by the encoder: FAILED moved" in archive.events[-1].message


def test_an_unplugged_stage_is_seen_to_stand_by_the_encoder(
    station: IndenterStation, lab: Lab, short: ProcedureProfile, phantom: SpecimenProfile, tmp_path: Path
) -> None:
    lab.faults[6.5] = "unplug"
    archive, reason = aborted(station, short, phantom, tmp_path)
    with archive:
        assert reason == "instrument_disconnected"
        assert not lab.powered
        assert archive.events[-1].code == "safe_state"
        position = archive.get("encoder_position")
        stopped_s = archive.events[-2].time_s
        assert np.ptp(position.values[position.time_s > stopped_s - 0.15]) == 0.0, "the aftermath is archived"


def test_lost_samples_end_the_run_and_the_controller_is_asked_instead(
    station: IndenterStation, lab: Lab, short: ProcedureProfile, phantom: SpecimenProfile, tmp_path: Path
) -> None:
    lab.faults[6.5] = "overrun"
    archive, reason = aborted(station, short, phantom, tmp_path)
    with archive:
        assert reason == "daq_overrun"
        assert "stand seen by the encoder: FAILED" in archive.events[-1].message
        assert "stand seen by the controller: ok" in archive.events[-1].message
        assert archive.events[-1].code == "safe_state"


def test_after_an_abort_nothing_moves_until_the_station_is_made_ready(
    station: IndenterStation, lab: Lab, short: ProcedureProfile, phantom: SpecimenProfile, tmp_path: Path
) -> None:
    lab.faults[6.0] = "estop"
    aborted(station, short, phantom, tmp_path)[0].close()
    with pytest.raises(SafetyAbort, match=r"stopped \(estop\)") as refused:
        perform(station, short, phantom, operator="A. Tester", results_dir=tmp_path)
    assert refused.value.reason == "latched"
    assert refused.value.archive is None
    with pytest.raises(SafetyAbort, match="e-stop is pressed"):
        station.make_ready()
    lab.estop = True
    station.make_ready()
    run(station, short, phantom, tmp_path).close()


def test_a_tare_with_the_tool_at_the_specimen_is_refused(
    station: IndenterStation, lab: Lab, short: ProcedureProfile, phantom: SpecimenProfile, tmp_path: Path
) -> None:
    lab.origin = lab.target = 29.0
    with pytest.raises(SafetyAbort, match="the tool stands at 29") as refused:
        perform(station, short, phantom, operator="A. Tester", results_dir=tmp_path)
    assert refused.value.reason == "not_in_free_air"
    assert list(tmp_path.iterdir()) == []


def test_a_mistake_in_the_bench_still_makes_the_rig_safe(
    station: IndenterStation, lab: Lab, short: ProcedureProfile, phantom: SpecimenProfile, tmp_path: Path
) -> None:
    def broken(text: str, fraction: float | None) -> None:
        if "pressing" in text:
            raise ZeroDivisionError("a progress bar of no width")

    with pytest.raises(SafetyAbort, match="a progress bar of no width") as stopped:
        perform(station, short, phantom, operator="A. Tester", results_dir=tmp_path, progress=broken)
    assert stopped.value.reason == "bench_error"
    assert isinstance(stopped.value.__cause__, ZeroDivisionError)
    assert not lab.powered
    assert stopped.value.archive is not None
    with Run.open(stopped.value.archive) as archive:
        assert archive.status == "ABORTED"


def test_an_archive_that_fails_stops_the_rig(
    station: IndenterStation,
    lab: Lab,
    short: ProcedureProfile,
    phantom: SpecimenProfile,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    append = RunWriter.append

    def full(self: RunWriter, group: str, *arguments: object) -> None:
        if lab.time_ns > 6_000_000_000:
            raise ArchiveError("the archive could not be written on (No space left on device)", where=str(self.path))
        append(self, group, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(RunWriter, "append", full)
    with pytest.raises(SafetyAbort, match="No space left on device") as stopped:
        perform(station, short, phantom, operator="A. Tester", results_dir=tmp_path)
    assert stopped.value.reason == "archive_failed"
    assert not lab.powered
    assert lab.log.count("stop") == 1
    assert stopped.value.archive is not None
