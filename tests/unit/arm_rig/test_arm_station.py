"""Opening the station of an arm: what is checked, in which order, and what is closed when it fails."""

from __future__ import annotations

import os
import signal
from datetime import date
from typing import Any

import pytest

from bench import station_arm
from bench.errors import CalibrationError, InstrumentDisconnected, InstrumentError, SafetyAbort
from bench.instruments.protocols import Identity
from bench.profile import ArmRig, parse_profile
from bench.safety.watchdog import Unwatched
from bench.station import open_station
from bench.station_arm import ArmStation
from bench.station_drivers import Addresses


@pytest.fixture
def lab(bench: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The fake arm instead of the drivers, as nobody has opened it yet."""
    bench.arm.enable = False
    bench.arm.log.clear()

    def open_drives(rig: ArmRig, addresses: Addresses) -> Any:
        assert addresses.serial == {"arm": "/dev/ttyUSB0"}
        if not bench.arm.powered:
            raise InstrumentDisconnected("servos without supply do not answer", where="bus")
        bench.arm.log.append("open drives")
        return bench.arm

    monkeypatch.setattr(station_arm, "open_arm_drives", open_drives)
    monkeypatch.setattr(station_arm, "open_daq", lambda rig, addresses: bench.daq)
    monkeypatch.setattr("bench.station.watch", lambda *_, **__: Unwatched())  # nothing here can be watched
    monkeypatch.setattr("bench.station.WallClock", lambda: bench.arm)
    return bench


def changed(rig: ArmRig, old: str, new: str) -> ArmRig:
    assert old in rig.source.text
    profile, problems = parse_profile(rig.source.text.replace(old, new), rig.source.path)
    assert problems == []
    assert isinstance(profile, ArmRig)
    return profile


def test_the_servos_have_their_supply_before_they_are_asked_and_the_brakes_stay_closed(lab: Any) -> None:
    with open_station(lab.rig, "lab") as station:
        assert isinstance(station, ArmStation)
        assert lab.arm.log[:3] == ["brake False", "enable True", "open drives"]
        assert "brake True" not in lab.arm.log
        assert not lab.arm.powered, "between two runs they have no power"
        station.make_ready()
        lab.arm.log.clear()
    assert lab.arm.log.index("brake False") < lab.arm.log.index("enable False") < lab.arm.log.index("drives closed")
    assert not lab.arm.powered


def test_a_pressed_estop_keeps_the_supply_off(lab: Any) -> None:
    lab.arm.estop = False
    with pytest.raises(SafetyAbort, match="e-stop is pressed"):
        open_station(lab.rig, "lab")
    assert "enable True" not in lab.arm.log


def test_servos_that_are_not_there_leave_no_supply(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(rig: ArmRig, addresses: Addresses) -> Any:
        raise InstrumentError("servo id 13 (joint 3) does not answer", where="bus")

    monkeypatch.setattr(station_arm, "open_arm_drives", nobody)
    with pytest.raises(InstrumentError, match=r"servo id 13 \(joint 3\)"):
        open_station(lab.rig, "lab")
    assert lab.arm.log == ["brake False", "enable True", "enable False"]


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_while_the_servos_are_asked_leaves_no_supply(
    lab: Any, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    effects: list[list[str]] = []

    def asked() -> tuple[Identity, ...]:
        os.kill(os.getpid(), number)
        raise AssertionError("the signal did not interrupt the opening")

    monkeypatch.setattr(lab.arm, "identify", asked)
    before = signal.signal(number, lambda *_: effects.append(list(lab.arm.log)))
    try:
        with pytest.raises(KeyboardInterrupt, match=f"{number.name} while the station was being opened"):
            open_station(lab.rig, "lab")
    finally:
        signal.signal(number, before)
    (when_it_had_its_effect,) = effects
    assert "enable False" in when_it_had_its_effect
    assert not lab.arm.powered


@pytest.mark.parametrize(
    ("old", "told"),
    [
        ('serial_number = "FT90002"\nissued', "for the force_sensor TT9999, but FT90002 is connected"),
        ('serial_number = "01F2A3B6"\nissued', "for the daq TT9999, but 01F2A3B6 is connected"),
        ('serial_number = "FT90002"\npressing_axis', "the calibration is that of FT90002, the profile says TT9999"),
    ],
)
def test_the_papers_of_another_instrument_are_refused(lab: Any, old: str, told: str) -> None:
    new = old.replace(old.split('"')[1], "TT9999")
    with pytest.raises(CalibrationError, match=told):
        open_station(changed(lab.rig, old, new), "lab")
    assert not lab.arm.powered


def test_an_expired_certificate_is_refused_before_anything_is_opened(lab: Any) -> None:
    with pytest.raises(CalibrationError, match="force_sensor: certificate SYN-FT-0003 was due on 2036-01-07"):
        open_station(lab.rig, "lab", today=date(2036, 1, 8))
    assert lab.arm.log == []
    open_station(lab.rig, "lab", today=date(2036, 1, 8), allow_expired=True).close()
