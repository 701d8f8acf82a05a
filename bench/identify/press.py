"""One press into the tissue as arrays, and what must hold before anything is fitted to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from bench.errors import Refused

Floats = NDArray[np.float64]


def _empty() -> slice:
    return slice(0, 0)


SEGMENTS = ("baseline", "rise", "hold", "unload", "residual")
FEWEST_RISE_SAMPLES = 8
FLAT_TOP_SAMPLES = 5
SLOWING_SHARE = 0.05


@dataclass(frozen=True)
class Press:
    """One approach, press, hold and release.

    Parameters
    ----------
    time_s, position_mm, force_N : (n,) float64
        Time [s], machine position [mm] positive into the tissue, contact force [N] positive when pressing.
    baseline, rise, hold, unload, residual : slice
        Standing in free air before the motion; motion from free air to the greatest depth; standing there; motion back;
        standing afterwards. An empty slice where the record has no such part.
    speed_mm_s : float
        Median measured speed of the rise [mm/s]; a label, no formula uses it.
    replicate : int
    name : str
        Where it comes from, for messages.
    history : tuple of Press
        The presses before it on the same specimen in the same record, in time order on the same clock; empty where none
        came before or nothing is known of them (:mod:`bench.identify.memory`).
    """

    time_s: Floats
    position_mm: Floats
    force_N: Floats
    baseline: slice
    rise: slice
    hold: slice = field(default_factory=_empty)
    unload: slice = field(default_factory=_empty)
    residual: slice = field(default_factory=_empty)
    speed_mm_s: float = float("nan")
    replicate: int = 0
    name: str = "press"
    history: tuple[Press, ...] = field(default=(), repr=False)

    def segment(self, name: str) -> slice:
        """Return the slice of one of :data:`SEGMENTS`."""
        if name not in SEGMENTS:
            raise ValueError(f"no segment {name!r}; there are {', '.join(SEGMENTS)}")
        part: slice = getattr(self, name)
        return part

    @property
    def peak(self) -> int:
        """Index of the greatest force of rise and hold."""
        stop = self.hold.stop if self.hold.stop > self.hold.start else self.rise.stop
        return int(self.rise.start) + int(np.argmax(self.force_N[self.rise.start : stop]))


def decimate(press: Press, rate_hz: float) -> Press:
    """Average blocks of samples down to about ``rate_hz``; a press sampled no faster is returned as it is.

    Time, position and force are averaged alike, so the pair stays true to the path: averaging commutes with the linear
    part of every law, and the power law is straight over a block. A last, incomplete block is dropped.
    """
    if len(press.time_s) < 2:
        return press
    step = float(np.median(np.diff(press.time_s)))
    block = round(1.0 / (rate_hz * step)) if step > 0.0 else 1
    if block < 2:
        return press
    count = len(press.time_s) // block

    def mean(values: Floats) -> Floats:
        return np.asarray(values[: count * block].reshape(count, block).mean(axis=1), dtype=np.float64)

    def moved(part: slice) -> slice:
        return slice(min(round(part.start / block), count), min(round(part.stop / block), count))

    return replace(
        press,
        time_s=mean(press.time_s),
        position_mm=mean(press.position_mm),
        force_N=mean(press.force_N),
        baseline=moved(press.baseline),
        rise=moved(press.rise),
        hold=moved(press.hold),
        unload=moved(press.unload),
        residual=moved(press.residual),
    )


def check_press(press: Press, *, capacity_N: float | None = None) -> None:
    """Refuse a press that no number should come from.

    Parameters
    ----------
    capacity_N : float, optional
        The force sensor's range [N]; a sample beyond 99.9 % of it counts as saturated. Without it only a flat top while
        the tool still advances is found.

    Raises
    ------
    Refused
        ``non_finite``, ``time_not_increasing``, ``too_few_samples`` or ``saturated``.
    """
    where = press.name
    for label, values in (("time", press.time_s), ("position", press.position_mm), ("force", press.force_N)):
        bad = np.flatnonzero(~np.isfinite(values) | (np.abs(values) > 1e300))
        if bad.size:
            raise Refused(
                f"{bad.size} of {len(values)} {label} samples are missing or not finite, the first at index {bad[0]}",
                reason="non_finite",
                where=where,
                remedy="Cut the gap out of the record or measure again; nothing is interpolated silently",
            )
    late = np.flatnonzero(np.diff(press.time_s) <= 0.0)
    if late.size:
        raise Refused(
            f"time does not increase at sample {late[0] + 1}", reason="time_not_increasing", where=where,
            remedy="Check the time column and its unit",
        )  # fmt: skip
    samples = press.rise.stop - press.rise.start
    if samples < FEWEST_RISE_SAMPLES:
        raise Refused(
            f"the rise has {samples} samples, at least {FEWEST_RISE_SAMPLES} are needed",
            reason="too_few_samples",
            where=where,
            remedy="Sample faster: 100 Hz or more at 2 mm/s",
        )
    _check_saturation(press, capacity_N)


def _check_saturation(press: Press, capacity_N: float | None) -> None:
    force, where = press.force_N, press.name
    remedy = "Press less deep or use a sensor of larger range"
    if capacity_N is not None:
        beyond = np.flatnonzero(np.abs(force) >= 0.999 * capacity_N)
        if beyond.size:
            raise Refused(
                f"force reaches {force[beyond[0]]:.4g} N of a capacity of {capacity_N:.4g} N in {beyond.size} samples",
                reason="saturated",
                where=where,
                remedy=remedy,
            )
    rise = force[press.rise]
    position = press.position_mm[press.rise]
    flat = np.flatnonzero(rise == rise.max())
    # identical readings at the very top while the tool advances by a good part of the stroke: a clipped channel
    if len(flat) >= FLAT_TOP_SAMPLES and flat[-1] - flat[0] == len(flat) - 1:
        advance = position[flat[-1]] - position[flat[0]]
        if advance > 0.01 * (position.max() - position.min()):
            raise Refused(
                f"force stays at exactly {rise.max():.4g} N in {len(flat)} samples while the tool advances by "
                f"{advance:.3g} mm",
                reason="saturated",
                where=where,
                remedy=remedy,
            )


def check_monotone(press: Press, first: int, noise_N: float, *, tolerance: float = 0.05) -> None:
    """Refuse a loading that is not monotone: the force may not fall back by more than ``tolerance`` of the peak.

    Parameters
    ----------
    first : int
        Index of contact.
    noise_N : float
        Standard deviation of one force sample; a drop below 6 of these is no drop.

    Raises
    ------
    Refused
        ``loading_not_monotone``; the depth must not go back either.

    Notes
    -----
    The last twentieth of the depth is left out: there the stage slows down and tissue relaxes faster than it loads.
    """
    position = press.position_mm[first : press.rise.stop]
    if len(position) < 2:
        return
    nearly = position[0] + (1.0 - SLOWING_SHARE) * (position.max() - position[0])
    force = press.force_N[first : press.rise.stop][: int(np.argmax(position >= nearly)) + 1]
    drops = np.maximum.accumulate(force) - force
    allowed = max(tolerance * float(np.ptp(force)), 6.0 * noise_N)
    worst = int(np.argmax(drops))
    if drops[worst] > allowed:
        raise Refused(
            f"force falls back by {drops[worst]:.3g} N at {press.time_s[first + worst]:.3g} s while loading "
            f"(allowed: {allowed:.3g} N)",
            reason="loading_not_monotone",
            where=press.name,
            remedy="Look for slip, a second contact or a rupture; ask for the puncture analysis when it is one",
        )
    back = np.maximum.accumulate(position) - position
    if float(back.max()) > max(0.02 * float(np.ptp(position)), 0.02):
        raise Refused(
            f"the tool moves back by {back.max():.3g} mm during the rise",
            reason="loading_not_monotone",
            where=press.name,
            remedy="Check the segments and the encoder",
        )


def check_same_kind(presses: Sequence[Press]) -> None:
    """Refuse an empty set of presses (``too_few_samples``)."""
    if not presses:
        raise Refused("there is no press to fit", reason="too_few_samples", remedy="Check the segmentation of the run")
