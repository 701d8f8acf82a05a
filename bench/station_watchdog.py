"""What a watchdog's process can do to a rig: the lines it drops, the drives it stops, by the station's own drivers.

The station's side is :func:`watch`; the process calls :func:`open_hands`. Nothing of a rig profile is read before it is
needed: the lines are made beforehand, so that dropping them is one call of the DAQ each.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from bench.clock import sleep
from bench.errors import BenchError, BusSilent, InstrumentError, InstrumentTimeout
from bench.instruments.protocols import DigitalOutput
from bench.profile import ArmRig, IndenterRig, JointRig, RigProfile, parse_profile
from bench.safety import ledger
from bench.safety.arm_gate import CALM_S
from bench.safety.gate import STANDSTILL_MM
from bench.safety.joint_gate import QUIET_MODES
from bench.safety.lease import LeaseBook
from bench.safety.process_identity import ProcessIdentity, identity_of
from bench.safety.quarantine import Quarantine, rig_key
from bench.safety.safe_state import WATCH_S
from bench.safety.watchdog import VIRTUAL_TIMEOUT_S, Watchdog, start_watchdog
from bench.safety.watchdog_process import Outcome, Steps, described
from bench.station_drivers import (
    Addresses,
    open_arm_drives,
    open_daq,
    open_drive,
    open_stage,
    open_wrist_sensor,
)
from bench.station_takeover import look_at_arm, look_at_joint

#: What the process imports.
MODULES = ("bench.station_watchdog", "bench.instruments.nidaqmx", "nidaqmx.stream_writers", "nidaqmx.stream_readers")
#: A port that a killed runner held is free once the system has buried it [s].
PORT_S, PORT_POLL_S = 2.0, 0.02
#: On a simulated rig nothing is lost by patience with a runner whose machine is busy [s].
VIRTUAL_GRACE_S = 60.0
T = TypeVar("T")
Rig = IndenterRig | JointRig | ArmRig


def watch(rig: RigProfile, order: dict[str, object], *, real_time: bool) -> Watchdog:
    """Start the watchdog of ``rig``. ``order`` says by which function its process finds the rig's addresses.

    In virtual time, which stands still while this program computes, promises are given in generous wall time: what is
    tested there is that the loss of the runner is seen, not how long a loop may take.
    """
    timeout_s, stop_time_s = VIRTUAL_TIMEOUT_S, 4.0 * VIRTUAL_TIMEOUT_S
    if real_time:
        safety = _known(rig).safety
        timeout_s, stop_time_s = safety.watchdog_timeout.to("s"), safety.stop_time.to("s")
    told = {
        "hands": "bench.station_watchdog:open_hands",
        "rig_path": str(rig.source.path),
        "rig_text": rig.source.text,
        **({} if real_time else {"grace_s": VIRTUAL_GRACE_S}),
        **order,
    }
    return start_watchdog(told, timeout_s=timeout_s, stop_time_s=stop_time_s, modules=MODULES)


def open_hands(order: dict[str, Any]) -> RigHands:
    """Reach the rig of ``order`` from the watchdog's process."""
    rig, problems = parse_profile(order["rig_text"], Path(order["rig_path"]))
    if problems or not isinstance(rig, RigProfile):
        raise InstrumentError("the rig profile cannot be read", where=order["rig_path"])
    module, _, name = order["addresses"].partition(":")
    addresses, let_go = getattr(import_module(module), name)(rig, order)
    twin = order.get("twin", {}).get("pid")
    return RigHands(_known(rig), addresses, let_go, twin=None if twin is None else identity_of(twin))


def _known(rig: RigProfile) -> Rig:
    if isinstance(rig, (IndenterRig, JointRig, ArmRig)):
        return rig
    raise InstrumentError(f'nobody knows how to stop a rig of kind "{rig.kind}"', where=str(rig.source.path))


