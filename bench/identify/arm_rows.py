"""From an arm's records to rows of its regression: torques and base columns in one band, a few thousand rows at a time.

Positions are low-passed well above the band and differentiated; the regressor is made of that at every row; then torque
and every column go through the band's filter together and are decimated. So what a filter does to one it does to the
others, and memory stays flat for records of any length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bench.errors import Refused
from bench.identify.arm_band import StreamedBand
from bench.identify.arm_base import BaseParameters
from bench.identify.arm_record import ArmRecord
from bench.identify.blas import single_thread
from bench.identify.filtering import REACH, BandRecord, LowPass, differentiate
from bench.identify.joint_dynamics import LEAK, NOISE_FACTOR, direction_filter, velocity_noise

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

CHUNK = 1024
MOTION = 8192
GATHERED = 128
LOOKED_AT = 16384
"""Rows, in the middle of a record, that its velocity's noise is read from."""
ROWS_PER_CUTOFF = 10.0
POSITION_FACTOR = 5.0
"""Positions are low-passed at so many times the band before they are differentiated."""
SPEED_SHARE = 0.01
"""A joint slower than this share of its speed limit is in the dead zone."""


@dataclass(frozen=True)
class RowSettings:
    """How rows are made.

    Parameters
    ----------
    band : LowPass or None
        Of torques and columns; None takes every row as it is.
    position_filter : LowPass or None
        Of positions, before they are differentiated.
    still_speed : (n,)
        Dead zone [rad/s]: a row does not count for a joint that is slower, for friction is no function of speed there.
    leak : float or None
        Share of the dead zone that the band may spread into a row that counts [1]. None asks only whether the joint's
        speed in the band is above the dead zone: more rows count, with what friction does at reversals in them.
    """

    band: LowPass | None
    position_filter: LowPass | None
    still_speed: Floats
    leak: float | None = LEAK

    def thinning(self, rate_hz: float) -> int:
        """One row in so many is made: what is left is ten times the positions' cut-off at least.

        Torque then goes through the positions' filter too, so what lies between the rows is below a ten-thousandth.
        """
        if self.band is None or self.position_filter is None:
            return 1
        return max(1, int(rate_hz / (ROWS_PER_CUTOFF * self.position_filter.cutoff_hz)))

    def record_of(self, rate_hz: float) -> BandRecord | None:
        """What the band does to a record's rows."""
        return None if self.band is None else self.band.record(rate_hz / self.thinning(rate_hz))

    def at(self, band: LowPass | None) -> RowSettings:
        """The same in another band."""
        return replace(self, band=band)


@dataclass(frozen=True)
class FilteredRows:
    """Rows in the band: ``columns`` (m, width) as of :meth:`BaseParameters.fill`, ``torque`` and ``moving`` (m, n)."""

    columns: Floats
    torque: Floats
    moving: Flags


def dead_zone(record: ArmRecord, band: LowPass | None, speed_limit: Floats) -> Floats:
    """Dead zone (n,) [rad/s]: a hundredth of the joints' speed limits, or four s.d. of the velocity's noise if more."""
    share = SPEED_SHARE * np.where(np.isfinite(speed_limit), speed_limit, 0.0)
    if band is None:
        return np.asarray(share)
    low = direction_filter(band, record.rate_hz)
    first = max(0, len(record.position) - LOOKED_AT) // 2
    noise = [velocity_noise(column, record.rate_hz, low) for column in record.position[first : first + LOOKED_AT].T]
    return np.maximum(share, NOISE_FACTOR * np.array(noise))


def position_filter(band: LowPass | None, rate_hz: float) -> LowPass | None:
    """Low-pass of positions, five times the band; none where the record has no room for it."""
    if band is None or POSITION_FACTOR * band.cutoff_hz > 0.2 * rate_hz:
        return None
    return LowPass(POSITION_FACTOR * band.cutoff_hz)


