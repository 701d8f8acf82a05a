"""Opening a station: what is checked, what is closed when it fails, and that nothing moves around the gate."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from bench import station_drivers, station_indenter
from bench.errors import (
    BenchError,
    CalibrationError,
    DaqDeviceError,
    InstrumentDisconnected,
    InstrumentError,
    LeaseError,
    LimitError,
    ProfileError,
    QuarantineError,
    SafetyAbort,
)
from bench.instruments.protocols import Identity, LinearStage
from bench.profile import RigProfile, load_rig, load_specimen, load_twin, parse_profile
from bench.safety import GatedStage, Interlock, rig_leases
from bench.safety.lease import LeaseBook
from bench.safety.prompts import Scripted
from bench.safety.watchdog import Unwatched
from bench.station import IndenterStation, open_station, stop_unwatched
from bench.station_drivers import Addresses

OpenRig = Callable[..., Any]
MOVING = ("home", "start_move", "arm_travel_limits", "move_velocity", "move_to")


@pytest.fixture(autouse=True)
def somebody_at_the_rig(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is asked on the terminal says yes: what is opened here as a real rig is none."""
    monkeypatch.setattr("bench.station.Terminal", Scripted)


class Instrument:
    """A stage, a DAQ and its lines in one: notes when it is opened and closed."""

    def __init__(self, name: str, log: list[str], identity: Identity, *, failing: bool = False) -> None:
        self.name = name
        self.log = log
        self.identity = identity
        self.level = True
        self.homed = True
        if failing:
            raise InstrumentDisconnected(f"the {name} does not answer", where=name)
        log.append(f"open {name}")

    def identify(self) -> Identity:
        return self.identity

    def home(self) -> None:
        self.log.append("home")
        self.homed = True

    def clear_faults(self) -> None:
        self.log.append("clear faults")

    def is_homed(self) -> bool:
        return self.homed

    def position_mm(self) -> float:
        return 0.0

    def is_moving(self) -> bool:
        return False

    def start_move(self, position_mm: float, speed_mm_s: float) -> float:
        self.log.append("start_move")
        return 0.0

    def wait_idle(self, timeout_s: float) -> None:
        pass

    def stop(self) -> None:
        self.log.append("stop")

    def arm_travel_limits(self, minimum_mm: float, maximum_mm: float) -> None:
        self.log.append(f"arm {minimum_mm:g} {maximum_mm:g}")

    def read(self) -> bool:
        return self.level

    def write(self, level: bool) -> None:
        self.level = level
        self.log.append(f"enable {level}")

    def digital_input(self, line: str) -> Instrument:
        return Instrument("estop", self.log, self.identity)

    def digital_output(self, line: str) -> Instrument:
        made = Instrument("enable", self.log, self.identity)
        made.level = False
        return made

    def close(self) -> None:
        self.log.append(f"close {self.name}")


