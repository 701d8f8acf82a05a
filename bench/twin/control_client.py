"""Control calls: what a test or a person does to the simulated lab from outside. None of them moves time."""

from __future__ import annotations

import json
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.errors import TwinError
from bench.twin.connection import Connection, OwnLink
from bench.twin.frames import Op

Floats = NDArray[np.float64]


class TwinControl:
    """Control calls of one process, over a connection of their own. Any thread may use it, participant or not.

    A call made by a participant comes after all that its thread has said on the link.
    """

    def __init__(self, link: OwnLink | str) -> None:
        self._link = None if isinstance(link, str) else link
        self._address = link if isinstance(link, str) else link.address
        self._connection: Connection | None = None
        self._lock = threading.Lock()

    def call(self, call: str, **parameters: object) -> Any:
        """Make the control call ``call``; the named methods below are all there are."""
        request: dict[str, object] = {"call": call, **parameters}
        own = self._link.own_connection if self._link is not None else None
        if own is not None:
            request["after"] = [own.member, own.sent]
        with self._lock:
            payload = self._opened().request(Op.CONTROL, payload=json.dumps(request).encode())[2]
        if call == "history":
            return payload
        return json.loads(payload)

    def now_ns(self) -> int:
        """World time [ns], as an observer sees it."""
        with self._lock:
            connection = self._opened()
            connection.request(Op.NOW)
            return connection.now_ns

    def _opened(self) -> Connection:
        if self._connection is None:
            self._connection = Connection(self._address, "control", "control")
        return self._connection

    def truth(self, depths_mm: list[float] | None = None, speed_mm_s: float = 2.0) -> dict[str, Any]:
        """The truth of this twin, for tests only.

        Parameters
        ----------
        depths_mm : list of float, optional
            Depths below the surface at which the true force of a press at ``speed_mm_s`` is wanted (the speed of the
            depth itself), from first touch, without replicate scatter.

        Returns
        -------
        dict
            Of any rig ``seed`` and ``tick_s``. Of a joint the figures by the names of :mod:`bench.twin.view_joint`, as
            drawn from the seed, friction also as it is at the present temperature (``coulomb_now`` …). Of an indenter
            ``surface_mm``, ``frame_stiffness_N_mm``, ``specimen`` (parameters as drawn),
            ``ruptured``, ``replicate_factors`` and ``replicate_surfaces_mm`` (one per press so far), ``stage``,
            ``sensor``, and with depths ``depths_mm``, ``speed_mm_s``, ``force_N``.
        """
        answer: dict[str, Any] = self.call("truth", depths_mm=depths_mm or [], speed_mm_s=speed_mm_s)
        return answer

    def history(self) -> dict[str, Floats]:
        """Plant history by tick up to now, shape (n_ticks,) each.

        ``travel_mm`` and ``force_N`` of an indenter. Of a joint ``rotor_angle_rad`` (of the rotor, positive with the
        joint), ``joint_angle_rad``, ``joint_torque_Nm`` (on the link), ``motor_torque_Nm`` (of the rotor, as the drive
        believes), ``temperature_degC``.
        """
        raw: bytes = self.call("history")
        names, _, values = raw.partition(b"\n")
        keys = json.loads(names)
        return dict(zip(keys, np.frombuffer(values, dtype="<f8").reshape(len(keys), -1), strict=True))

    def log(self) -> list[tuple[int, str]]:
        """The world's log: (time ns, line); frames on the wires, registrations, faults."""
        return [(time_ns, text) for time_ns, text in self.call("log")]

    def fault(self, name: str, *, at_s: float | None = None, **parameters: float | str) -> None:
        """Inject a fault now, or at a world time; quantities in ``parameters`` as text with a unit ("0.05 mm")."""
        self.call("fault", name=name, at_s=at_s, parameters=parameters)

    def clear_fault(self, name: str) -> None:
        """End a fault that can end: ``estop_pressed``, ``enable_stuck``, ``stage_stall``, ``device_unplugged`` …"""
        self.call("clear_fault", name=name)

    def press_estop(self, pressed: bool = True) -> None:
        """Press (or release) the emergency stop."""
        self.call("press_estop", pressed=pressed)

    def kill_at(self, time_s: float) -> None:
        """Let the twin kill the runner's process at this world time, while it is blocked in a call: reproducible."""
        self.call("kill_at", time_s=time_s)

    def report(self) -> dict[str, Any]:
        """What the rig looks like now: see :mod:`bench.twin.report`."""
        answer: dict[str, Any] = self.call("report")
        return answer

    def reset(self) -> None:
        """Forget a lost owner, so that the next runner can register. The rig stays as it is."""
        self.call("reset")

    def close(self) -> None:
        """Close the control connection; a later call opens it again."""
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.bye()


def control_of(address: str) -> TwinControl:
    """Return a control to the twin at ``address`` without becoming a participant: a monitor, a second process."""
    if ":" not in address:
        raise TwinError(f"{address!r} is no address", where="twin control", remedy="expected HOST:PORT")
    return TwinControl(address)
