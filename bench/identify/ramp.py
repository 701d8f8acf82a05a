"""Locked-output torque ramps: split into loading and unloading branches."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bench.errors import Refused

Floats = NDArray[np.float64]

KEPT_HZ = 50.0
TURN = 0.05
"""A turn counts when the deflection goes back by this share of its range."""
FEWEST_BRANCHES = 4


@dataclass(frozen=True)
class Ramp:
    """One stretch of ramps, uniformly sampled.

    Parameters
    ----------
    rate_hz : float
    torque : (n,) float64
        Transducer [N.m].
    deflection : (n,) float64
        Joint-referred motor angle less joint angle [rad].
    command : (n,) float64, optional
        Joint-referred motor torque commanded [N.m]; for the torque scale.
    """

    rate_hz: float
    torque: Floats
    deflection: Floats
    command: Floats | None = None


@dataclass(frozen=True)
class Branches:
    """Averages (m,) of all stretches, one branch after another.

    ``direction`` is the sign of the deflection's motion, ``travel`` the way since the last turn [rad], ``fresh`` marks
    where a stretch begins, whose hysteresis is not known. ``lengths`` counts the samples of each branch, ``ways`` is
    its whole travel [rad]; each average is over ``step`` samples.
    """

    torque: Floats
    deflection: Floats
    command: Floats | None
    direction: Floats
    travel: Floats
    lengths: list[int]
    ways: list[float]
    fresh: list[bool]
    step: int


def branches(stretches: list[Ramp], *, kept_hz: float = KEPT_HZ, where: str) -> Branches:
    """Split at the turns, then average to ``kept_hz`` within each branch.

    Raises
    ------
    Refused
        ``too_few_cycles``: fewer than four branches; ``no_deflection``.
    """
    columns: dict[str, list[Floats]] = {"torque": [], "deflection": [], "command": [], "direction": [], "travel": []}
    lengths: list[int] = []
    ways: list[float] = []
    fresh: list[bool] = []
    step = max(1, round(stretches[0].rate_hz / kept_hz)) if stretches else 1
    told = all(one.command is not None for one in stretches)
    for one in stretches:
        deflection = one.deflection
        span = float(np.ptp(deflection)) if len(deflection) else 0.0
        if not span > 0.0:
            raise Refused(
                "the deflection does not change",
                reason="no_deflection",
                where=where,
                remedy="Lock the output and ramp the torque; check that both encoders are recorded",
            )
        # the turn's own deflection starts a branch: an average about it would cut the corner
        turns = [0, *_turns(deflection, TURN * span), len(deflection) - 1]
        begins = True
        for start, stop in pairwise(turns):
            count = (stop - start) // step
            direction = float(np.sign(deflection[stop] - deflection[start]))
            if count < 3 or direction == 0.0:
                continue
            part = slice(start, start + count * step)
            lengths.append(count)
            ways.append(abs(float(deflection[stop] - deflection[start])))
            fresh.append(begins)
            begins = False
            moved = np.maximum(direction * (deflection[part] - deflection[start]), 0.0)
            columns["direction"].append(np.full(count, direction))
            columns["travel"].append(_average(moved, step))
            columns["torque"].append(_average(one.torque[part], step))
            columns["deflection"].append(_average(deflection[part], step))
            if told and one.command is not None:
                columns["command"].append(_average(one.command[part], step))
    if len(lengths) < FEWEST_BRANCHES:
        raise Refused(
            f"{len(lengths)} branches of loading and unloading",
            reason="too_few_cycles",
            where=where,
            remedy="Ramp up and down between both ends at least twice",
        )
    joined = {name: np.concatenate(parts) for name, parts in columns.items() if parts}
    return Branches(
        joined["torque"], joined["deflection"], joined.get("command"), joined["direction"], joined["travel"],
        lengths, ways, fresh, step,
    )  # fmt: skip


def _average(values: Floats, step: int) -> Floats:
    return np.asarray(values.reshape(-1, step).mean(axis=1))


def _turns(values: Floats, threshold: float) -> list[int]:
    """Indices of the extremes between which the values go by more than ``threshold``."""
    found: list[int] = []
    low = high = 0
    way = 0
    for i, x in enumerate(values.tolist()):
        if x > values[high]:
            high = i
        if x < values[low]:
            low = i
        if way >= 0 and values[high] - x > threshold:
            if way > 0 or high > 0:
                found.append(high)
            way, low = -1, i
        elif way <= 0 and x - values[low] > threshold:
            if way < 0 or low > 0:
                found.append(low)
            way, high = 1, i
    return found