class Lab:
    """Replaces the drivers: everything opens unless it is told to fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log: list[str] = []
        self.failing = ""
        self.homed = True
        self.stage_serial, self.daq_serial = "57012", "01F2A3B4"
        monkeypatch.setattr("bench.station.watch", lambda *_, **__: Unwatched())  # nothing here can be watched
        monkeypatch.setattr(station_indenter, "open_stage", self.stage)
        monkeypatch.setattr(station_indenter, "open_daq", self.daq)

    def stage(self, rig: RigProfile, addresses: Addresses) -> Instrument:
        identity = Identity("stage", "fake", self.stage_serial, address="COM9")
        made = Instrument("stage", self.log, identity, failing=self.failing == "stage")
        made.homed = self.homed
        return made

    def daq(self, rig: RigProfile, addresses: Addresses) -> Instrument:
        return Instrument("daq", self.log, Identity("daq", "fake", self.daq_serial), failing=self.failing == "daq")


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Lab:
    return Lab(monkeypatch)


@pytest.fixture
def rig(repository: Path) -> RigProfile:
    return load_rig(repository / "profiles/rigs/indenter.toml")


def changed(rig: RigProfile, old: str, new: str) -> RigProfile:
    text = rig.source.text
    assert old in text
    profile, problems = parse_profile(text.replace(old, new), rig.source.path)
    assert problems == []
    assert isinstance(profile, RigProfile)
    return profile


# -- opening and closing


def test_everything_is_closed_in_reverse_order(lab: Lab, rig: RigProfile) -> None:
    with open_station(rig, "lab") as station:
        opened = ["open daq", "open stage", "open estop", "open enable"]
        assert lab.log == [*opened, "enable True", "arm 0 55", "stop", "enable False"]
        assert not station.simulated
        assert station.resting
        lab.log.clear()
    assert lab.log == ["close enable", "close estop", "close stage", "close daq"]


def test_a_rig_that_has_power_loses_it_before_it_is_closed(lab: Lab, rig: RigProfile) -> None:
    with open_station(rig, "lab") as station:
        lab.log.clear()
        station.make_ready()
        assert lab.log == ["enable True", "clear faults", "arm 0 55"]
        lab.log.clear()
    assert lab.log == ["stop", "enable False", "close enable", "close estop", "close stage", "close daq"]


def test_a_rig_has_power_inside_and_rests_whatever_happens_there(lab: Lab, rig: RigProfile) -> None:
    with open_station(rig, "lab") as station:
        lab.log.clear()
        with pytest.raises(LimitError), station.powered():
            station.stage.start_move(-1.0, 2.0)
        assert lab.log == ["enable True", "clear faults", "arm 0 55", "stop", "enable False"]
        assert station.resting
        with station.powered():
            station.make_safe("tried")
        assert station.latched == "tried", "what was made safe stays so until a person makes it ready"
        with station.powered():
            assert station.resting


def test_a_rig_that_is_not_seen_to_rest_is_not_used_again(
    lab: Lab, rig: RigProfile, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_station(rig, "lab") as station:
        station.make_ready()
        monkeypatch.setattr(Interlock, "drop", _stuck)
        with pytest.raises(SafetyAbort, match=r"could not be brought to rest.*still reads high") as failed:
            station.rest()
        assert failed.value.reason == "safe_state_failed"
        assert station.latched == "rest_failed"
        monkeypatch.undo()


def _stuck(interlock: Interlock) -> None:
    raise InstrumentError("the enable line still reads high")


def test_an_axis_that_is_not_homed_is_homed_once_it_is_enabled(lab: Lab, rig: RigProfile) -> None:
    lab.homed = False
    with open_station(rig, "lab"):
        assert lab.log[4:7] == ["enable True", "home", "arm 0 55"]


@pytest.mark.parametrize("answer", [True, InstrumentError("the stage does not answer")])
def test_an_axis_that_moves_while_nobody_watches_is_stopped(
    lab: Lab, rig: RigProfile, monkeypatch: pytest.MonkeyPatch, answer: bool | InstrumentError
) -> None:
    def is_moving(stage: Instrument) -> bool:
        if isinstance(answer, InstrumentError):
            raise answer
        return answer

    with open_station(rig, "lab") as station:
        assert not stop_unwatched(station)
        assert not station.stage.latched
        station.make_ready()
        monkeypatch.setattr(Instrument, "is_moving", is_moving)
        assert stop_unwatched(station)
        assert lab.log[-2:] == ["stop", "enable False"]
        assert station.stage.latched == "unwatched_motion"
        assert not stop_unwatched(station), "once is enough"


def test_a_failing_first_instrument_leaves_nothing_open(lab: Lab, rig: RigProfile) -> None:
    lab.failing = "daq"
    with pytest.raises(InstrumentDisconnected, match="the daq does not answer"):
        open_station(rig, "lab")
    assert lab.log == []


def test_a_failing_second_instrument_closes_the_first(lab: Lab, rig: RigProfile) -> None:
    lab.failing = "stage"
    with pytest.raises(InstrumentDisconnected, match="the stage does not answer"):
        open_station(rig, "lab")
    assert lab.log == ["open daq", "close daq"]


def test_a_station_that_cannot_be_made_ready_is_closed(
    lab: Lab, rig: RigProfile, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.getsignal(signal.SIGTERM)

    def pressed(self: Interlock) -> bool:
        return False

    monkeypatch.setattr(Interlock, "healthy", pressed)
    with pytest.raises(SafetyAbort, match="e-stop is pressed"):
        open_station(rig, "lab")
    assert "enable True" not in lab.log
    assert lab.log[-4:] == ["close enable", "close estop", "close stage", "close daq"]
    assert signal.getsignal(signal.SIGTERM) == before


def test_one_that_fails_to_close_does_not_keep_the_others_open(
    lab: Lab, rig: RigProfile, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Instrument.close

    def close(self: Instrument) -> None:
        real(self)
        if self.name == "stage":
            raise DaqDeviceError("the port cannot be closed", where="stage")

    monkeypatch.setattr(Instrument, "close", close)
    opened = open_station(rig, "lab")
    with pytest.raises(DaqDeviceError, match="cannot be closed"):
        opened.close()
    assert lab.log[-2:] == ["close stage", "close daq"]
    opened.close()  # once more does nothing
    assert lab.log.count("close daq") == 1


# -- whose it is


def test_an_open_station_holds_its_devices_and_gives_them_back(lab: Lab, rig: RigProfile) -> None:
    with open_station(rig, "lab"):
        assert [holder.key for holder in LeaseBook().holders()] == ["daq-01F2A3B4", "stage-57012"]
        before = list(lab.log)
        with pytest.raises(LeaseError, match="daq-01F2A3B4 is held by this process itself"):
            open_station(rig, "lab")
        assert lab.log == [*before, "open daq", "close daq"], "nothing of the rig was touched"
    assert LeaseBook().holders() == []


def test_a_station_that_was_taken_for_dead_drives_nothing_any_more(
    lab: Lab, rig: RigProfile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rig_leases, "RENEWAL_S", 0.01)
    book = LeaseBook()
    with open_station(rig, "lab") as station:
        path = book.path("daq-01F2A3B4")
        path.write_text(path.read_text(encoding="utf-8").replace('"id": "', '"id": "somebody else'), encoding="utf-8")
        deadline = time.monotonic() + 30.0
        while not station.latched:
            assert time.monotonic() < deadline, "nobody noticed"
            time.sleep(0.01)
        assert station.latched == "lease_lost"
        with pytest.raises(LeaseError, match="the lease on daq-01F2A3B4 was lost"):
            station.make_ready()
    assert [holder.key for holder in book.holders()] == ["daq-01F2A3B4"], "it is not ours to give back"


def test_a_rig_that_cannot_be_made_safe_is_refused_from_then_on(
    lab: Lab, rig: RigProfile, monkeypatch: pytest.MonkeyPatch
) -> None:
    station = open_station(rig, "lab")
    station.make_ready()
    monkeypatch.setattr(Instrument, "read", lambda instrument: True)  # the enable line too
    with pytest.raises(SafetyAbort, match="could not be made safe while closing"):
        station.close()
    assert lab.log[-2:] == ["close stage", "close daq"], "what can be closed is closed"
    lab.log.clear()
    with pytest.raises(QuarantineError, match="still reads high"):
        open_station(rig, "lab")
    assert lab.log == []
    other = changed(rig, 'name = "indenter"', 'name = "indenter_3"')
    with pytest.raises(QuarantineError, match="the rig indenter, which shares the device 01F2A3B4 with it"):
        open_station(other, "lab")
    assert lab.log == ["open daq", "close daq"]


# -- what is checked


def test_an_expired_certificate_is_refused_before_anything_is_opened(lab: Lab, rig: RigProfile) -> None:
    with pytest.raises(CalibrationError) as refused:
        open_station(rig, "lab", today=date(2036, 1, 8))
    for words in ("force_sensor: certificate SYN-FT-0001 was due on 2036-01-07", "encoder: certificate SYN-EN-0001"):
        assert words in str(refused.value)
    assert lab.log == []
    open_station(rig, "lab", today=date(2036, 1, 7)).close()
    open_station(rig, "lab", today=date(2036, 1, 8), allow_expired=True).close()


@pytest.mark.parametrize(("name", "attribute"), [("stage", "stage_serial"), ("daq", "daq_serial")])
def test_another_instrument_than_the_profile_names_is_refused(
    lab: Lab, rig: RigProfile, name: str, attribute: str
) -> None:
    setattr(lab, attribute, "99999")
    with pytest.raises(InstrumentError, match=f"the {name} reads back the serial number 99999"):
        open_station(rig, "lab")
    assert "enable True" not in lab.log
    assert lab.log[-1] == "close daq"


def test_the_calibration_file_of_another_sensor_is_refused(lab: Lab, rig: RigProfile) -> None:
    with pytest.raises(CalibrationError, match="the calibration is that of FT90001, the profile says FT11111"):
        open_station(changed(rig, 'serial_number = "FT90001"\npressing', 'serial_number = "FT11111"\npressing'), "lab")


def test_the_certificate_of_another_sensor_is_refused(lab: Lab, rig: RigProfile) -> None:
    other = changed(rig, 'serial_number = "FT90001"\nissued', 'serial_number = "FT22222"\nissued')
    with pytest.raises(CalibrationError, match="certificate SYN-FT-0001 is for the force_sensor FT22222"):
        open_station(other, "lab")


def test_a_missing_calibration_file_is_named(lab: Lab, rig: RigProfile) -> None:
    with pytest.raises(CalibrationError, match=r"ft90002\.cal"):
        open_station(changed(rig, "ft90001.cal", "ft90002.cal"), "lab")
    assert lab.log[-1] == "close daq"


# -- without hardware


def test_the_lab_without_a_serial_port_says_so(
    lab: Lab, rig: RigProfile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(station_indenter, "open_stage", station_drivers.open_stage)
    absent = tmp_path / "ttyUSB7"
    with pytest.raises(InstrumentError) as refused:
        open_station(changed(rig, "/dev/ttyUSB0", str(absent)), "lab")
    assert "ttyUSB7" in str(refused.value)
    assert refused.value.remedy


def test_the_lab_without_a_daq_driver_says_so(lab: Lab, rig: RigProfile, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("nidaqmx")
    monkeypatch.setattr(station_indenter, "open_daq", station_drivers.open_daq)
    try:
        open_station(rig, "lab").close()
    except DaqDeviceError as refused:
        told = str(refused)
    else:
        pytest.skip("this machine has an NI-DAQmx driver and a device Dev1")
    assert "Dev1" in told
    assert lab.log == []


def test_the_lab_with_a_dead_device_server_says_so(lab: Lab, rig: RigProfile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(station_indenter, "open_daq", station_drivers.open_daq)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    remote = changed(rig, 'device = "Dev1"', f'device = "Dev1"\nserver = "127.0.0.1:{port}"')
    with pytest.raises(InstrumentDisconnected, match="device server does not answer"):
        open_station(remote, "lab")
    assert lab.log == []


# -- the mock backend's own questions


def test_the_mock_backend_needs_a_truth(rig: RigProfile, repository: Path) -> None:
    with pytest.raises(ProfileError, match="needs a twin profile"):
        open_station(rig, "mock")
    other = load_twin(repository / "profiles/twins/indenter_load_cell.toml")
    with pytest.raises(ProfileError, match='is one of the rig "indenter_load_cell", not of "indenter"'):
        open_station(rig, "mock", twin=other)


def test_the_mock_backend_needs_the_truth_of_the_specimen(rig: RigProfile, repository: Path, tmp_path: Path) -> None:
    text = (repository / "profiles/specimens/liver_phantom_a.toml").read_text(encoding="utf-8")
    unknown = tmp_path / "sponge.toml"
    unknown.write_text(text.replace("liver_phantom_a", "sponge"), encoding="utf-8")
    with pytest.raises(ProfileError, match='knows no specimen "sponge"'):
        open_station(
            rig,
            "mock",
            twin=load_twin(repository / "profiles/twins/indenter.toml"),
            specimen=load_specimen(unknown),
        )


def test_an_unknown_backend_is_named(rig: RigProfile) -> None:
    with pytest.raises(ProfileError, match='no backend "replay"'):
        open_station(rig, "replay")  # type: ignore[arg-type]


# -- on the twin


@pytest.fixture(scope="module")
def opened(open_rig: OpenRig) -> Iterator[IndenterStation]:
    with open_rig("liver_phantom_a", seed=3) as station:
        yield station


def test_the_twin_is_opened_homed_and_at_rest(opened: IndenterStation) -> None:
    assert opened.simulated
    assert opened.seed == 3
    assert opened.stage.is_homed()
    assert opened.resting
    assert opened.twin is not None
    assert opened.twin.control.report()["enable"] is False
    assert {name: identity.serial_number for name, identity in opened.identities.items()} == {
        "stage": "57012",
        "daq": "01F2A3B4",
        "force_sensor": "FT90001",
    }


def test_nothing_a_procedure_can_reach_moves_around_the_gate(
    opened: IndenterStation, reachable: Callable[[object], list[tuple[str, object]]]
) -> None:
    found = reachable(opened)
    assert any(item is opened.stage for _, item in found)
    assert len(found) > 20
    for path, item in found:
        if isinstance(item, (GatedStage, Path)):
            continue
        assert not isinstance(item, LinearStage), f"{path} hands out a stage that is not gated"
        movers = [name for name in MOVING if callable(getattr(item, name, None))]
        assert movers == [], f"{path} can move the axis by {', '.join(movers)}"


def test_a_command_beyond_the_limits_never_reaches_the_wire(opened: IndenterStation) -> None:
    assert opened.twin is not None
    before = len(opened.twin.control.log())
    for position, speed in ((56.0, 2.0), (-0.1, 2.0), (10.0, 16.0)):
        with pytest.raises(LimitError):
            opened.stage.start_move(position, speed)
    assert len(opened.twin.control.log()) == before, "the twin saw something on its wires"
    opened.make_ready()
    opened.stage.start_move(1.0, 2.0)
    assert len(opened.twin.control.log()) > before
    opened.stage.wait_idle(5.0)


def test_nobody_gets_the_enable_line(opened: IndenterStation) -> None:
    with pytest.raises(LimitError, match="belongs to the interlock"):
        opened.daq.digital_output("Dev1/port0/line1")


def test_a_station_made_safe_can_be_made_ready_again(opened: IndenterStation) -> None:
    assert opened.twin is not None
    report = opened.make_safe("tried")
    assert report.safe, str(report)
    assert not opened.twin.control.report()["enable"]
    with pytest.raises(LimitError, match="tried"):
        opened.stage.start_move(1.0, 2.0)
    opened.make_ready()
    opened.stage.start_move(1.0, 2.0)
    opened.stage.wait_idle(5.0)
    assert opened.stage.position_mm() == pytest.approx(1.0, abs=1e-3)


def test_the_twin_ends_with_the_station_also_when_opening_fails(
    open_rig: OpenRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes: list[Any] = []
    from bench import station_mock

    real = station_mock.start_twin

    def start(*arguments: Any, **options: Any) -> Any:
        processes.append(real(*arguments, **options))
        return processes[-1]

    def no_daq(rig: RigProfile, addresses: Addresses) -> Any:
        raise BenchError("no DAQ today")

    monkeypatch.setattr(station_mock, "start_twin", start)
    monkeypatch.setattr(station_indenter, "open_daq", no_daq)
    with pytest.raises(BenchError, match="no DAQ today"):
        open_rig("liver_phantom_a", seed=3)
    assert not processes[0].running
