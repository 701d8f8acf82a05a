"""A serial line between a host and a device: bytes take their time on the wire, one charge per frame.

Ten bits a byte (start, eight, stop) at the device's baud rate. The host's side is either the link (bytes wait in
``inbox`` until they are read) or a sink that is given every byte as it arrives (a TCP or pty bridge).
"""

from __future__ import annotations

from collections.abc import Callable

from bench.errors import TwinError
from bench.twin.interfaces import SerialDevice
from bench.twin.world import SimWorld


class Unplugged(Exception):
    """The device was unplugged: what the operating system would tell by an I/O error."""


class Wire:
    """One device's line; every method with the world's lock held. Is the device's ``SerialPort``."""

    def __init__(self, world: SimWorld, device: SerialDevice) -> None:
        self.world = world
        self.device = device
        self.inbox = bytearray()
        self.owner: str | None = None
        self.unplugged = False
        self.dropped = 0  # bytes a bridge could not pass on in time
        self.sink: Callable[[bytes], None] | None = None
        self.host_baud = device.baud
        self._heard, self._said = f"{device.name} < ", f"{device.name} > "
        self._byte_ns = 10_000_000_000 / device.baud
        self._to_device_free_ns = 0
        self._to_host_free_ns = 0
        self._late: list[int] = []
        self._corrupt = 0
        self._foresee: Callable[[bytes, int], bool] | None = (
            None if world.real_time else getattr(device, "foresee", None)
        )
        device.attach(world, self)

    # -- host side ----------------------------------------------------------------------------------------------------

    def open(self, owner: str, baud: int, sink: Callable[[bytes], None] | None = None) -> None:
        """Take the line; :class:`bench.errors.TwinError` when somebody has it."""
        if self.owner is not None:
            raise TwinError(f"the port is in use by {self.owner}", where=f"twin device {self.device.name!r}")
        self.owner, self.sink, self.host_baud = owner, sink, baud
        self.inbox.clear()

    def close(self) -> None:
        self.owner = self.sink = None
        self.inbox.clear()

    def write(self, data: bytes) -> None:
        """Bytes leave the host now and reach the device when the last of them is through."""
        if self.unplugged:
            raise Unplugged
        arrival = max(self.world.now_ns, self._to_device_free_ns) + round(len(data) * self._byte_ns)
        self._to_device_free_ns = arrival
        self.world.at(arrival, lambda: self._deliver(data))
        if self._foresee is not None and self._foresee(data, arrival):
            self.world.foreseen = True

    def _deliver(self, data: bytes) -> None:
        if self.unplugged:
            return
        if self.host_baud != self.device.baud:
            self.world.note(f"{self.device.name} hears noise: {self.host_baud} instead of {self.device.baud} baud")
            return
        self.world.log.append((self.world.now_ns, self._heard, data))
        self.device.receive(data)

    # -- device side --------------------------------------------------------------------------------------------------

    def send(self, data: bytes, *, delay_ns: int = 0) -> None:
        """See :class:`bench.twin.interfaces.SerialPort`."""
        if self.unplugged:
            return
        if self._late:
            delay_ns += self._late.pop(0)
        if self._corrupt:
            self._corrupt -= 1
            data = _corrupted(data)
        start = max(self.world.now_ns + delay_ns, self._to_host_free_ns)
        self._to_host_free_ns = start + round(len(data) * self._byte_ns)
        self.world.at(self._to_host_free_ns, lambda: self._arrive(data))

    def _arrive(self, data: bytes) -> None:
        if self.unplugged or self.host_baud != self.device.baud:
            return
        self.world.log.append((self.world.now_ns, self._said, data))
        if self.sink is not None:
            self.sink(data)
        elif self.owner is not None:
            self.inbox += data

    # -- faults -------------------------------------------------------------------------------------------------------

    def unplug(self, unplugged: bool = True) -> None:
        self.unplugged = unplugged
        self.inbox.clear()

    def delay_replies(self, count: int, delay_ns: int) -> None:
        """The next ``count`` frames from the device start ``delay_ns`` late."""
        self._late = [delay_ns] * count

    def corrupt_replies(self, count: int) -> None:
        """The next ``count`` frames from the device arrive with a bit wrong in the last byte of their text."""
        self._corrupt = count


def _corrupted(data: bytes) -> bytes:
    place = len(data.rstrip(b"\r\n")) - 1
    if place < 0:
        return data
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
