"""What a specimen still remembers of the presses before: how far off is a press analysed as if there had been none?

A relaxing specimen that was pressed and released keeps a dent that creeps back; a press that comes too early touches
later and presses softer tissue. The fitted law is run along the whole record, all presses in turn with the rests
between, and along each press alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.errors import Refused
from bench.identify.frame import Frame, compensate_frame
from bench.identify.press import Press, decimate

Floats = NDArray[np.float64]

RATE_HZ = 50.0
LONGEST_STEP_S = 0.25
LONGEST_REST_S = 3600.0
NOTED = 0.01
"""From this share of the force on, memory is noted and its source enters the uncertainty at full size."""
NOT_RECOVERED = "the specimen had not recovered"
REFUSED = 0.05
"""Beyond this share of the force there is no number: the answer would be the correction's."""


@dataclass(frozen=True)
class Memory:
    """What one press inherits from those before it.

    Parameters
    ----------
    name : str
        Of the press.
    rest_s : float
        From the end of the record of the press before to the start of this one [s].
    dent_mm : float
        How far below its own surface the specimen still is when it is touched again [mm].
    peak_share : float
        Relative change of the peak force by the presses before [1]; negative when softer.
    force_share : float
        Relative change of the force at the reference depth when that is counted from where this press touches [1].
    """

    name: str
    rest_s: float
    dent_mm: float
    peak_share: float
    force_share: float

    @property
    def share(self) -> float:
        """The larger of both magnitudes [1]."""
        return max(abs(self.peak_share), abs(self.force_share))

    def record(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)


@dataclass(frozen=True)
class MemoryCheck:
    """Memories of the presses that have a history; of *every* press its change of force and its dent.

    ``changes`` are time [s] and change per unit of the force scale [1]; ``dents_mm`` are zero without a history.
    """

    memories: tuple[Memory, ...]
    changes: tuple[tuple[Floats, Floats], ...]
    dents_mm: tuple[float, ...]
    needed_rest_s: float

    @property
    def worst(self) -> Memory | None:
        """The press that remembers most; None when no press has a known history."""
        return max(self.memories, key=lambda one: one.share, default=None)

    def note(self) -> str:
        """Say what is wrong and how long to settle; empty when all is well."""
        worst = self.worst
        if worst is None or worst.share <= NOTED:
            return ""
        return f"{NOT_RECOVERED}: {_what(worst)}; {self._remedy(worst)}"

    def refuse_beyond(self, limit: float) -> None:
        """Raise :class:`~bench.errors.Refused` (``not_recovered``) when a press remembers more than this share [1]."""
        worst = self.worst
        if worst is not None and worst.share > limit:
            raise Refused(
                f"{NOT_RECOVERED} from the press before: {_what(worst)}, {limit:.0%} are allowed",
                reason="not_recovered",
                where=worst.name,
                remedy=self._remedy(worst).capitalize(),
            )

    def _remedy(self, worst: Memory) -> str:
        return (
            f"settle so that at least {self.needed_rest_s:.0f} s pass between the end of a press and the next, "
            f"{self.needed_rest_s - worst.rest_s:.0f} s more than here"
        )


def _what(worst: Memory) -> str:
    return (
        f"{worst.name} touches {worst.dent_mm:.2g} mm late and its force is off by {worst.share:.1%} after a rest of "
        f"{worst.rest_s:.0f} s"
    )


