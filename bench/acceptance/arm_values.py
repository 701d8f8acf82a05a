"""Values of an arm's metrics: each of a replicate, many of a joint, and how replicates scatter."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from bench.acceptance.measured import SCATTER, Measured


@dataclass(frozen=True)
class ArmValue:
    """One value.

    Parameters
    ----------
    replicate : int
        Number of the phase, pose or level it comes from.
    one : Measured
    speed : float
        With sign [rad/s]; NaN where it has none.
    joint : int or None
        From 0, where the value is a joint's and its limit may depend on it.
    """

    replicate: int
    one: Measured
    speed: float = math.nan
    joint: int | None = None


Values = list[ArmValue]


def with_scatter(found: Sequence[ArmValue]) -> Values:
    """Add to each budget how far magnitudes of one joint and direction scatter, pooled; nothing where none repeats."""
    groups: dict[tuple[int | None, float], list[float]] = defaultdict(list)
    for value in found:
        groups[_group(value)].append(abs(value.one.value))
    freedom = sum(len(values) - 1 for values in groups.values())
    if freedom < 1:
        return list(found)
    by_joint: dict[int | None, tuple[float, float]] = {}
    for joint in {value.joint for value in found}:
        own = [values for (other, _), values in groups.items() if other == joint]
        free = sum(len(values) - 1 for values in own)
        square = sum(float(np.sum((np.array(values) - np.mean(values)) ** 2)) for values in own)
        if free:
            by_joint[joint] = math.sqrt(square / free), float(free)
    return [
        value
        if value.joint not in by_joint
        else replace(
            value,
            one=replace(
                value.one,
                budget={**value.one.budget, SCATTER: by_joint[value.joint][0]},
                degrees_of_freedom={**value.one.degrees_of_freedom, SCATTER: by_joint[value.joint][1]},
            ),
        )
        for value in found
    ]


def _group(value: ArmValue) -> tuple[int | None, float]:
    return value.joint, float(np.sign(value.speed)) if math.isfinite(value.speed) else 0.0
