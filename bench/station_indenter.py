"""The station of an indenter: a stage behind the limits gate, a force sensor, a linear encoder."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bench.clock import Clock
from bench.errors import InstrumentError
from bench.instruments.protocols import Acquisition, BridgeInput, Daq, ForceSensor, LinearEncoder, LinearStage
from bench.profile import IndenterRig
from bench.safety import GatedStage, Interlock, MotionLimits
from bench.safety.custody import Custody
from bench.safety.watchdog import FedClock, Unwatched
from bench.station_base import Backend, Station
from bench.station_checks import check_identities
from bench.station_drivers import Addresses, open_daq, open_force_sensor, open_stage
from bench.station_takeover import look_at_indenter

if TYPE_CHECKING:
    from bench.twin.process import AttachedTwin, TwinProcess


class IndenterStation(Station):
    """The opened instruments of an indenter; see :class:`~bench.station_base.Station` for what every station has.

    Attributes
    ----------
    stage : GatedStage
        The axis, behind the limits gate; there is no other handle on it.
    force_sensor : ForceSensor
    """

    rig: IndenterRig

    def __init__(
        self,
        rig: IndenterRig,
        backend: Backend,
        *,
        stage: LinearStage,
        daq: Daq,
        force_sensor: ForceSensor,
        interlock: Interlock,
        clock: Clock,
        seed: int | None = None,
        twin: TwinProcess | AttachedTwin | None = None,
        details: Mapping[str, object] | None = None,
        custody: Custody | None = None,
        watchdog: Unwatched | None = None,
    ) -> None:
        self.rig = rig
        self.force_sensor = force_sensor
        limits = MotionLimits(
            rig.safety.travel_limit_min.to("mm"),
            rig.safety.travel_limit_max.to("mm"),
            rig.safety.speed_limit.to("mm/s"),
        )
        self.stage = GatedStage(stage, interlock, limits)
        super().__init__(
            rig,
            backend,
            daq=daq,
            interlock=interlock,
            clock=clock,
            enable_line=rig.safety.enable_line,
            identities={
                "stage": stage.identify(),
                "daq": daq.identify(),
                "force_sensor": force_sensor.identify(),
            },
            seed=seed,
            twin=twin,
            details=details,
            custody=custody,
            watchdog=watchdog,
        )

    # -- what a recording needs to know

    @property
    def raw_names(self) -> tuple[str, ...]:
        """Names of the force sensor's raw channels."""
        stem = "bridge" if isinstance(self.force_sensor.channels[0], BridgeInput) else "gauge"
        return tuple(f"{stem}_{index}" for index in range(len(self.force_sensor.channels)))

    @property
    def raw_unit(self) -> str:
        return "mV/V" if isinstance(self.force_sensor.channels[0], BridgeInput) else "V"

    @property
    def raw_kind(self) -> str:
        return "bridge_ratio" if isinstance(self.force_sensor.channels[0], BridgeInput) else "voltage"

    @property
    def encoder_direction(self) -> int:
        """1, or -1 where the encoder counts down while the stage moves away from home."""
        return self.rig.encoder.direction

    def acquisition(self, *, initial_mm: float) -> Acquisition:
        """Set up force sensor and encoder on one sample clock; the encoder starts at ``initial_mm``."""
        self.watchdog.keep(self.watchdog.longest_s)  # tasks take the DAQ a while
        encoder = self.rig.encoder
        return self.daq.acquisition(
            self.force_sensor.channels,
            [
                LinearEncoder(
                    encoder.counter,
                    encoder.distance_per_pulse.to("mm"),
                    encoder.decoding,
                    initial_mm * encoder.direction,
                )
            ],
            self.sample_rate_hz,
            self.rig.daq.buffer.to("s"),
        )

    # -- safe and ready

    @property
    def actuator(self) -> GatedStage:
        return self.stage

    def _latched(self) -> str:
        return self.stage.latched

    def is_active(self) -> bool:
        return self.stage.is_moving()

    def make_ready(self, *, home: bool = True) -> None:
        """Let the rig move: enable it, home the axis, arm the rig's travel limits in the controller.

        Also the way back after :meth:`make_safe`, for a person who has found the cause: the axis is homed again, which
        draws the tool away from the specimen. After a :meth:`rest` it is homed only where the drive has lost its
        reference.

        Raises
        ------
        SafetyAbort
            ``"estop"`` when the e-stop is pressed.
        """
        lost = bool(self.stage.latched)
        self.check_custody()
        self.interlock.check()
        self.stage.unlatch()
        self._safe, self._encoder_doubted = None, False
        self.interlock.energise()
        # Homing also clears what the controller shows since it had no power.
        if home and (lost or not self.stage.is_homed() or (not self._rested and self._shows_fault())):
            self.stage.home()
        elif self._rested:
            self.stage.clear_faults()
        limits = self.stage.rig_limits
        self.stage.arm_travel_limits(limits.travel_min_mm, limits.travel_max_mm)

    def _shows_fault(self) -> bool:
        try:
            self.stage.is_moving()
        except InstrumentError:
            return True
        return False


def open_indenter(
    opened: ExitStack, rig: IndenterRig, addresses: Addresses, options: dict[str, Any]
) -> IndenterStation:
    """Open the instruments of ``rig``; ``opened`` closes them. ``options`` go to the station."""
    # What waits for a device is heard of by the watchdog while it does.
    fed = replace(addresses, clock=FedClock(addresses.clock, options["watchdog"]))
    # The DAQ first: who holds it holds the rig, and nobody else's stage is talked to.
    daq = open_daq(rig, addresses)
    opened.callback(daq.close)
    custody: Custody = options["custody"]
    custody.hold("daq", daq.identify())
    stage = open_stage(rig, fed)
    opened.callback(stage.close)
    custody.hold("stage", stage.identify())
    estop = daq.digital_input(rig.safety.estop_line)
    opened.callback(estop.close)
    enable = daq.digital_output(rig.safety.enable_line)
    opened.callback(enable.close)
    interlock = Interlock(estop, enable, healthy_level=rig.safety.estop_healthy == "high", guard=options["watchdog"])
    sensor = open_force_sensor(rig)
    custody.take_over(interlock, addresses.clock, look_at_indenter(rig, daq, sensor, stage))
    station = IndenterStation(
        rig,
        stage=stage,
        daq=daq,
        force_sensor=sensor,
        interlock=interlock,
        clock=addresses.clock,
        **options,
    )
    check_identities(rig, station.identities)
    return station
