"""The station of an arm: servos on one bus behind the gate, brakes, a wrist force/torque sensor on the DAQ."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bench.arm import arm_model, drivetrain, point, ratings
from bench.clock import Clock, sleep
from bench.errors import InstrumentError
from bench.instruments.ati_cal import AtiForceTorque
from bench.instruments.protocols import Acquisition, ArmDrives, Daq, DigitalOutput
from bench.models.rigid import ArmModel
from bench.profile import ArmRig, SpecimenProfile
from bench.safety import Interlock
from bench.safety.arm_gate import GatedArm
from bench.safety.custody import Custody
from bench.safety.limits import ArmLimits
from bench.safety.safe_state import WATCH_S
from bench.safety.watchdog import FedClock, Unwatched
from bench.station_base import Backend, Station, withdraw_power
from bench.station_checks import check_identities
from bench.station_drivers import Addresses, open_arm_drives, open_daq, open_wrist_sensor
from bench.station_takeover import look_at_arm, unrest

if TYPE_CHECKING:
    from bench.twin.process import AttachedTwin, TwinProcess

#: An arm whose joints turn faster than this is not at rest [rad/s].
REST_RAD_S = 0.02


def arm_limits(rig: ArmRig) -> ArmLimits:
    """Return what the gate holds an arm to: peak torque over its safety factor, and what the servos' currents make."""
    rated, drives, safety, room = ratings(rig.arm), drivetrain(rig.arm), rig.safety, rig.workspace
    reach = np.abs(np.linalg.inv(drives.to_joint)).T @ (
        drives.torque_constant * np.array([servo.max_current.to("A") for servo in rig.servos])
    )
    peak = np.where(np.isfinite(rated.peak_torque), rated.peak_torque / safety.safety_factor_peak, rated.rated_torque)
    torque = np.minimum(peak, reach)
    low, high = point(room.box_min), point(room.box_max)
    return ArmLimits(
        names=tuple(joint.name for joint in rig.arm.joints),
        torque_nm=tuple(torque.tolist()),
        speed_rad_s=tuple(rated.speed.tolist()),
        position_min_rad=tuple(rated.position_min.tolist()),
        position_max_rad=tuple(rated.position_max.tolist()),
        box_min_m=(float(low[0]), float(low[1]), float(low[2])),
        box_max_m=(float(high[0]), float(high[1]), float(high[2])),
        tip_speed_m_s=safety.tip_speed_limit.to("m/s"),
        force_n=safety.force_limit.to("N"),
        wrist_torque_nm=safety.torque_limit.to("N.m"),
        temperature_degc=safety.temperature_limit.to("degC"),
    )


