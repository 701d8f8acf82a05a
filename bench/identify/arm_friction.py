"""Friction of every joint of an arm over its speed: what is left of the torque when the rigid arm is taken away.

::

    bins = SpeedBins(6)
    for one in stretches(run, rig, ("train", "uncompensated")):
        bins.add(one, one.torque - model.inverse_dynamics_rows(one.position, one.velocity, one.acceleration))
    friction = bins.fit_all()                      # a FrictionFit per joint, as for a single joint

Samples are sorted into bins of speed, so a record of any length takes the same room, and every speed counts as much as
any other, however long it was held: a series hurries through the slow speeds at which friction decides. After a
reversal a joint must have gone some way, and some time must have passed, before it counts as sliding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bench.errors import Refused
from bench.identify.arm_stretch import ArmStretch
from bench.identify.blas import single_thread
from bench.identify.estimate import Estimate
from bench.identify.friction_answer import answer
from bench.identify.friction_design import Design
from bench.identify.friction_fit import FrictionFit, Shares
from bench.identify.friction_regression import FrictionRegression

Floats = NDArray[np.float64]

SLOWEST = 3e-3
"""Slower is not sliding [rad/s]."""
FASTEST = 10.0
PER_DECADE = 12
SETTLE_TRAVEL_RAD = 2e-3
SETTLE_S = 0.15
BLOCK_S = 2.0
MOST_BLOCKS = 64
FEWEST_SAMPLES = 5
EDGE_S = 0.1
"""Ends of a stretch that carry the transients of its filter."""
_COUNT, _SPEED, _SQUARE, _TORQUE, _TEMPERATURE, _WARM = range(6)


class SpeedBins:
    """Sums of friction over bins of signed speed, block by block of the record.

    Parameters
    ----------
    size : int
        Joints.
    slowest, fastest : float
        Speeds that count [rad/s].
    """

    def __init__(self, size: int, *, slowest: float = SLOWEST, fastest: float = FASTEST) -> None:
        self.size = size
        self.slowest, self.fastest = slowest, fastest
        self.half = max(2, math.ceil(PER_DECADE * math.log10(fastest / slowest)))
        self._blocks: list[Floats] = []
        self._merged = 1
        self._open: Floats | None = None
        self._open_parts = 0
        self.seconds = np.zeros(size)
        self.used_s = np.zeros(size)
        self.excluded: set[int] = set()

    def add(self, stretch: ArmStretch, friction: Floats, joints: Iterable[int] | None = None) -> None:
        """Take a stretch in.

        Parameters
        ----------
        stretch : ArmStretch
        friction : (k, n)
            Measured torque less that of the rigid arm [N.m].
        joints : iterable of int, optional
            Joints that count, from 0; all by default. One that only holds still leaves nothing anyway.
        """
        edge = math.ceil(EDGE_S * stretch.rate_hz)
        rows = max(1, round(BLOCK_S * stretch.rate_hz))
        which = range(self.size) if joints is None else tuple(joints)
        slides = {i: self._sliding(stretch, i) for i in which}
        for first in range(edge, len(stretch.time_s) - edge, rows):
            last = min(first + rows, len(stretch.time_s) - edge)
            block = np.zeros((self.size, 2 * self.half, 6))
            for i in which:
                self._sum(block[i], stretch, friction, slides[i], i, slice(first, last))
            self._take(block)

    def _sliding(self, stretch: ArmStretch, i: int) -> NDArray[np.bool_]:
        """Rows (k,) at which the joint has slid for long enough since it last turned back."""
        velocity, position = stretch.velocity[:, i], stretch.position[:, i]
        sign = np.sign(velocity) * (np.abs(velocity) >= 0.3 * self.slowest)
        changed = np.concatenate([[True], sign[1:] != sign[:-1]])
        since = np.maximum.accumulate(np.where(changed, np.arange(len(sign)), 0))
        travel = np.abs(position - position[since])
        waited = (np.arange(len(sign)) - since) / stretch.rate_hz
        fast = (np.abs(velocity) >= self.slowest) & (np.abs(velocity) < self.fastest)
        return fast & (travel >= SETTLE_TRAVEL_RAD) & (waited >= SETTLE_S)

    def _sum(
        self, sums: Floats, stretch: ArmStretch, friction: Floats, sliding: NDArray[np.bool_], i: int, rows: slice
    ) -> None:
        use = sliding[rows]
        self.seconds[i] += len(use) / stretch.rate_hz
        self.used_s[i] += float(use.sum()) / stretch.rate_hz
        speed = stretch.velocity[rows, i][use]
        if not len(speed):
            return
        place = np.floor(PER_DECADE * np.log10(np.abs(speed) / self.slowest)).astype(int).clip(0, self.half - 1)
        place += self.half * (speed > 0.0)
        warm = stretch.temperature[rows, i][use]
        known = np.isfinite(warm)
        values = (np.ones(len(speed)), speed, speed**2, friction[rows, i][use], np.where(known, warm, 0.0), known)
        for column, one in enumerate(values):
            sums[:, column] += np.bincount(place, weights=one, minlength=2 * self.half)

    def _take(self, block: Floats) -> None:
        self._open = block if self._open is None else self._open + block
        self._open_parts += 1
        if self._open_parts < self._merged:
            return
        self._blocks.append(self._open)
        self._open, self._open_parts = None, 0
        if len(self._blocks) == MOST_BLOCKS:
            self._blocks = [a + b for a, b in zip(self._blocks[::2], self._blocks[1::2], strict=True)]
            self._merged *= 2

    def _all(self) -> list[Floats]:
        return [*self._blocks, *([] if self._open is None else [self._open])]

    def fit_all(self, *, torque_scale: Iterable[Estimate] | None = None) -> tuple[FrictionFit, ...]:
        """:meth:`fit` of every joint."""
        scales = [None] * self.size if torque_scale is None else list(torque_scale)
        return tuple(self.fit(i, torque_scale=scale) for i, scale in zip(range(self.size), scales, strict=True))

    def fit(
        self,
        joint: int,
        model: Literal["stribeck", "coulomb_viscous"] | None = None,
        *,
        torque_scale: Estimate | None = None,
    ) -> FrictionFit:
        """Return the friction of one joint, from 0.

        Parameters
        ----------
        joint : int
        model : str, optional
            By default ``stribeck`` where friction falls with speed, else ``coulomb_viscous``.
        torque_scale : Estimate, optional
            What the friction handed over was made with: its uncertainty goes into the answer. 1 by default.

        Raises
        ------
        Refused
            ``one_direction``, ``too_few_speeds``; ``no_stribeck`` where that model was asked for.
        """
        design = self._design(joint)
        used = self.used_s[joint] / max(float(self.seconds[joint]), 1e-12)
        shares = Shares(used, 0.0, 1.0 - used, 0.0)
        scale = Estimate(1.0, 0.0, "1", "number") if torque_scale is None else torque_scale
        where = f"friction of joint {joint + 1}"
        with single_thread():
            if model != "coulomb_viscous":
                try:
                    regression = FrictionRegression(design, True, scale, None, where)
                    return answer(regression, regression.fit(ripple=False), 0.0, 0.0, shares)
                except Refused:
                    if model == "stribeck":
                        raise
            regression = FrictionRegression(design, False, scale, None, where)
            return answer(regression, regression.fit(ripple=False), 0.0, 0.0, shares)

    def _design(self, joint: int) -> Design:
        blocks = [block[joint] for block in self._all()]
        kept = [np.flatnonzero(block[:, _COUNT] >= FEWEST_SAMPLES) for block in blocks]
        rows = [block[use] for block, use in zip(blocks, kept, strict=True) if len(use)]
        where = f"friction of joint {joint + 1}"
        if not rows:
            raise Refused(
                "the joint never slides",
                reason="too_few_speeds",
                where=where,
                remedy="Take records in which it moves in both directions",
            )
        every = np.concatenate(rows)
        bins = np.concatenate([use for use in kept if len(use)])
        total = np.bincount(bins, weights=every[:, _COUNT], minlength=2 * self.half)
        for way, first in (("negative", 0), ("positive", self.half)):
            found = int(np.count_nonzero(total[first : first + self.half]))
            if found < 2:
                reason = "too_few_speeds" if found else "one_direction"
                raise Refused(
                    f"{found} speeds in the {way} direction, two at least are needed",
                    reason=reason,
                    where=where,
                    remedy="Take records of both directions and of several speeds",
                )
        count = every[:, _COUNT]
        speed = every[:, _SPEED] / count
        temperature = np.where(every[:, _WARM] > 0.0, every[:, _TEMPERATURE] / np.maximum(every[:, _WARM], 1.0), np.nan)
        known = np.isfinite(temperature)
        weight = count / total[bins]
        reference = float(np.average(temperature[known], weights=weight[known])) if known.any() else 25.0
        n = len(count)
        return Design(
            command=every[:, _TORQUE] / count,
            external=np.zeros(n),
            load=np.zeros(n),
            direction=np.sign(speed),
            velocity=speed,
            variance=np.maximum(every[:, _SQUARE] / count - speed**2, 0.0),
            warmer=np.where(known, temperature - reference, 0.0),
            ripple=np.zeros((n, 0), dtype=np.complex128),
            orders=(),
            root=np.sqrt(weight),
            lengths=[len(one) for one in rows],
            speeds=speed,
            reference_temperature=reference,
            temperature_known=bool(known.any()),
        )
