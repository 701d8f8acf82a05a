"""The whole way an arm is going to follow, as arrays: what a plan hands to the preflight check.

::

    move = ArmPath.of("moving to the centre", time, q, v, a)
    press = ArmPath.of("pressing 5 N", time, q, v, a, force_needed=5.0, direction=(0.0, 0.0, -1.0))
    path = ArmPath.joined([move, press])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bench.errors import ModelError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ArmPath:
    """Samples of a wanted motion of ``n`` joints at ``k`` instants.

    Parameters
    ----------
    time : (k,) float64
        Instants [s], increasing.
    q, v, a : (k, n) float64
        Wanted joint positions [rad], speeds [rad/s] and accelerations [rad/s2].
    force_needed : (k,) float64
        Contact force the arm must be able to exert there [N]; 0 where nothing is touched.
    direction : (k, 3) float64
        Unit vector of that force in the base frame: the force the arm exerts on what it touches. Zero where none is.
    wrench : (k, 6) float64, or None
        Wrench [f, m] the arm exerts at its tip on what it touches, base frame [N, N.m]; it adds ``J^T wrench`` to the
        torques. None: ``force_needed`` along ``direction``.
    led : (k,) bool, or None
        Where the tip is led through space, so that the Jacobian is inverted and a singular pose is forbidden. None:
        where ``direction`` is given. A motion of the joints alone may pass a singular pose.
    segments : tuple of (int, str)
        First index of each stretch and what the arm does in it, for messages.
    """

    time: Floats
    q: Floats
    v: Floats
    a: Floats
    force_needed: Floats
    direction: Floats
    wrench: Floats | None = None
    led: NDArray[np.bool_] | None = None
    segments: tuple[tuple[int, str], ...] = ()

    def __post_init__(self) -> None:
        k, n = self.q.shape
        shapes = {
            "time": (self.time, (k,)),
            "v": (self.v, (k, n)),
            "a": (self.a, (k, n)),
            "force_needed": (self.force_needed, (k,)),
            "direction": (self.direction, (k, 3)),
        }
        if self.wrench is not None:
            shapes["wrench"] = (self.wrench, (k, 6))
        if self.led is not None:
            shapes["led"] = (np.asarray(self.led, dtype=np.float64), (k,))
        for name, (values, shape) in {"q": (self.q, (k, n)), **shapes}.items():
            if values.shape != shape:
                raise _bad(f"{name} has the shape {values.shape} where q has {(k, n)}", "shape")
            if not np.all(np.isfinite(values)):
                row = int(np.argwhere(~np.isfinite(values))[0][0])
                raise _bad(f"{name} is not finite at sample {row}", "not_finite")
        if k == 0:
            raise _bad("it has no sample", "empty")
        if np.any(np.diff(self.time) < 0.0):
            raise _bad("its time runs backwards", "time")

    @classmethod
    def of(
        cls,
        text: str,
        time: ArrayLike,
        q: ArrayLike,
        v: ArrayLike,
        a: ArrayLike,
        *,
        force_needed: float | ArrayLike = 0.0,
        direction: ArrayLike = (0.0, 0.0, 0.0),
        wrench: ArrayLike | None = None,
        led: bool | None = None,
    ) -> ArmPath:
        """Return one stretch, ``text`` says what the arm does; force and direction are given once or per sample."""
        times = np.asarray(time, dtype=np.float64)
        k = len(times)
        way = np.broadcast_to(np.asarray(direction, dtype=np.float64), (k, 3))
        length = np.linalg.norm(way, axis=1, keepdims=True)
        return cls(
            times,
            np.asarray(q, dtype=np.float64),
            np.asarray(v, dtype=np.float64),
            np.asarray(a, dtype=np.float64),
            np.array(np.broadcast_to(np.asarray(force_needed, dtype=np.float64), (k,))),
            np.divide(way, length, out=np.zeros((k, 3)), where=length > 0.0),
            None if wrench is None else np.array(np.broadcast_to(np.asarray(wrench, dtype=np.float64), (k, 6))),
            None if led is None else np.full(k, led),
            ((0, text),),
        )

    @classmethod
    def standing(cls, text: str, q: ArrayLike, duration_s: float, **contact: object) -> ArmPath:
        """Return standing still at ``q`` (n,) for ``duration_s``; ``contact`` as for :meth:`of`."""
        pose = np.asarray(q, dtype=np.float64)
        rows = np.vstack([pose, pose])
        still = np.zeros_like(rows)
        return cls.of(text, [0.0, duration_s], rows, still, still, **contact)  # type: ignore[arg-type]

    @classmethod
    def joined(cls, parts: Sequence[ArmPath]) -> ArmPath:
        """Return the parts one after the other, each beginning when the one before has ended."""
        starts = np.concatenate([[0.0], np.cumsum([part.time[-1] - part.time[0] for part in parts])])
        firsts = np.concatenate([[0], np.cumsum([len(part.time) for part in parts])])
        wrench = None
        if any(part.wrench is not None for part in parts):
            wrench = np.concatenate([part.wrenches() for part in parts])
        return cls(
            np.concatenate([part.time - part.time[0] + start for part, start in zip(parts, starts, strict=False)]),
            np.concatenate([part.q for part in parts]),
            np.concatenate([part.v for part in parts]),
            np.concatenate([part.a for part in parts]),
            np.concatenate([part.force_needed for part in parts]),
            np.concatenate([part.direction for part in parts]),
            wrench,
            np.concatenate([part.led_samples() for part in parts]),
            tuple(
                (int(first) + index, text)
                for part, first in zip(parts, firsts, strict=False)
                for index, text in part.segments
            ),
        )

    @property
    def size(self) -> int:
        """Number of joints."""
        return int(self.q.shape[1])

    def wrenches(self) -> Floats:
        """Return (k, 6) the wrench exerted on what is touched, see ``wrench``."""
        if self.wrench is not None:
            return self.wrench
        force = self.force_needed[:, None] * self.direction
        return np.hstack([force, np.zeros_like(force)])

    def led_samples(self) -> NDArray[np.bool_]:
        """Return (k,) where the tip is led, see ``led``."""
        return np.any(self.direction != 0.0, axis=1) if self.led is None else self.led

    def text(self, index: int) -> str:
        """Return what the arm does at sample ``index``."""
        said = [text for first, text in self.segments if first <= index]
        return said[-1] if said else ""


def _bad(what: str, reason: str) -> ModelError:
    return ModelError(what, reason=reason, where="path of the arm", remedy="Make the plan's path anew")
