"""Open what a rig profile names, check it, and hand it out; close it all again, also when only half of it opened.

::

    with open_station(rig, "mock", twin=truth, specimen=specimen) as station, station.powered():
        station.stage.start_move(10.0, 2.0)          # through the limits gate, as everything that moves
        station.stage.wait_idle(10.0)                # a wait that the watchdog hears of, as a control loop's beats

The simulated rig differs from a real one in three addresses: the serial URLs, the DAQ's channel and the clock.
The drivers are the same. What a rig of each kind consists of is in :mod:`bench.station_indenter`,
:mod:`bench.station_joint` and :mod:`bench.station_arm`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import date
from typing import Any, TypedDict, Unpack, overload

from bench.clock import WallClock
from bench.errors import BenchError, ProfileError
from bench.profile import ArmRig, IndenterRig, JointRig, RigProfile, SpecimenProfile, TwinProfile
from bench.safety.custody import Custody
from bench.safety.process_identity import identity_of
from bench.safety.prompts import Prompter, Questions, Scripted, Terminal
from bench.safety.supervisor import SignalsWhileOpening
from bench.station_base import Backend, Station
from bench.station_checks import check_certificates
from bench.station_drivers import lab_addresses
from bench.station_indenter import IndenterStation, open_indenter
from bench.station_joint import JointStation, open_joint
from bench.station_watchdog import watch

__all__ = ["Backend", "IndenterStation", "JointStation", "Station", "open_station", "stop_unwatched"]


def stop_unwatched(station: Station) -> bool:
    """Make the rig safe when it moves or is driven although no procedure runs, so nobody watches it; say whether.

    A rig that cannot be asked counts as one that moves.
    """
    if station.latched or station.resting:
        return False
    try:
        active = station.is_active()
    except BenchError:
        active = True
    if active:
        station.make_safe("unwatched_motion")
    return active


class Options(TypedDict, total=False):
    """The keywords of :func:`open_station`, which explains them."""

    twin: TwinProfile | None
    specimen: SpecimenProfile | None
    seed: int | None
    real_time: bool
    faults: Sequence[Mapping[str, Any]]
    attach: Mapping[str, str] | None
    home: bool
    operator: str
    prompter: Prompter | None
    today: date | None
    allow_expired: bool


@overload
def open_station(rig: IndenterRig, backend: Backend = "mock", **options: Unpack[Options]) -> IndenterStation: ...


@overload
def open_station(rig: JointRig, backend: Backend = "mock", **options: Unpack[Options]) -> JointStation: ...


@overload
def open_station(rig: RigProfile, backend: Backend = "mock", **options: Unpack[Options]) -> Station: ...


def open_station(
    rig: RigProfile,
    backend: Backend = "mock",
    *,
    twin: TwinProfile | None = None,
    specimen: SpecimenProfile | None = None,
    seed: int | None = None,
    real_time: bool = False,
    faults: Sequence[Mapping[str, Any]] = (),
    attach: Mapping[str, str] | None = None,
    home: bool = True,
    operator: str = "",
    prompter: Prompter | None = None,
    today: date | None = None,
    allow_expired: bool = False,
) -> Station:
    """Open the instruments of ``rig``, check that they are the ones it names, and see that the rig can be made ready.

    A process of its own watches over the rig from before it first gets power, see :mod:`bench.safety.watchdog`. The
    station is left at rest, without power: a run gives the rig its power and takes it back; see
    :meth:`~bench.station_base.Station.powered`.

    Parameters
    ----------
    rig : RigProfile
        Its kind decides which station is opened.
    backend : {"mock", "lab"}
        The twin, or the hardware.
    twin, specimen, seed, real_time, faults
        For the twin alone: its truth, what is mounted, the seed (default: the truth's), pacing, and what goes wrong.
    attach : mapping, optional
        Use the twin that runs at these addresses, ``{"link": "HOST:PORT", "grpc": "HOST:PORT"}`` as ``bench twin``
        prints them, instead of starting one; it goes on when the station is closed.
    home : bool
        Whether to home the axis where it is not homed.
    operator : str
        Who answers what the rig profile asks before the rig first gets power.
    prompter : Prompter, optional
        Who passes on what the profiles ask: by default the terminal, on the twin a script that answers yes.
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
        The e-stop is pressed; or the operator did not answer yes.
    LeaseError
        Somebody else has the rig; or its last user is gone without a word and it is not seen to be safe.
    QuarantineError
        The rig could not be made safe once, and nobody has cleared it since.
    """
    if not allow_expired:
        check_certificates(rig, today or date.today())
    with SignalsWhileOpening(), ExitStack() as opened:
        if backend == "mock":
            # Only here does anything of the bench reach for the twin, and only for its addresses and clock.
            from bench.station_mock import start

            simulation = start(
                opened, rig, twin, specimen, seed=seed, real_time=real_time, faults=faults, attach=attach
            )
            addresses, order = simulation.addresses, simulation.watchdog_order
        elif backend == "lab":
            simulation = None
            addresses = lab_addresses(rig, WallClock())
            order = {"addresses": "bench.station_drivers:lab_watchdog_addresses"}
        else:
            raise ProfileError(f'there is no backend "{backend}"', remedy="Use mock or lab")
        custody = Custody(rig.name, twin=None if simulation is None else identity_of(simulation.process.pid))
        opened.callback(custody.release)
        # It ends after all that is opened from here on, and before what leads to a simulated rig.
        watchdog = watch(rig, order, real_time=simulation is None or simulation.real_time)
        opened.callback(watchdog.close)
        questions = Questions(
            prompter or (Terminal() if simulation is None else Scripted()), operator or "nobody named"
        )
        questions.ask(rig.prompts, check=custody.check)
        options: dict[str, Any] = {"backend": backend, "custody": custody, "watchdog": watchdog}
        if simulation is not None:
            options |= {"seed": simulation.seed, "twin": simulation.process, "details": simulation.details}
        station: Station
        if isinstance(rig, IndenterRig):
            station = open_indenter(opened, rig, addresses, options)
        elif isinstance(rig, JointRig):
            station = open_joint(opened, rig, addresses, options)
        elif isinstance(rig, ArmRig):
            # Numbers of an arm need the extra "arm"; other rigs do not.
            from bench.station_arm import open_arm

            station = open_arm(opened, rig, addresses, options)
        else:
            raise ProfileError(f'there is no station for a rig of kind "{rig.kind}"', where=str(rig.source.path))
        station.questions = questions
        station.open_from(opened, home=home)
    return station