class ArmStation(Station):
    """The opened instruments of an arm rig; see :class:`~bench.station_base.Station` for what all have.

    Attributes
    ----------
    arm : GatedArm
        Motors and brakes, behind the gate; there is no other handle on them.
    force_sensor : AtiForceTorque
    """

    rig: ArmRig

    def __init__(
        self,
        rig: ArmRig,
        backend: Backend,
        *,
        drives: ArmDrives,
        daq: Daq,
        interlock: Interlock,
        brake: DigitalOutput,
        force_sensor: AtiForceTorque,
        clock: Clock,
        seed: int | None = None,
        twin: TwinProcess | AttachedTwin | None = None,
        details: Mapping[str, object] | None = None,
        custody: Custody | None = None,
        watchdog: Unwatched | None = None,
    ) -> None:
        self.rig = rig
        self.arm = GatedArm(
            drives,
            interlock,
            brake,
            arm_limits(rig),
            drivetrain(rig.arm),
            zero_rad=zero_angles(rig),
            clock=FedClock(clock, watchdog if watchdog is not None else Unwatched()),
            brake_time_s=rig.safety.brake_time.to("s"),
        )
        self.force_sensor = force_sensor
        servos = {f"servo_{k}": identity for k, identity in enumerate(drives.identify(), 1)}
        super().__init__(
            rig,
            backend,
            daq=daq,
            interlock=interlock,
            clock=clock,
            enable_line=rig.safety.enable_line,
            further_lines=(rig.safety.brake_line,),
            identities={**servos, "daq": daq.identify(), "force_sensor": force_sensor.identify()},
            seed=seed,
            twin=twin,
            details=details,
            custody=custody,
            watchdog=watchdog,
        )
        self._acquisition: Acquisition | None = None
        self.mount(None)

    # -- what a recording needs to know

    @property
    def model(self) -> ArmModel:
        """Nominal dynamics with the tool and what :meth:`mount` said."""
        return self._model

    def mount(self, specimen: SpecimenProfile | None) -> None:
        """Take ``specimen`` for what is fixed to the tool, or nothing: its weight is held when the arm is stopped."""
        self._model = arm_model(self.rig, specimen)
        self.arm.carry(arm_model(self.rig, specimen))

    def acquisition(self) -> Acquisition:
        """Set up the wrist sensor's gauges on one sample clock."""
        self.watchdog.keep(self.watchdog.longest_s)  # tasks take the DAQ a while
        self._acquisition = self.daq.acquisition(
            list(self.force_sensor.channels), [], self.sample_rate_hz, self.rig.daq.buffer.to("s")
        )
        return self._acquisition

    # -- safe and ready

    @property
    def actuator(self) -> GatedArm:
        return self.arm

    def _latched(self) -> str:
        return self.arm.latched

    def is_active(self) -> bool:
        if self.arm.brakes_open:
            return True
        return not all(abs(v) <= REST_RAD_S for v in self.arm.reading().velocity_rad_s)

    def further_witnesses(self) -> Sequence[Callable[[], float]]:
        return (self._watch_wrist,)

    def _watch_wrist(self) -> float:
        """Return by how much the wrist sensor's force changes [N]; for when nothing is being recorded."""
        if self._acquisition is not None:
            self._acquisition.close()  # one that somebody left open keeps the gauges from us
        acquisition = self.acquisition()
        try:
            acquisition.start()
            block = acquisition.read(max(2, round(WATCH_S * self.sample_rate_hz)), timeout_s=WATCH_S + 2.0)
        finally:
            acquisition.close()
        return self.unrest(block.analog)

    def unrest(self, gauges: NDArray[np.float64]) -> float:
        """Return by how much the force changes over a stretch of gauge voltages (k, 6) [N], short ringing averaged."""
        forces, _ = self.force_sensor.convert(gauges)
        return unrest(forces, self.sample_rate_hz)

    def make_ready(self, *, home: bool = True) -> None:
        """Let the arm be driven: power the servos, clear them, arm their watchdog. The brakes stay closed.

        ``home`` has no meaning for an arm: its encoders are absolute.

        Raises
        ------
        SafetyAbort
            ``"estop"`` when the e-stop is pressed; a servo is too hot.
        InstrumentError
            The servos do not come up, or an arm with closed brakes turns.
        """
        self.check_custody()
        self.interlock.check()
        self.arm.close_brakes()
        self.arm.unlatch()
        self._safe, self._encoder_doubted = None, False
        self.interlock.energise()
        sleep(self.fed_clock, self.rig.safety.brake_time.to("s"))
        self.arm.clear_faults()
        self.arm.arm_watchdog(self.rig.bus.watchdog.to("s"))
        self.arm.check_health()
        reading = self.arm.reading()
        for name, q, v in zip(self.arm.limits.names, reading.position_rad, reading.velocity_rad_s, strict=True):
            if not math.isfinite(q) or not abs(v) <= REST_RAD_S:
                raise InstrumentError(
                    f"joint {name} is at {q} rad and turns at {v} rad/s although its brake is closed",
                    where=f"rig {self.rig.name}",
                    remedy="Check the brake and its line, and the servo",
                )


def zero_angles(rig: ArmRig) -> list[float]:
    """Return where each servo's shaft stands at the profile's zero [rad]."""
    from bench.instruments.dynamixel_models import MODELS

    return [servo.zero_count * MODELS[servo.model].radians_per_count for servo in rig.servos]


def open_arm(opened: ExitStack, rig: ArmRig, addresses: Addresses, options: dict[str, Any]) -> ArmStation:
    """Open the instruments of ``rig``; ``opened`` closes them. ``options`` go to the station."""
    # What waits for a device is heard of by the watchdog while it does.
    fed = replace(addresses, clock=FedClock(addresses.clock, options["watchdog"]))
    daq = open_daq(rig, addresses)
    opened.callback(daq.close)
    custody: Custody = options["custody"]
    custody.hold("daq", daq.identify())
    estop = daq.digital_input(rig.safety.estop_line)
    opened.callback(estop.close)
    brake = daq.digital_output(rig.safety.brake_line)
    opened.callback(brake.close)
    brake.write(False)
    enable = daq.digital_output(rig.safety.enable_line)
    opened.callback(enable.close)
    interlock = Interlock(estop, enable, healthy_level=rig.safety.estop_healthy == "high", guard=options["watchdog"])
    sensor = open_wrist_sensor(rig)
    custody.take_over(interlock, addresses.clock, look_at_arm(rig, daq, sensor))
    arm_model(rig, None)  # an arm that no model can be made of gets no power, nor does one while libraries are loaded
    # The enable line feeds the servos: without it there is nobody to ask who he is. The brakes stay closed.
    opened.callback(withdraw_power, interlock, custody)
    interlock.energise()
    sleep(fed.clock, rig.safety.brake_time.to("s"))
    drives = open_arm_drives(rig, fed)
    opened.callback(drives.close)
    station = ArmStation(
        rig,
        drives=drives,
        daq=daq,
        interlock=interlock,
        brake=brake,
        force_sensor=sensor,
        clock=addresses.clock,
        **options,
    )
    check_identities(rig, station.identities)
    return station
