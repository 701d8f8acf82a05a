"""The link's frames: sixteen bytes of header each way, then a payload.

To the twin:   payload length u32, operation u8, device u8, count u16, time i64.
From the twin: payload length u32, status u8, number u8, count u16, world time i64; the number counts the replies on
this connection, so that a client whose wait was cut short by a signal knows which reply is whose.
Little-endian. ``WRITE``, ``RESET_INPUT``, ``SIGNAL``, ``BEAT`` and ``RIDE`` have no reply, everything else has one.
``RIDE`` is a ``SLEEP`` whose end its sender knows: what is sent behind it is handled then.
"""

from __future__ import annotations

import struct

HEADER = struct.Struct("<IBBHq")
VERSION = 1
PARTICIPANT_KEY = "bench-participant"
SEQUENCE_KEY = "bench-link-seq"


class Op:
    """Plain numbers: an Enum's members cost more to look up than the frame costs to send."""

    HELLO = 1
    BYE = 2
    NOW = 3
    SLEEP = 4
    WRITE = 5
    READ = 6
    WAITING = 7
    RESET_INPUT = 8
    OPEN = 9
    CLOSE = 10
    EXPECT = 11
    SIGNAL = 12
    WAIT = 13
    CONTROL = 14
    BEAT = 15
    CALL = 16
    RIDE = 17


class Status:
    OK = 0
    BINARY = 1
    """OK, and the payload is raw data, not JSON."""
    REFUSED = 2
    """The request makes no sense here; the payload says why."""
    FAULT = 3
    """The twin failed or its owner was lost; the payload says why."""
    UNPLUGGED = 4
    IN_USE = 5
    NO_DEVICE = 6
    RPC_FAILED = 7
    """The procedure ran and ended with a gRPC status; the payload has it."""


FOREVER = -1
"""Read timeout: wait until the bytes come."""
HEARTBEAT_S = 0.1
LEASE_S = 1.5
"""Real-time mode: a client process that is silent for this long [s, wall] is lost."""
