"""The regression of a friction sweep: settled bins of all stretches, one under the other, with their weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.errors import Refused
from bench.identify.friction_fit import Shares
from bench.identify.sweep import Segment, Selection

Floats = NDArray[np.float64]

UNKNOWN_DEGC = 25.0
"""What parameters refer to where no temperature was recorded."""
FEWEST_BINS = 3
RIPPLE_BELOW_HZ = 8.0
"""A faster ripple is not answered by the command but by the rotor's inertia; its bins average it."""
RIPPLE_GAIN = 0.2
"""A harmonic is taken in when it explains this share of the squares that are left where it is slow."""
MOST_RIPPLES = 3


@dataclass(frozen=True)
class Design:
    """Arrays (n,) of all bins used; stretches one after another, ``lengths`` bins each.

    ``external`` is transducer torque plus the rotor's acceleration, ``warmer`` kelvin above the reference.
    ``root`` is the square root of the weight: every stretch counts as one, however long it is.
    """

    command: Floats
    external: Floats
    load: Floats
    direction: Floats
    velocity: Floats
    variance: Floats
    warmer: Floats
    ripple: NDArray[np.complex128]
    orders: tuple[int, ...]
    root: Floats
    lengths: list[int]
    speeds: Floats
    reference_temperature: float
    temperature_known: bool

    @property
    def weight(self) -> Floats:
        return np.asarray(self.root**2)

    def rms(self, values: Floats) -> float:
        """Weighted root mean square."""
        return float(np.sqrt(np.average(values**2, weights=self.weight)))

    def project(self, columns: Floats, values: Floats) -> Floats:
        """Weighted least-squares image of ``values`` (n,) in the span of ``columns`` (n, k)."""
        beta = np.linalg.lstsq(columns * self.root[:, None], values * self.root, rcond=1e-12)[0]
        return np.asarray(columns @ beta)

    def waves(self, index: int) -> tuple[Floats, Floats]:
        """Cosine and sine column of one harmonic."""
        return self.ripple[:, index].real, self.ripple[:, index].imag

    def rippling(self, residual: Callable[[], Floats], waves: list[int]) -> list[int]:
        """Add harmonics to ``waves`` one by one while the next explains a fifth of what is left.

        ``residual`` gives the weighted residual (n,) with the harmonics of ``waves``, which is changed in place.
        """
        while len(waves) < MOST_RIPPLES:
            left = residual()
            gains = []
            for i in range(len(self.orders)):
                pair = np.stack(self.waves(i), axis=1) * self.root[:, None]
                slow = np.any(pair != 0.0, axis=1)  # only where this harmonic is slow can it explain anything
                square = float(np.sum(left[slow] ** 2))
                beta = np.linalg.lstsq(pair, left, rcond=1e-6)[0]
                gains.append(0.0 if i in waves or square <= 0.0 else float(np.sum((pair @ beta) ** 2)) / square)
            best = int(np.argmax(gains)) if gains else 0
            if not gains or gains[best] < RIPPLE_GAIN:
                break
            waves.append(best)
        return waves


def share_of_excess(design: Design, velocity: float) -> Floats:
    """Mean share of the Stribeck excess over each bin (n,): its curvature meets the speed's variance in the bin."""
    ratio = (design.velocity / velocity) ** 2
    bend = (2.0 * ratio - 1.0) / velocity**2
    return np.asarray(np.exp(-ratio) * (1.0 + bend * design.variance))


def assemble(
    segments: Sequence[Segment],
    selections: Sequence[Selection],
    slowest_speed: float,
    motor_inertia: float,
    reference_temperature: float | None,
    *,
    where: str,
) -> Design:
    """Stack the settled bins of the stretches that have at least three of them.

    Raises
    ------
    Refused
        ``not_settled``: there is none.
    """
    parts = [
        (segment, selection.used)
        for segment, selection in zip(segments, selections, strict=True)
        if int(selection.used.sum()) >= FEWEST_BINS and abs(segment.speed) >= slowest_speed
    ]
    if not parts:
        raise Refused(
            f"none of {len(segments)} stretches holds its speed",
            reason="not_settled",
            where=where,
            remedy="Look for stick-slip or a wrong speed unit; lengthen the stretches or stiffen the speed loop",
        )
    columns: dict[str, list[Floats]] = {}
    for segment, used in parts:
        count = int(used.sum())
        accelerated = np.gradient(segment.velocity, segment.bin_s) if motor_inertia else np.zeros(len(used))
        for name, values in {
            "command": segment.command,
            "external": segment.torque + motor_inertia * accelerated,
            "load": segment.load,
            "direction": np.full(len(used), segment.direction),
            "velocity": segment.velocity,
            "variance": segment.velocity_variance,
            "temperature": segment.temperature,
            "root": np.full(len(used), count**-0.5),
        }.items():
            columns.setdefault(name, []).append(values[used])
    stacked = {name: np.concatenate(values) for name, values in columns.items()}
    warmth = stacked.pop("temperature")
    weight = stacked["root"] ** 2
    known = np.isfinite(warmth)
    if reference_temperature is None:
        reference_temperature = float(np.average(warmth[known], weights=weight[known])) if known.any() else UNKNOWN_DEGC
    orders = parts[0][0].orders
    waves = [_slow_waves(segment, orders)[used] for segment, used in parts]
    return Design(
        **stacked,
        warmer=np.where(known, warmth - reference_temperature, 0.0),
        ripple=np.concatenate(waves),
        orders=orders,
        lengths=[int(used.sum()) for _, used in parts],
        speeds=np.array([segment.speed for segment, _ in parts]),
        reference_temperature=reference_temperature,
        temperature_known=bool(known.any()),
    )


def _slow_waves(segment: Segment, orders: tuple[int, ...]) -> NDArray[np.complex128]:
    """Ripple of the harmonics that are slow at the stretch's speed; zero for the others (m, orders)."""
    waves = segment.ripple.copy()
    for i, order in enumerate(orders):
        if abs(segment.speed) * segment.gear_ratio * order > 2.0 * np.pi * RIPPLE_BELOW_HZ:
            waves[:, i] = 0.0
    return waves


def shares(segments: Sequence[Segment], selections: Sequence[Selection], slowest_speed: float) -> Shares:
    """What part of the time was used, and why the rest was not."""
    used = transient = stiction = unsteady = total = 0.0
    for segment, selection in zip(segments, selections, strict=True):
        total += segment.duration_s
        if abs(segment.speed) < slowest_speed:
            stiction += segment.duration_s
            continue
        used += segment.bin_s * float(selection.used.sum())
        transient += segment.bin_s * float(selection.transient.sum())
        stiction += segment.bin_s * float(selection.stiction.sum())
        unsteady += segment.bin_s * float(selection.unsteady.sum())
    total = max(total, 1e-300)
    return Shares(used / total, transient / total, stiction / total, unsteady / total)
