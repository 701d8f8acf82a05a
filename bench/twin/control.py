"""The twin's side of the control calls: see :class:`bench.twin.control_client.TwinControl` for what they mean."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.errors import TwinError
from bench.twin.lab import Lab
from bench.twin.report import state


class Control:
    """Handles control requests; called with the world's lock held."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._calls: dict[str, Callable[[dict[str, Any]], dict[str, Any] | list[Any] | bytes]] = {
            "truth": self._truth,
            "history": self._history,
            "log": self._log,
            "fault": self._fault,
            "clear_fault": self._clear_fault,
            "press_estop": self._press_estop,
            "kill_at": self._kill_at,
            "report": lambda request: state(self._lab),
            "reset": self._reset,
            "identity": lambda request: {"pid": os.getpid(), "real_time": self._lab.world.real_time},
        }

    def __call__(self, request: dict[str, Any]) -> dict[str, Any] | list[Any] | bytes:
        call = self._calls.get(request.get("call", ""))
        if call is None:
            raise TwinError(
                f"there is no control call {request.get('call')!r}",
                where="twin control",
                remedy=f"there are {', '.join(self._calls)}",
            )
        return call(request)

    def _truth(self, request: dict[str, Any]) -> dict[str, Any]:
        return self._lab.view.truth(request)

    def _history(self, request: dict[str, Any]) -> bytes:
        columns = self._lab.view.history()
        names = json.dumps(list(columns)).encode()
        return names + b"\n" + np.concatenate(list(columns.values())).astype("<f8").tobytes()

    def _log(self, request: dict[str, Any]) -> list[Any]:
        return [
            (time_ns, text + (data.decode("ascii", "backslashreplace") if data else ""))
            for time_ns, text, data in self._lab.world.log
        ]

    def _fault(self, request: dict[str, Any]) -> dict[str, Any]:
        name, at_s, parameters = request["name"], request.get("at_s"), request.get("parameters") or {}
        if at_s is None:
            self._lab.faults.inject(name, parameters)
        else:
            self._lab.faults.schedule(name, float(at_s), parameters)
        return {}

    def _clear_fault(self, request: dict[str, Any]) -> dict[str, Any]:
        self._lab.faults.clear(request["name"])
        return {}

    def _press_estop(self, request: dict[str, Any]) -> dict[str, Any]:
        self._lab.bus.press_estop(bool(request.get("pressed", True)))
        return {}

    def _kill_at(self, request: dict[str, Any]) -> dict[str, Any]:
        world = self._lab.world
        time_ns = round(float(request["time_s"]) * 1e9)
        if time_ns < world.now_ns:
            raise TwinError(f"{request['time_s']} s has passed", where="twin control kill_at")
        world.at(time_ns, self._kill)
        return {}

    def _kill(self) -> None:
        """Kill the participants' processes; in virtual time they are all blocked in a call now."""
        for member in [m for m in self._lab.world.members.values() if not m.passive and not m.anonymous]:
            if member.pid is None or member.pid == os.getpid():
                raise TwinError(f"the process of participant {member.name!r} cannot be killed", where="twin kill_at")
            with contextlib.suppress(ProcessLookupError):  # another thread of the same process came first
                os.kill(member.pid, getattr(signal, "SIGKILL", signal.SIGTERM))
            self._lab.world.lose(member, "killed by the twin (kill_at)")

    def _reset(self, request: dict[str, Any]) -> dict[str, Any]:
        self._lab.world.reset()
        return {}
