"""Zaber's wire format: what is said, what is understood, and that damage never passes for a message."""

from __future__ import annotations

import pytest

from bench.instruments.zaber_ascii_messages import CorruptMessage, checksum, decode, encode


def packet(text: str) -> bytes:
    return b"@%b:%02X\r\n" % (text.encode(), -sum(text.encode()) & 0xFF)


def test_checksum_is_that_of_the_manual():
    assert checksum(b"01 tools echo") == 143


def test_commands_are_those_the_vendors_client_sends():
    """Recorded from zaber-motion 10.3."""
    assert encode(1, 0, 1, "get comm.packet.size.max") == b"/1 0 01 get comm.packet.size.max:CF\n"
    assert encode(1, 1, 42, "move abs 100000") == b"/1 1 42 move abs 100000:8A\n"
    assert encode(1, 1, 6, "") == b"/1 1 06:F8\n"


def test_a_reply_is_taken_apart():
    message = decode(packet("07 1 42 RJ BUSY FS BADDATA"))
    assert (message.kind, message.address, message.axis, message.id) == ("@", 7, 1, 42)
    assert (message.rejected, message.busy, message.warning, message.data) == (True, True, "FS", "BADDATA")
    assert (message.more, message.checked) == (False, True)


def test_optional_fields_may_be_missing():
    reply = decode(b"@01 0 OK IDLE -- 12 34\r\n")
    assert (reply.id, reply.data, reply.checked) == (None, "12 34", False)
    alert = decode(b"!01 1 IDLE --\r\n")
    assert (alert.kind, alert.status, alert.data) == ("!", "IDLE", "")
    text = decode(b"#01 1 09 cont goes on\\\r\n")
    assert (text.id, text.data, text.more) == (9, "cont goes on", True)


def test_noise_before_a_message_is_passed_over():
    assert decode(b"\x00\xff~@01 0 05 OK IDLE -- 7\r\n").data == "7"


@pytest.mark.parametrize(
    "line",
    [b"", b"@", b"@01 1\r\n", b"@01 1 05 OK IDLE --:00\r\n", b"@01 1 05 IDLE -- 0\r\n", b"#01 OK\r\n", b"@1x 1 OK"],
)
def test_damaged_lines_are_told_apart(line):
    with pytest.raises(CorruptMessage):
        decode(line)


def test_every_single_bit_error_in_a_reply_is_found():
    whole = packet("01 1 42 OK IDLE -- 209974")
    assert decode(whole).data == "209974"
    for at in range(1, len(whole) - 5):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[at] ^= 1 << bit
            with pytest.raises(CorruptMessage):
                decode(bytes(damaged))
