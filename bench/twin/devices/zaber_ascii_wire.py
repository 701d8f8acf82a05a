"""Framing of Zaber's ASCII protocol on the device's side: addresses, ids, checksums, packets.

Written apart from the driver's half on purpose: a mistake in one then shows against the other.
"""

from __future__ import annotations

from collections.abc import Callable

from bench.twin.interfaces import SerialPort, World

REPLY_DELAY_NS = 300_000
PACKET_BYTES = 80


class Reject(Exception):
    """The command is rejected with this reason."""


class ZaberWire:
    """Turns bytes into commands and answers into bytes.

    Parameters
    ----------
    execute : callable
        Takes the words of a command and its axis number, returns the data of the reply; :class:`Reject` rejects.
    state : callable
        Returns status (``IDLE`` or ``BUSY``) and warning flag for the reply.
    address : int
        Address on the chain.
    """

    def __init__(
        self, execute: Callable[[list[str], int], str], state: Callable[[], tuple[str, str]], address: int
    ) -> None:
        self.address = address
        self.checksums = 0
        self.ignored_messages = 0
        self.deaf_until_ns = 0
        self._execute = execute
        self._state = state
        self._buffer = b""
        self._packets: list[list[str]] = []

    def attach(self, world: World, port: SerialPort) -> None:
        """Called once before any byte arrives."""
        self._world = world
        self._port = port

    def receive(self, data: bytes) -> None:
        """Bytes from the host; a message ends in any mix of CR and LF, and what precedes its ``/`` is noise."""
        if self._world.now_ns < self.deaf_until_ns:
            return
        *lines, self._buffer = (self._buffer + data.replace(b"\r", b"\n")).split(b"\n")
        self._buffer = self._buffer[-PACKET_BYTES:]
        for line in lines:
            _, slash, body = line.partition(b"/")
            if slash:
                self._message(body)

    def alert(self) -> None:
        """Send word of the axis unasked."""
        status, flag = self._state()
        self._send(f"!{self.address:02d} 1 {status} {flag}")

    def _message(self, body: bytes) -> None:
        text, colon, check = body.partition(b":")
        if colon and check.upper() != b"%02X" % (-sum(text) & 0xFF):
            self.ignored_messages += 1
            return
        words = text.decode("ascii", "replace").split()
        address = int(words.pop(0)) if words and words[0].isdigit() else 0
        axis = int(words.pop(0)) if words and words[0].isdigit() else 0
        given_id = words.pop(0) if words and (words[0].isdigit() or words[0] == "--") else ""
        if address not in (0, self.address):
            return
        flag = "OK"
        try:
            if given_id.isdigit() and int(given_id) > 99:
                given_id = ""
                raise Reject("BADMESSAGEID")
            if axis > 1:
                raise Reject("BADAXIS")
            whole = self._join(words)
            if whole is None:
                return
            data = self._execute(whole, axis)
        except Reject as rejection:
            flag, data = "RJ", str(rejection)
        if given_id == "--":
            return
        status, warning = self._state()
        shown_id = f" {int(given_id):02d}" if given_id else ""
        self._reply(f"{self.address:02d} {axis}{shown_id}", f"{flag} {status} {warning} {data}")

    def _join(self, words: list[str]) -> list[str] | None:
        """Return a command's words once all its packets are there: ``move\\``, ``cont 1 abs\\``, ``cont 2 100``."""
        if words[:1] == ["cont"]:
            if not self._packets or words[1:2] != [str(len(self._packets))]:
                self._packets.clear()
                raise Reject("BADSPLIT")
            words = words[2:]
        else:
            self._packets.clear()
        if not (words and words[-1].endswith("\\")):
            whole = [*(word for packet in self._packets for word in packet), *words]
            self._packets.clear()
            return whole
        self._packets.append([*words[:-1], words[-1][:-1]])
        return None

    def _reply(self, header: str, text: str) -> None:
        """Send a reply, in several packets when it is too long for one."""
        packets, kind, room = [], "@", PACKET_BYTES - len(f"@{header} \\:00\r\n")
        while len(text) > room:
            space = text.rfind(" ", 0, room)
            cut = space if space > len("cont ") else room
            packets.append(f"{kind}{header} {text[:cut]}\\")
            kind, text = "#", "cont " + text[cut:].strip()
        self._send(*packets, f"{kind}{header} {text}")

    def _send(self, *packets: str) -> None:
        """Send packets back to back, as one burst on the wire."""
        self._port.send(b"".join(self._frame(packet) for packet in packets), delay_ns=REPLY_DELAY_NS)

    def _frame(self, packet: str) -> bytes:
        frame = packet.encode("ascii", "replace")
        if self.checksums:
            frame += b":%02X" % (-sum(frame[1:]) & 0xFF)
        return frame + b"\r\n"
