"""Opening the station of a joint: what is checked, in which order, and what is closed when it fails."""

from __future__ import annotations

import os
import signal
from datetime import date
from typing import Any

import pytest

from bench import station_joint
from bench.errors import CalibrationError, InstrumentDisconnected, InstrumentError, QuarantineError, SafetyAbort
from bench.instruments.protocols import Identity
from bench.profile import JointRig, parse_profile
from bench.safety.watchdog import Unwatched
from bench.station import JointStation, open_station
from bench.station_drivers import Addresses


@pytest.fixture
def lab(bench: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The fake joint instead of the drivers, as nobody has opened it yet."""
    bench.joint.powered = False
    bench.joint.log.clear()

    def open_drive(rig: JointRig, addresses: Addresses) -> Any:
        assert addresses.serial == {"drive": "/dev/ttyACM0"}
        if not bench.joint.powered:
            raise InstrumentDisconnected("a drive without supply does not answer", where="drive")
        bench.joint.log.append("open drive")
        return bench.joint

    monkeypatch.setattr(station_joint, "open_drive", open_drive)
    monkeypatch.setattr(station_joint, "open_daq", lambda rig, addresses: bench.daq)
    monkeypatch.setattr("bench.station.watch", lambda *_, **__: Unwatched())  # nothing here can be watched
    monkeypatch.setattr("bench.station.WallClock", lambda: bench.joint)
    return bench


def changed(rig: JointRig, old: str, new: str) -> JointRig:
    assert old in rig.source.text
    profile, problems = parse_profile(rig.source.text.replace(old, new), rig.source.path)
    assert problems == []
    assert isinstance(profile, JointRig)
    return profile


def test_the_drive_has_its_supply_before_it_is_asked_and_loses_it_before_it_is_closed(lab: Any) -> None:
    with open_station(lab.rig, "lab") as station:
        assert isinstance(station, JointStation)
        assert lab.joint.log[:2] == ["enable True", "open drive"]
        assert lab.joint.log.index("watchdog 0.1") < lab.joint.log.index("enable False")
        assert not lab.joint.powered, "between two runs it has no power"
        station.make_ready()
        lab.joint.log.clear()
    assert lab.joint.log.index("stop") < lab.joint.log.index("enable False") < lab.joint.log.index("drive closed")
    assert not lab.joint.powered


def test_a_pressed_estop_keeps_the_supply_off(lab: Any) -> None:
    lab.joint.estop = False
    with pytest.raises(SafetyAbort, match="e-stop is pressed"):
        open_station(lab.rig, "lab")
    assert "enable True" not in lab.joint.log


def test_a_drive_that_does_not_answer_leaves_no_supply(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(rig: JointRig, addresses: Addresses) -> Any:
        raise InstrumentDisconnected("cannot open the port", where="/dev/ttyACM0")

    monkeypatch.setattr(station_joint, "open_drive", nobody)
    with pytest.raises(InstrumentDisconnected, match="cannot open the port"):
        open_station(lab.rig, "lab")
    assert lab.joint.log == ["enable True", "enable False"]


def test_a_supply_that_cannot_be_taken_back_from_a_drive_that_does_not_answer_is_told_to_all(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(rig: JointRig, addresses: Addresses) -> Any:
        lab.joint.line_broken = True
        raise InstrumentDisconnected("cannot open the port", where="/dev/ttyACM0")

    monkeypatch.setattr(station_joint, "open_drive", nobody)
    with pytest.raises(SafetyAbort, match="could not be made safe while closing: the line does not answer") as stopped:
        open_station(lab.rig, "lab")
    assert stopped.value.reason == "safe_state_failed"
    with pytest.raises(QuarantineError, match=r"the rig single_joint is in quarantine .*not_closed"):
        open_station(lab.rig, "lab")


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_while_the_drive_is_asked_leaves_no_supply(
    lab: Any, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """The drive has its supply by then, and its brake is open; nothing may stay so when the program ends."""
    effects: list[list[str]] = []

    def asked() -> Identity:
        os.kill(os.getpid(), number)
        raise AssertionError("the signal did not interrupt the opening")

    monkeypatch.setattr(lab.joint, "identify", asked)
    before = signal.signal(number, lambda *_: effects.append(list(lab.joint.log)))
    try:
        with pytest.raises(KeyboardInterrupt, match=f"{number.name} while the station was being opened"):
            open_station(lab.rig, "lab")
    finally:
        signal.signal(number, before)
    (when_it_had_its_effect,) = effects
    assert "enable False" in when_it_had_its_effect
    assert not lab.joint.powered


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_the_handlers_of_signals_come_back_when_an_opened_station_is_closed(lab: Any) -> None:
    numbers = [signal.SIGTERM, signal.SIGHUP, signal.SIGINT]
    before = [signal.getsignal(number) for number in numbers]
    with open_station(lab.rig, "lab") as station:
        assert [signal.getsignal(number) for number in numbers] == [station.supervisor._on_signal] * 3
    assert [signal.getsignal(number) for number in numbers] == before


def test_another_drive_than_the_profile_names_is_refused(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab.joint, "identify", lambda: Identity("moteus", "fake", "00000000-00000000-00000001"))
    with pytest.raises(InstrumentError, match="the drive reads back the serial number 00000000"):
        open_station(lab.rig, "lab")
    assert not lab.joint.powered


@pytest.mark.parametrize(
    ("old", "told"),
    [
        ('serial_number = "TT2201"\nissued', "for the torque_transducer TT9999, but TT2201 is connected"),
        ('serial_number = "01F2A3B5"\nissued', "for the daq TT9999, but 01F2A3B5 is connected"),
    ],
)
def test_the_certificate_of_another_instrument_is_refused(lab: Any, old: str, told: str) -> None:
    with pytest.raises(CalibrationError, match=told):
        open_station(changed(lab.rig, old, 'serial_number = "TT9999"\nissued'), "lab")
    assert not lab.joint.powered


def test_an_expired_certificate_is_refused_before_anything_is_opened(lab: Any) -> None:
    with pytest.raises(CalibrationError, match="torque_transducer: certificate SYN-TT-0001 was due on 2036-01-07"):
        open_station(lab.rig, "lab", today=date(2036, 1, 8))
    assert lab.joint.log == []
    open_station(lab.rig, "lab", today=date(2036, 1, 8), allow_expired=True).close()