class _Specimen:
    """State of a relaxing specimen of unit force scale along a path; its free surface carries no force.

    In contact the elastic force follows the depth; off the tool it falls so that the whole force stays zero (T. C. T.
    Ting, J. Appl. Mech. 33 (1966) 845), which is slower than the relaxation: for one term by 1 / (1 - g).
    """

    def __init__(self, shape: Floats, d_ref: float) -> None:
        self.n, self.d_ref = float(shape[0]), d_ref
        self.terms = list(zip(shape[1::2].tolist(), shape[2::2].tolist(), strict=True))
        self.left = 1.0 - sum(share for share, _ in self.terms)
        self.elastic = 0.0
        self.overstress = [0.0] * len(self.terms)

    def copy(self) -> _Specimen:
        other = object.__new__(_Specimen)
        other.__dict__.update(self.__dict__, overstress=list(self.overstress))
        return other

    @property
    def dent_mm(self) -> float:
        return float(self.d_ref * max(self.elastic, 0.0) ** (1.0 / self.n))

    def step(self, duration_s: float, depth_mm: float) -> float:
        """Advance to a depth; return the force. The elastic force is linear in time over the step."""
        decays = [math.exp(-duration_s / tau) for _, tau in self.terms]
        gains = [share * tau / duration_s * (1.0 - e) for (share, tau), e in zip(self.terms, decays, strict=True)]
        kept = sum(e * h for e, h in zip(decays, self.overstress, strict=True))
        held = self.left + sum(gains)
        start = kept - sum(gains) * self.elastic
        wanted = float((max(depth_mm, 0.0) / self.d_ref) ** self.n)
        force = held * wanted + start
        if depth_mm <= 0.0 or force <= 0.0:
            # the tool is off: the surface goes its own way, at zero force
            wanted, force = max(-start / held, 0.0), 0.0
        rate = wanted - self.elastic
        self.overstress = [e * h + gain * rate for e, h, gain in zip(decays, self.overstress, gains, strict=True)]
        self.elastic = wanted
        return float(force)

    def rest(self, duration_s: float) -> None:
        """Let it recover without a tool."""
        if duration_s <= 0.0:
            return
        count = max(8, math.ceil(min(duration_s, 100.0) / LONGEST_STEP_S))
        for _ in range(count):
            self.step(duration_s / count, 0.0)

    def follow(self, time_s: Floats, depth_mm: Floats) -> tuple[Floats, float]:
        """Follow a path (n,); return the force (n,) and the dent [mm] when it is touched."""
        force, dent = [0.0], self.dent_mm
        touched = False
        times, depths = time_s.tolist(), depth_mm.tolist()
        for (before, now), depth in zip(pairwise(times), depths[1:], strict=True):
            force.append(self.step(now - before, depth))
            if not touched:
                touched = force[-1] > 0.0
                dent = dent if touched else self.dent_mm
        return np.array(force), dent


def with_history(presses: Sequence[Press]) -> tuple[Press, ...]:
    """Return presses of one record, in time order, each with those before it (averaged to 50 Hz) as its history."""
    earlier: list[Press] = []
    found = []
    for press in presses:
        if earlier:
            # where two presses share the standing between them it belongs to the later one here
            last = earlier[-1]
            stop = int(np.searchsorted(last.time_s, press.time_s[0]))
            cut = {name: getattr(last, name)[:stop] for name in ("time_s", "position_mm", "force_N")}
            earlier[-1] = replace(last, **cut) if stop < len(last.time_s) else last
        found.append(replace(press, history=tuple(earlier)))
        earlier.append(decimate(replace(press, history=()), RATE_HZ))
    return tuple(found)


