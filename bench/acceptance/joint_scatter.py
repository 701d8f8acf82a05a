"""How far replicates of a joint's run scatter, as part of each one's budget."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bench.acceptance.joint_evidence import Stretch
from bench.acceptance.measured import SCATTER, Measured
from bench.errors import Refused

#: A metric's values: replicate, speed with sign [rad/s] (NaN where it has none), and figures.
Values = list[tuple[int, float, Measured]]


def with_scatter(found: Sequence[tuple[Stretch, Measured]], *, signed: bool = True) -> Values:
    """Add to each budget how far replicates of one direction scatter, pooled over directions.

    ``signed`` False where the sign says nothing, as of the largest deviation either way.

    Raises
    ------
    Refused
        ``too_few_replicates``: no direction has two.
    """
    groups: dict[int, list[float]] = defaultdict(list)
    for stretch, one in found:
        groups[stretch.direction].append(one.value if signed else abs(one.value))
    freedom = sum(len(values) - 1 for values in groups.values())
    if freedom < 1:
        raise Refused(
            "a single replicate in each direction: nothing tells how far it scatters",
            reason="too_few_replicates",
            remedy="Record at least two",
        )
    square = sum(float(np.sum((np.array(values) - np.mean(values)) ** 2)) for values in groups.values())
    scatter = math.sqrt(square / freedom)
    return [
        (
            stretch.phase.replicate,
            stretch.phase.angular_speed_rad_s,
            replace(one, budget={**one.budget, SCATTER: scatter}, degrees_of_freedom={SCATTER: float(freedom)}),
        )
        for stretch, one in found
    ]
