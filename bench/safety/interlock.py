"""The two digital lines that decide whether the rig may move: e-stop input and enable output."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bench.errors import InstrumentError, LimitError, SafetyAbort
from bench.instruments.protocols import (
    Acquisition,
    AnalogChannel,
    AnalogOutput,
    Daq,
    DigitalInput,
    DigitalOutput,
    EncoderChannel,
    Identity,
)
from bench.safety.watchdog import Guard, Unwatched


class Interlock:
    """Owns the enable line and reads the e-stop.

    Parameters
    ----------
    estop : DigitalInput
        The e-stop loop's monitor contact.
    enable : DigitalOutput
        High lets the drive have power; it is low from the start and after :meth:`drop`.
    healthy_level : bool
        Level of ``estop`` while the e-stop is *not* pressed. A loop that reads high when closed also reports a cut
        wire as pressed.
    guard : Guard, optional
        The watchdog: armed before the line goes high, at rest once the line was read to be low.
    """

    def __init__(
        self, estop: DigitalInput, enable: DigitalOutput, *, healthy_level: bool = True, guard: Guard | None = None
    ) -> None:
        self._guard = guard if guard is not None else Unwatched()
        self._estop = estop
        self._enable = enable
        self._healthy_level = healthy_level
        self._enabled = False

    @property
    def enabled(self) -> bool:
        """Whether the enable line was last driven high."""
        return self._enabled

    def healthy(self) -> bool:
        """Read the e-stop: true while it is not pressed."""
        return self._estop.read() == self._healthy_level

    def check(self) -> None:
        """Raise :class:`SafetyAbort` (``"estop"``) when the e-stop is pressed."""
        if not self.healthy():
            raise SafetyAbort(
                "the e-stop is pressed, or its loop is open",
                reason="estop",
                where="e-stop",
                remedy="Find out why, release it, then open the station again; it homes before it moves.",
            )

    def refuse_unless_ready(self, latched: str, where: str, again: str) -> None:
        """Raise :class:`LimitError` when a gate is ``latched`` (why, or empty) or the enable line is low.

        ``again`` is what a person does to open a latched gate.
        """
        if latched:
            raise LimitError(
                f"the gate is shut since the rig was stopped ({latched})", reason="latched", where=where, remedy=again
            )
        if not self._enabled:
            raise LimitError(
                "the enable line is low",
                reason="not_enabled",
                where=where,
                remedy="Open the station, which drives the line high once the e-stop is healthy.",
            )

    def energise(self) -> None:
        """Drive the enable line high, watched; refuse with :class:`SafetyAbort` while the e-stop is pressed.

        Raises
        ------
        InstrumentError
            The line was high already and cannot be dropped; or it still reads low, so that its reading proves nothing.
        """
        self.check()
        if not self._enabled and self._enable.read():
            self.drop()  # somebody left it high; one that can be dropped is one that can be relied on
        self._guard.arm()
        self._enable.write(True)
        self._enabled = True
        if not self._enable.read():
            self.drop()
            raise InstrumentError(
                "the enable line was driven high and still reads low",
                where="enable line",
                remedy="Look for a short circuit and at the DAQ's wiring; what cannot be read back is not relied on.",
            )

    def drop(self) -> None:
        """Drive the enable line low and read it back; the watchdog goes on watching until it reads low.

        Raises
        ------
        InstrumentError
            The line still reads high.
        """
        # Marked first: a line we failed to drive is not one to rely on.
        self._enabled = False
        self._enable.write(False)
        if self._enable.read():
            raise InstrumentError(
                "the enable line was driven low and still reads high",
                where="enable line",
                remedy="Press the e-stop. Look for a short circuit, a welded relay and for another program that drives "
                "the line.",
            )
        self._guard.rest()


class GuardedDaq:
    """The station's DAQ as procedures see it: everything that reads, and only the outputs left free.

    The enable line belongs to the :class:`Interlock`, so nobody else gets a handle on it.
    """

    def __init__(self, daq: Daq, *, reserved_lines: Sequence[str]) -> None:
        self._daq = daq
        self._reserved = frozenset(reserved_lines)

    def identify(self) -> Identity:
        return self._daq.identify()

    def acquisition(
        self,
        analog: Sequence[AnalogChannel],
        encoders: Sequence[EncoderChannel],
        rate_hz: float,
        buffer_s: float = 10.0,
    ) -> Acquisition:
        return self._daq.acquisition(analog, encoders, rate_hz, buffer_s)

    def digital_input(self, line: str) -> DigitalInput:
        return self._daq.digital_input(line)

    def digital_output(self, line: str) -> DigitalOutput:
        self._refuse_reserved(line)
        return self._daq.digital_output(line)

    def analog_output(self, channel: str, minimum_v: float = -10.0, maximum_v: float = 10.0) -> AnalogOutput:
        self._refuse_reserved(channel)
        return self._daq.analog_output(channel, minimum_v, maximum_v)

    def close(self) -> None:
        self._daq.close()

    def _refuse_reserved(self, terminal: str) -> None:
        if any(_overlap(terminal, reserved) for reserved in self._reserved):
            raise LimitError(
                f"{terminal} belongs to the interlock",
                reason="reserved_line",
                where="DAQ output",
                remedy="Use another line; the enable line is driven by the safety code alone.",
            )


def _overlap(one: str, other: str) -> bool:
    """Whether two terminal names (``Dev1/port0/line1``, ``port0/line0:7``, ``port0``) share a line."""
    port_a, first_a, last_a = _lines(one)
    port_b, first_b, last_b = _lines(other)
    return port_a == port_b and first_a <= last_b and first_b <= last_a


def _lines(terminal: str) -> tuple[str, float, float]:
    """Split a terminal's name into its port and its first and last line; a bare port holds every line."""
    parts = terminal.lower().strip("/").split("/")
    if not parts[-1].startswith("line"):
        return parts[-1], 0, math.inf
    first, _, last = parts[-1].removeprefix("line").partition(":")
    return parts[-2] if len(parts) > 1 else "", float(first), float(last or first)