class RigHands:
    """Implements :class:`bench.safety.watchdog_process.Hands` for a rig of any kind."""

    def __init__(
        self, rig: Rig, addresses: Addresses, let_go: Callable[[], None], *, twin: ProcessIdentity | None = None
    ) -> None:
        self._rig = rig
        self._addresses = addresses
        self._let_go = let_go
        self._twin = twin
        self._daq = open_daq(rig, addresses)
        self._serials = [rig.daq.serial_number] if rig.daq.serial_number else []
        self._lines = self._open_lines()

    def _open_lines(self) -> list[DigitalOutput]:
        # The brakes first: what they take to close is time in which nothing holds.
        names = [self._rig.safety.enable_line]
        if isinstance(self._rig, ArmRig):
            names.insert(0, self._rig.safety.brake_line)
        return [self._daq.digital_output(name) for name in names]

    def drop(self) -> None:
        """Drive every line low; one that fails does not keep the others high."""
        failed: list[BenchError] = []
        for line in self._lines:
            try:
                line.write(False)
            except BenchError as error:
                failed.append(error)
        if failed:
            raise failed[0]

    def high(self) -> bool:
        """Read the lines back: whether one of them is high."""
        levels = [line.read() for line in self._lines]
        return any(levels)

    def reset(self) -> None:
        """Reset the DAQ device: it aborts every task on it, also what a killed runner left reserved."""
        self._daq.reset()  # type: ignore[attr-defined]
        self._lines = self._open_lines()

    def _clear(self) -> str:
        self.reset()
        return ""

    # -- once the runner is gone

    def settle(self) -> Steps:
        """Stop the drives and look whether they have; then clear what the runner left on a DAQ server."""
        steps: Steps = []
        rig, addresses = self._rig, self._addresses
        if isinstance(rig, IndenterRig):
            steps += self._stage(rig, addresses)
        elif isinstance(rig, JointRig):
            steps += self._drive(rig, addresses)
        else:
            steps += self._servos(rig, addresses)
        if addresses.daq_channel is not None or addresses.daq_server is not None:
            # A server keeps the sessions of a client that is gone; the local driver's end with their process.
            steps.append(_step("clear the DAQ", self._clear))
        steps.append(_step("enable line", lambda: _refuse("it reads high") if self.high() else "low"))
        if isinstance(rig, ArmRig):
            sleep(addresses.clock, rig.safety.brake_time.to("s") + CALM_S)
        steps.append(_step("see it stand", self._stands))
        return steps

    def _stage(self, rig: IndenterRig, addresses: Addresses) -> Steps:
        def stop() -> str:
            stage = _opened(lambda: open_stage(rig, addresses))
            try:
                stage.stop()
                first = stage.position_mm()
                sleep(addresses.clock, WATCH_S)
                moved = abs(stage.position_mm() - first)
            finally:
                stage.close()
            told = f"it moved {moved * 1e3:.1f} um in {WATCH_S:g} s"
            return told if moved <= STANDSTILL_MM else _refuse(told)

        return [_step("stop the stage", stop)]

    def _drive(self, rig: JointRig, addresses: Addresses) -> Steps:
        def stop() -> str:
            try:
                drive = _opened(lambda: open_drive(rig, addresses))
            except InstrumentTimeout:
                return "no answer, as without its supply"
            try:
                state = drive.stop()
            finally:
                drive.close()
            told = f"mode {state.mode} with {state.rotor_torque_nm:g} N.m at the rotor"
            return told if state.mode in QUIET_MODES else _refuse(told)

        return [_step("stop the drive", stop)]

    def _servos(self, rig: ArmRig, addresses: Addresses) -> Steps:
        def stop() -> str:
            try:
                drives = _opened(lambda: open_arm_drives(rig, addresses))
            except BusSilent:
                return "no answer, as without their supply"
            try:
                drives.stop()
            finally:
                drives.close()
            return "they say that they are off"

        return [_step("stop the servos", stop)]

    def _stands(self) -> str:
        """See by the DAQ alone that it stands."""
        rig, look = self._rig, None
        if isinstance(rig, JointRig):
            look = look_at_joint(rig, self._daq)
        elif isinstance(rig, ArmRig):
            look = look_at_arm(rig, self._daq, open_wrist_sensor(rig))
        if look is None:
            return "asked of the stage"
        moved = look.moved()
        told = f"by the {look.by} it moved {moved:.3g} {look.unit} in {WATCH_S:g} s"
        return told if moved <= look.tolerance else _refuse(told)

    # -- what is left to others

    def record(self, outcome: Outcome) -> None:
        """Write the trip down; a rig not seen safe goes into quarantine, and what a lost runner held is free."""
        rig, twin = self._rig.name, self._twin
        ledger.append("watchdog", rig=rig_key(rig, twin), **described(outcome))
        if outcome.acknowledged:
            return  # a runner that lives sees to its rig and its leases itself
        if not outcome.safe:
            Quarantine.impose(rig_key(rig, twin), self._serials, "watchdog", str(outcome))
        else:
            LeaseBook().release_of(outcome.runner, seen=f"by the watchdog: {outcome}")

    def close(self) -> None:
        """Let go of the DAQ and of what leads to it."""
        with contextlib.suppress(BenchError):
            self._daq.close()
        self._let_go()


def _opened(open_it: Callable[[], T]) -> T:
    """Open a port that a killed runner may hold for an instant yet."""

    deadline = time.monotonic() + PORT_S
    while True:
        try:
            return open_it()
        except InstrumentTimeout:
            raise
        except InstrumentError as error:
            if "in use" not in str(error) or time.monotonic() >= deadline:
                raise
            time.sleep(PORT_POLL_S)


def _step(name: str, action: Callable[[], str]) -> tuple[str, bool, str]:
    try:
        return name, True, action()
    except Exception as error:
        return name, False, error.what if isinstance(error, BenchError) else f"{type(error).__name__}: {error}"


def _refuse(what: str) -> str:
    raise InstrumentError(what)
