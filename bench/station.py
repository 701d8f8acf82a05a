"""Open what a rig profile names, check it, and hand it out; close it all again, also when only half of it opened.

::

    with open_station(rig, "mock", twin=truth, specimen=specimen) as station:
        station.stage.start_move(10.0, 2.0)          # through the limits gate, as everything that moves

The simulated rig differs from a real one in three addresses: the stage's serial URL, the DAQ's channel and the clock.
The drivers are the same.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import date
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from bench.clock import Clock, WallClock
from bench.errors import BenchError, InstrumentError, ProfileError, SafetyAbort
from bench.instruments.protocols import (
    Acquisition,
    BridgeInput,
    Daq,
    ForceSensor,
    LinearEncoder,
    LinearStage,
)
from bench.profile import IndenterRig, SpecimenProfile, TwinProfile
from bench.safety import (
    GatedStage,
    GuardedDaq,
    Interlock,
    MotionLimits,
    SafeStateReport,
    Supervisor,
    enter_safe_state,
)
from bench.station_checks import check_certificates, check_identities
from bench.station_drivers import Addresses, open_daq, open_force_sensor, open_stage

if TYPE_CHECKING:
    from bench.twin.process import TwinProcess

Backend = Literal["mock", "lab"]
_log = logging.getLogger(__name__)


class Station:
    """The opened instruments of one rig; a context manager. Made by :func:`open_station`.

    Attributes
    ----------
    rig : IndenterRig
    backend : {"mock", "lab"}
    simulated : bool
    stage : GatedStage
        The axis, behind the limits gate; there is no other handle on it.
    daq : GuardedDaq
        The data acquisition, without the enable line.
    force_sensor : ForceSensor
    interlock : Interlock
    supervisor : Supervisor
    clock : Clock
    identities : dict of str to Identity
        What the instruments say they are, by ``stage``, ``daq``, ``force_sensor``.
    seed : int or None
        Of the simulation.
    twin : TwinProcess or None
        The simulated lab's process; tests ask it for the truth and for faults.
    details : dict
        What the archive should say of the station beside its instruments.
    """

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
        twin: TwinProcess | None = None,
        details: Mapping[str, object] | None = None,
    ) -> None:
        self.details = dict(details or {})
        self.rig = rig
        self.backend: Backend = backend
        self.simulated = backend == "mock"
        self.clock = clock
        self.seed = seed
        self.twin = twin
        self.force_sensor = force_sensor
        self.interlock = interlock
        limits = MotionLimits(
            rig.safety.travel_limit_min.to("mm"),
            rig.safety.travel_limit_max.to("mm"),
            rig.safety.speed_limit.to("mm/s"),
        )
        self.stage = GatedStage(stage, interlock, limits)
        self.daq = GuardedDaq(daq, reserved_lines=(rig.safety.enable_line,))
        self.identities = {
            "stage": stage.identify(),
            "daq": daq.identify(),
            "force_sensor": force_sensor.identify(),
        }
        self.supervisor = Supervisor(clock, make_safe=self.make_safe, last_resort=interlock.drop)
        self._safe: SafeStateReport | None = None
        self._closing = ExitStack()

    # -- what a recording needs to know

    @property
    def sample_rate_hz(self) -> float:
        """Sample rate of the hardware-clocked channels [Hz]."""
        return self.rig.daq.sample_rate.to("Hz")

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

    def make_safe(self, reason: str, witness: Callable[[], float] | None = None) -> SafeStateReport:
        """Bring the rig to its safe state; no signal interrupts that. See :func:`~bench.safety.enter_safe_state`."""
        with self.supervisor.shielded():
            report = enter_safe_state(self.stage, self.interlock, self.clock, reason=reason, witness=witness)
        self._safe = report
        (_log.info if report.safe else _log.error)("safe state (%s): %s", reason, report)
        return report

    def make_ready(self, *, home: bool = True) -> None:
        """Let the rig move: enable it, home the axis, arm the rig's travel limits in the controller.

        Also the way back after :meth:`make_safe`, for a person who has found the cause: the axis is homed again, which
        draws the tool away from the specimen.

        Raises
        ------
        SafetyAbort
            ``"estop"`` when the e-stop is pressed.
        """
        lost = bool(self.stage.latched)
        self.interlock.check()
        self.stage.unlatch()
        self._safe = None
        self.interlock.energise()
        # Homing also clears what the controller shows since it had no power.
        if home and (lost or not self.stage.is_homed() or self._shows_fault()):
            self.stage.home()
        limits = self.stage.rig_limits
        self.stage.arm_travel_limits(limits.travel_min_mm, limits.travel_max_mm)

    def _shows_fault(self) -> bool:
        try:
            self.stage.is_moving()
        except InstrumentError:
            return True
        return False

    # -- closing

    def close(self) -> None:
        """Make the rig safe and close everything in reverse order; one that fails does not keep the others open.

        Raises
        ------
        SafetyAbort
            ``"safe_state_failed"`` when the rig could not be made safe: somebody has to go and look.
        """
        self._closing.close()

    def __enter__(self) -> Station:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _leave(self) -> None:
        if self._safe is not None and self._safe.safe:
            return
        report = self.make_safe("closed")
        if not report.safe:
            raise SafetyAbort(
                f"the rig could not be made safe while closing: {report}",
                reason="safe_state_failed",
                where=f"rig {self.rig.name}",
                remedy="Press the e-stop, then look at the rig before anybody uses it again.",
            )


def stop_unwatched(station: Station) -> bool:
    """Make the rig safe when the axis moves although no procedure runs, so nobody watches the force; say whether.

    An axis that cannot be asked counts as one that moves.
    """
    if station.stage.latched:
        return False
    try:
        moving = station.stage.is_moving()
    except BenchError:
        moving = True
    if moving:
        station.make_safe("unwatched_motion")
    return moving


def open_station(
    rig: IndenterRig,
    backend: Backend = "mock",
    *,
    twin: TwinProfile | None = None,
    specimen: SpecimenProfile | None = None,
    seed: int | None = None,
    real_time: bool = False,
    faults: Sequence[Mapping[str, Any]] = (),
    home: bool = True,
    today: date | None = None,
    allow_expired: bool = False,
) -> Station:
    """Open the instruments of ``rig``, check that they are the ones it names, and make the rig ready.

    Parameters
    ----------
    rig : IndenterRig
    backend : {"mock", "lab"}
        The twin, or the hardware.
    twin, specimen, seed, real_time, faults
        For the twin alone: its truth, what is mounted, the seed (default: the truth's), pacing, and what goes wrong.
    home : bool
        Whether to home the axis where it is not homed.
    today : date, optional
        The day certificates must be in force; today's by default.
    allow_expired : bool
        Go on with expired certificates, for setting a rig up; every archive names them.

    Raises
    ------
    CalibrationError
        A certificate has expired, or belongs to another instrument.
    InstrumentError
        An instrument does not answer, or is not the one the profile names. What was opened before is closed.
    SafetyAbort
        The e-stop is pressed.
    """
    if not allow_expired:
        check_certificates(rig, today or date.today())
    with ExitStack() as opened:
        if backend == "mock":
            # Only here does anything of the bench reach for the twin, and only for its addresses and clock.
            from bench.station_mock import start

            simulation = start(opened, rig, twin, specimen, seed=seed, real_time=real_time, faults=faults)
            addresses = simulation.addresses
        elif backend == "lab":
            simulation = None
            addresses = Addresses(rig.stage.port, WallClock(), daq_server=rig.daq.server)
        else:
            raise ProfileError(f'there is no backend "{backend}"', remedy="Use mock or lab")
        stage = open_stage(rig, addresses)
        opened.callback(stage.close)
        daq = open_daq(rig, addresses)
        opened.callback(daq.close)
        estop = daq.digital_input(rig.safety.estop_line)
        opened.callback(estop.close)
        enable = daq.digital_output(rig.safety.enable_line)
        opened.callback(enable.close)
        station = Station(
            rig,
            backend,
            stage=stage,
            daq=daq,
            force_sensor=open_force_sensor(rig),
            interlock=Interlock(estop, enable, healthy_level=rig.safety.estop_healthy == "high"),
            clock=addresses.clock,
            seed=simulation.seed if simulation else None,
            twin=simulation.process if simulation else None,
            details=simulation.details if simulation else None,
        )
        check_identities(rig, station.identities)
        opened.enter_context(station.supervisor)
        opened.callback(station._leave)
        station.make_ready(home=home)
        station._closing = opened.pop_all()
    return station