def check_memory(
    presses: Sequence[Press],
    shape: Floats,
    contacts_mm: Sequence[float],
    force_zeros_N: Sequence[float],
    *,
    d_ref: float,
    frame: Frame,
) -> MemoryCheck:
    """Run a relaxing law along the whole record and along each press alone.

    Parameters
    ----------
    presses : sequence of Press
        With their histories; presses without one have no memory that could be known.
    shape : (1 + 2k,) float64
        Exponent, then share and relaxation time [s] of k terms; a law without terms remembers nothing.
    contacts_mm, force_zeros_N : sequences of float
        Of the presses. All presses of the record are counted from the shallowest of these contact points: that one was
        delayed least by a dent.
    d_ref : float
        Reference depth [mm].
    frame : Frame
    """
    found: list[_Replay] = []
    if len(shape) >= 3:
        surface = min(contacts_mm)
        states: dict[tuple[int, ...], _Specimen] = {}
        for i, (press, zero) in enumerate(zip(presses, force_zeros_N, strict=True)):
            if press.history:
                before = _after(press.history, _Specimen(shape, d_ref), surface, frame, states)
                own = decimate(press, RATE_HZ)
                rest = float(own.time_s[0] - press.history[-1].time_s[-1])
                depth = compensate_frame(own.position_mm, own.force_N - zero, frame.stiffness_N_mm) - surface
                alone, _ = _Specimen(shape, d_ref).follow(own.time_s, depth)
                found.append(_Replay(i, press.name, before, own.time_s, depth, alone, rest))
    answers = [one.memory(one.rest_s) for one in found]
    changes: list[tuple[Floats, Floats]] = [(np.zeros(1), np.zeros(1))] * len(presses)
    dents = [0.0] * len(presses)
    for one, (memory, change) in zip(found, answers, strict=True):
        changes[one.index], dents[one.index] = (one.time_s, change), memory.dent_mm
    memories = tuple(memory for memory, _ in answers)
    worst = max(range(len(found)), key=lambda k: memories[k].share, default=None)
    needed = 0.0 if worst is None or memories[worst].share <= NOTED else _needed_rest(found[worst])
    return MemoryCheck(memories, tuple(changes), tuple(dents), needed)


@dataclass(frozen=True)
class _Replay:
    """One press to be run after a rest of any length."""

    index: int
    name: str
    before: _Specimen
    time_s: Floats
    depth_mm: Floats
    alone: Floats
    rest_s: float

    def memory(self, rest_s: float) -> tuple[Memory, Floats]:
        """Memory after a rest [s], and the change of force (n,) per unit of force scale."""
        state = self.before.copy()
        state.rest(rest_s)
        force, dent = state.follow(self.time_s, self.depth_mm)
        top = int(np.argmax(self.depth_mm))
        rise = slice(int(np.argmax(self.depth_mm > 0.0)), top + 1)
        deep, peak = float(self.depth_mm[top]), float(self.alone.max())
        at = min(self.before.d_ref, deep - dent)
        base = float(np.interp(at, self.depth_mm[rise], self.alone[rise]))
        shifted = float(np.interp(at + dent, self.depth_mm[rise], force[rise]))
        share = shifted / base - 1.0 if base > 0.0 else math.inf
        return Memory(self.name, rest_s, dent, float(force.max()) / peak - 1.0, share), force - self.alone


def _after(
    history: tuple[Press, ...], fresh: _Specimen, surface_mm: float, frame: Frame,
    states: dict[tuple[int, ...], _Specimen],
) -> _Specimen:  # fmt: skip
    """State at the end of the last press of a history; each press of a record is run once."""
    if not history:
        return fresh
    key = tuple(id(press) for press in history)
    if key not in states:
        state = _after(history[:-1], fresh, surface_mm, frame, states).copy()
        press = history[-1]
        if len(history) > 1:
            state.rest(float(press.time_s[0] - history[-2].time_s[-1]))
        quiet = press.force_N[press.baseline] if press.baseline.stop > press.baseline.start else press.force_N[:1]
        force = press.force_N - float(quiet.mean())
        state.follow(press.time_s, compensate_frame(press.position_mm, force, frame.stiffness_N_mm) - surface_mm)
        states[key] = state
    return states[key]


def _needed_rest(replay: _Replay) -> float:
    """Rest [s] after which the share falls to what need not be noted; rounded up to the second."""
    low, high = replay.rest_s, 2.0 * max(replay.rest_s, 1.0)
    while replay.memory(high)[0].share > NOTED and high < LONGEST_REST_S:
        low, high = high, 2.0 * high
    while high - low > 0.5:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if replay.memory(middle)[0].share > NOTED else (low, middle)
    return math.ceil(high)
