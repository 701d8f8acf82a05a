"""The station of a single joint: a drive behind the torque gate, a torque transducer, an encoder on the output."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bench.clock import Clock, sleep
from bench.errors import InstrumentError
from bench.instruments.protocols import (
    Acquisition,
    AngularEncoder,
    Daq,
    DriveState,
    Identity,
    JointDrive,
    VoltageInput,
)
from bench.profile import JointRig
from bench.safety import GatedDrive, Interlock, JointLimits
from bench.safety.custody import Custody
from bench.safety.joint_gate import QUIET_MODES
from bench.safety.safe_state import WATCH_S
from bench.safety.watchdog import FedClock, Unwatched
from bench.station_base import Backend, Station, withdraw_power
from bench.station_checks import check_identities
from bench.station_drivers import Addresses, open_daq, open_drive
from bench.station_takeover import look_at_joint

if TYPE_CHECKING:
    from bench.twin.process import AttachedTwin, TwinProcess

#: A transducer reading closer to the end of the input's range than this share of it counts as saturated.
SATURATED_SHARE = 0.995
#: A joint that turns faster than this is not at rest [rad/s].
REST_RAD_S = 0.02


class JointStation(Station):
    """The opened instruments of a single-joint rig; see :class:`~bench.station_base.Station` for what all have.

    Attributes
    ----------
    drive : GatedDrive
        The drive, behind the torque gate; there is no other handle on it.
    """

    rig: JointRig

    def __init__(
        self,
        rig: JointRig,
        backend: Backend,
        *,
        drive: JointDrive,
        daq: Daq,
        interlock: Interlock,
        clock: Clock,
        seed: int | None = None,
        twin: TwinProcess | AttachedTwin | None = None,
        details: Mapping[str, object] | None = None,
        custody: Custody | None = None,
        watchdog: Unwatched | None = None,
    ) -> None:
        self.rig = rig
        safety = rig.safety
        limits = JointLimits(
            torque_nm=min(safety.torque_limit.to("N.m"), rig.drive.max_motor_torque.to("N.m") * rig.drive.gear_ratio),
            speed_rad_s=safety.speed_limit.to("rad/s"),
            travel_min_rad=safety.travel_limit_min.to("rad"),
            travel_max_rad=safety.travel_limit_max.to("rad"),
            temperature_degc=safety.temperature_limit.to("degC"),
        )
        self.drive = GatedDrive(
            drive, interlock, limits, gear_ratio=rig.drive.gear_ratio, direction=rig.drive.direction
        )
        transducer, encoder = rig.torque_transducer, rig.encoder
        identities = {
            "drive": drive.identify(),
            "daq": daq.identify(),
            # Passive: they cannot be asked, so the profile says which are mounted.
            "torque_transducer": Identity(
                "torque_transducer", "torque transducer", transducer.serial_number or "", address=transducer.channel
            ),
            "encoder": Identity("encoder", "joint encoder", encoder.serial_number or "", address=encoder.counter),
        }
        super().__init__(
            rig,
            backend,
            daq=daq,
            interlock=interlock,
            clock=clock,
            enable_line=safety.enable_line,
            identities=identities,
            seed=seed,
            twin=twin,
            details=details,
            custody=custody,
            watchdog=watchdog,
        )
        self._acquisition: Acquisition | None = None
        self._rest_rad = encoder.start_angle.to("rad")
        volts = transducer.voltage_range.to("V")
        self._saturated_v = SATURATED_SHARE * volts
        self._input = VoltageInput(transducer.channel, -volts, volts, transducer.terminal)
        self._nm_per_v = transducer.sign * transducer.sensitivity.to("N.m/V")

    # -- what a recording needs to know

    @property
    def rest_angle_rad(self) -> float:
        """Where the joint was last seen [rad]: ``encoder.start_angle`` at first. A recording keeps it up to date."""
        return self._rest_rad

    def saw_joint_at(self, angle_rad: float) -> None:
        """Note the joint's angle [rad], for when the drive has lost its supply and counts anew."""
        self._rest_rad = angle_rad

    def acquisition(self, *, initial_rad: float) -> Acquisition:
        """Set up transducer and joint encoder on one sample clock; the encoder starts at ``initial_rad``."""
        self.watchdog.keep(self.watchdog.longest_s)  # tasks take the DAQ a while
        encoder = self.rig.encoder
        counter = AngularEncoder(
            encoder.counter, encoder.pulses_per_revolution, encoder.decoding, initial_rad * encoder.direction
        )
        self._acquisition = self.daq.acquisition(
            [self._input], [counter], self.sample_rate_hz, self.rig.daq.buffer.to("s")
        )
        return self._acquisition

    def joint_torque(self, voltage: NDArray[np.float64], zero_v: float) -> NDArray[np.float64]:
        """Return the torque on the link [N.m] of transducer voltages [V], ``zero_v`` being the unloaded one."""
        return (voltage - zero_v) * self._nm_per_v

    def transducer_voltage(self, torque_nm: float) -> float:
        """Return what a torque on the link [N.m] adds to the transducer's voltage [V]."""
        return torque_nm / self._nm_per_v

    def saturated(self, voltage: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return true where a transducer voltage touches the end of the input's range."""
        return ~(np.abs(voltage) < self._saturated_v)

    # -- safe and ready

    @property
    def actuator(self) -> GatedDrive:
        return self.drive

    def _latched(self) -> str:
        return self.drive.latched

    def is_active(self) -> bool:
        state = self.drive.state()
        speed = abs(state.rotor_velocity_rad_s) / self.drive.gear_ratio
        return state.mode not in QUIET_MODES or not speed <= REST_RAD_S

    def further_witnesses(self) -> Sequence[Callable[[], float]]:
        return (self._watch_encoder,)

    def _watch_encoder(self) -> float:
        """Return how far the joint encoder turns in :data:`WATCH_S` [rad]; for when nothing is being recorded."""
        if self._acquisition is not None:
            self._acquisition.close()  # one that somebody left open keeps the encoder from us
        acquisition = self.acquisition(initial_rad=0.0)
        try:
            acquisition.start()
            block = acquisition.read(max(2, round(WATCH_S * self.sample_rate_hz)), timeout_s=WATCH_S + 2.0)
        finally:
            acquisition.close()
        return float(np.ptp(block.encoders[:, 0]))

    def make_ready(self, *, home: bool = True) -> None:
        """Let the joint be driven: enable it, wait for the brake to open, clear the drive, arm its watchdog.

        The joint counts as being where it was last seen: at ``encoder.start_angle`` when the station is opened, at its
        last recorded angle after :meth:`make_safe`, since the brake holds it. ``home`` has no meaning for a joint.

        Raises
        ------
        SafetyAbort
            ``"estop"`` when the e-stop is pressed.
        InstrumentError
            The drive does not come up, or turns although it is told nothing.
        """
        self.check_custody()
        self.interlock.check()
        self.drive.unlatch()
        self._safe, self._encoder_doubted = None, False
        self.interlock.energise()
        sleep(self.fed_clock, self.rig.safety.brake_time.to("s"))
        state = self.drive.clear_fault()
        self.drive.arm_watchdog(self.rig.drive.watchdog.to("s"))
        self._check_drive(state)
        self.drive.refer(state, self._rest_rad)

    def _check_drive(self, state: DriveState) -> None:
        where = f"rig {self.rig.name}, drive"
        limit = self.rig.safety.temperature_limit.to("degC")
        if state.mode not in QUIET_MODES or state.fault:
            raise InstrumentError(
                f"after it was cleared the drive is in mode {state.mode} with fault {state.fault}",
                where=where,
                remedy="Look up the fault, put its cause right and open the station anew",
            )
        if not state.temperature_degc < limit or state.motor_temperature_degc >= limit:
            raise InstrumentError(
                f"the drive is at {state.temperature_degc:g} degC and its motor at {state.motor_temperature_degc:g} "
                f"degC, limit {limit:g} degC",
                where=where,
                remedy="Let it cool down before the station is opened",
            )
        if not math.isfinite(state.rotor_angle_rad):
            raise InstrumentError(
                "the drive reports no rotor angle", where=where, remedy="Check the drive's encoder and configuration"
            )


def _see_drive_stopped(custody: Custody, drive: JointDrive) -> None:
    """Take a drive over that somebody left behind who did not hold the DAQ: it must say that it is off."""
    if custody.left_by is not None:
        state = drive.state()
        if state.mode not in QUIET_MODES:
            raise custody.not_safe(f"the drive is in mode {state.mode}")
        custody.confirm(f"the drive is in mode {state.mode}, which makes no torque")


def open_joint(opened: ExitStack, rig: JointRig, addresses: Addresses, options: dict[str, Any]) -> JointStation:
    """Open the instruments of ``rig``; ``opened`` closes them. ``options`` go to the station."""
    # What waits for a device is heard of by the watchdog while it does.
    fed = replace(addresses, clock=FedClock(addresses.clock, options["watchdog"]))
    daq = open_daq(rig, addresses)
    opened.callback(daq.close)
    custody: Custody = options["custody"]
    custody.hold("daq", daq.identify())
    estop = daq.digital_input(rig.safety.estop_line)
    opened.callback(estop.close)
    enable = daq.digital_output(rig.safety.enable_line)
    opened.callback(enable.close)
    interlock = Interlock(estop, enable, healthy_level=rig.safety.estop_healthy == "high", guard=options["watchdog"])
    custody.take_over(interlock, addresses.clock, look_at_joint(rig, daq))
    # The enable line feeds the drive: without it there is nobody to ask who he is. No torque comes of that yet.
    opened.callback(withdraw_power, interlock, custody)
    interlock.energise()
    sleep(fed.clock, rig.safety.brake_time.to("s"))
    drive = open_drive(rig, fed)
    opened.callback(drive.close)
    custody.hold("drive", drive.identify())
    _see_drive_stopped(custody, drive)
    station = JointStation(rig, drive=drive, daq=daq, interlock=interlock, clock=addresses.clock, **options)
    check_identities(rig, station.identities)
    return station