class RowMaker:
    """Makes rows of records, one after the other; rows that two pieces of a record share come out once."""

    def __init__(self, base: BaseParameters, settings: RowSettings) -> None:
        self.base, self.settings = base, settings
        n = base.law.n
        self._wide = np.empty((CHUNK, base.width + 2 * n))
        self._last: tuple[str, tuple[str, ...], int] = ("", (), -1)
        self._index_before = 0

    def rows(self, records: Iterable[ArmRecord]) -> Iterator[FilteredRows]:
        """Rows of records in time order.

        Raises
        ------
        Refused
            ``shape``; ``band``: a record is too short for its filters.
        """
        for record in records:
            if record.n != self.base.law.n:
                raise Refused(
                    f"a record of {record.n} joints for an arm of {self.base.law.n}",
                    reason="shape",
                    where=record.source or "regression of an arm",
                    remedy="Take the profile of the arm that was recorded",
                )
            with single_thread():
                yield from self._record(record)

    def _record(self, record: ArmRecord) -> Iterator[FilteredRows]:
        source, phases, last = self._last
        goes_on = (source, phases) == (record.source, record.phases) and record.first_index > self._index_before
        done = last if goes_on else -1
        self._index_before = record.first_index
        band, rate, k = self.settings.band, record.rate_hz, len(record.position)
        edge = self._edge(rate)
        thin = self.settings.thinning(rate)
        edge += -(record.first_index + edge) % thin  # rows that are made are multiples of the thinning in their record
        index = (record.first_index + edge) // thin
        low = None if band is None else StreamedBand(band, rate / thin, self._wide.shape[1], index)
        needed = edge + (0 if low is None else low.reach * thin)
        if 2 * needed >= k:
            raise Refused(
                f"{k} rows at {rate:.4g} Hz are too few: the filters need {needed} at each end",
                reason="band",
                where=record.source or "regression of an arm",
                remedy="Take a longer stretch, or a higher cut-off",
            )
        step = 1 if low is None else low.step
        waiting: list[Floats] = []
        motion = MOTION // thin * thin
        for start in range(edge, k - edge, motion):
            for first, wide in self._wide_rows(record, start, min(start + motion, k - edge), low):
                spare = max(0, -(-(done + 1 - first) // step))  # came out of the piece before
                if spare < len(wide):
                    waiting.append(wide[spare:])
                    done = first + (len(wide) - 1) * step
                if sum(map(len, waiting)) >= GATHERED:
                    yield self._split(np.concatenate(waiting))
                    waiting = []
        if waiting:
            yield self._split(np.concatenate(waiting))
        self._last = (record.source, record.phases, done)

    def _edge(self, rate: float) -> int:
        """Rows at the ends of a record whose motion is not known well."""
        positions, band = self.settings.position_filter, self.settings.band
        edge = REACH + (0 if positions is None else positions.settle(rate))
        return edge + (0 if band is None else direction_filter(band, rate).settle(rate))

    def _wide_rows(
        self, record: ArmRecord, start: int, stop: int, low: StreamedBand | None
    ) -> Iterator[tuple[int, Floats]]:
        """Rows from start to stop: columns, torques, dead zones; filtered if they are to be."""
        halo, rate = self._edge(record.rate_hz), record.rate_hz
        window = slice(max(0, start - halo), min(len(record.position), stop + halo))
        positions, band = self.settings.position_filter, self.settings.band
        q = record.position[window]
        if positions is not None:
            q = positions.smooth(q, rate)
        v, a = np.empty_like(q), np.empty_like(q)
        for j in range(q.shape[1]):
            found = differentiate(np.ascontiguousarray(q[:, j]), rate)
            v[:, j], a[:, j] = found.velocity, found.acceleration
        slow = v if band is None else direction_filter(band, rate).smooth(v, rate)
        thin = self.settings.thinning(rate)
        core = slice(start - window.start, stop - window.start, thin)
        torque = record.torque[window]
        if thin > 1 and positions is not None:
            torque = positions.smooth(torque, rate)
        q, v, a, slow, torque = (np.ascontiguousarray(x[core]) for x in (q, v, a, slow, torque))
        still = self.settings.leak is not None or band is None
        zone = self.base.law.still(slow, self.settings.still_speed) if still else v
        n, width = q.shape[1], self.base.width
        chunk = CHUNK if low is None else max(low.block, CHUNK // low.block * low.block)
        if chunk > len(self._wide):
            self._wide = np.empty((chunk, width + 2 * n))
        for first in range(0, len(q), chunk):
            rows = slice(first, min(first + chunk, len(q)))
            wide = self._wide[: rows.stop - first]
            self.base.fill(q[rows], v[rows], a[rows], slow[rows], wide[:, :width])
            wide[:, width : width + n] = torque[rows]
            wide[:, width + n :] = zone[rows]
            if low is None:
                yield record.first_index + start + first, wide.copy()
            else:
                yield from low.add(wide)

    def _split(self, wide: Floats) -> FilteredRows:
        n, width = self.base.law.n, self.base.width
        torque, zone = wide[:, width : width + n], wide[:, width + n :]
        leak = self.settings.leak
        if leak is None and self.settings.band is not None:
            moving = ~self.base.law.still(zone, self.settings.still_speed)
        else:
            moving = np.abs(zone) <= (leak or 0.0)
        return FilteredRows(wide[:, :width], torque, moving)


__all__ = ["FilteredRows", "RowMaker", "RowSettings", "dead_zone", "position_filter"]
