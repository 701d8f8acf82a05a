"""Is the run what it says it is? Two things no comparison between presses of one run can show.

A specimen that is not the one named predicts itself as well as the right one, and a force zero that drifts bends every
press alike. Either makes a verdict worthless, so either is the bench's fault and said before anything is judged.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bench.acceptance.evidence import SPEED_TOLERANCE, Evidence
from bench.errors import BenchError
from bench.identify.contact_point import ContactPoint
from bench.identify.frame import Frame, compensate_frame
from bench.identify.press import Press
from bench.profile import ExpectedForce

#: A zero that moves by more than this share of the peak within one press leaves no verdict.
ZERO_SHARE = 0.01
#: Half-width of the depths averaged for the force at a depth [mm].
DEPTH_WINDOW_MM = 0.05


def zero_drift_rate(presses: Sequence[Press]) -> float:
    """Return the fastest drift of the force zero between consecutive presses [N/s], from their free-air baselines.

    Zero with fewer than two presses that stand in free air first: a single baseline shows no drift.
    """
    found = [
        (float(press.time_s[press.baseline].mean()), float(press.force_N[press.baseline].mean()))
        for press in presses
        if press.baseline.stop > press.baseline.start
    ]
    if len(found) < 2:
        return 0.0
    times, zeros = np.array(sorted(found)).T
    return float(np.max(np.abs(np.diff(zeros)) / np.maximum(np.diff(times), 1e-9)))


def zero_drift_N(press: Press, rate_N_s: float) -> float:
    """Return how far the force zero moves between a press's baseline and its end [N]."""
    if press.baseline.stop <= press.baseline.start:
        return 0.0
    end = max(press.rise.stop, press.hold.stop, press.unload.stop, press.residual.stop)
    return rate_N_s * float(press.time_s[end - 1] - press.time_s[press.baseline].mean())


def force_at_depth(press: Press, contact: ContactPoint, frame: Frame, depth_mm: float) -> float:
    """Return the measured force [N], free of its zero, at a depth [mm] of the rise; NaN where that was not reached."""
    force = press.force_N[press.rise] - contact.force_zero_N
    depth = compensate_frame(press.position_mm[press.rise], force, frame.stiffness_N_mm) - contact.position_mm
    near = np.abs(depth - depth_mm) <= DEPTH_WINDOW_MM
    return float(force[near].mean()) if near.any() else float("nan")


def implausible(evidence: Evidence) -> str:
    """Say why the run cannot be judged; empty when nothing speaks against it, or when there is nothing to look at."""
    try:
        judged = [(evidence.presses[index], evidence.contact(index)) for index in evidence.judged]
    except BenchError:
        return ""  # the criteria will meet the same and say it with their own names
    return _drifting(evidence.presses, judged) or _another_specimen(evidence, judged)


def _drifting(presses: Sequence[Press], judged: Sequence[tuple[Press, ContactPoint]]) -> str:
    rate = zero_drift_rate(presses)
    for press, contact in judged:
        drift, peak = zero_drift_N(press, rate), float(press.force_N[press.peak]) - contact.force_zero_N
        if drift > ZERO_SHARE * peak:
            return (
                f"the force zero drifts by {rate * 1e3:.3g} mN/s between presses, {drift:.3g} N within one press: "
                f"{drift / peak:.1%} of the peak of {press.name}, {ZERO_SHARE:.0%} are allowed. Let the sensor warm "
                "up, look at its mounting and cable, and measure again"
            )
    return ""


def _another_specimen(evidence: Evidence, judged: Sequence[tuple[Press, ContactPoint]]) -> str:
    expected: ExpectedForce | None = evidence.expected
    if expected is None or abs(evidence.analysis.speed.to("mm/s") / expected.speed.to("mm/s") - 1) > SPEED_TOLERANCE:
        return ""
    depth, force = expected.depth.to("mm"), expected.force.to("N")
    found = [force_at_depth(press, contact, evidence.frame, depth) for press, contact in judged]
    mean = float(np.mean(found))
    if not np.isfinite(mean):
        # A stiffer specimen under a press that ends by force is just what does not get there: unseen is not unharmed.
        return (
            f"not every press reached {expected.depth}, where the specimen profile expects {expected.force}: whether "
            "this is the specimen named cannot be told. Press deeper, or state [expected] at a depth that is reached"
        )
    if abs(mean / force - 1.0) <= expected.tolerance.to("1"):
        return ""
    return (
        f"the force at {expected.depth} is {mean:.3g} N, the specimen profile expects {expected.force} within "
        f"{expected.tolerance}: is this the specimen named? Look what is mounted, or correct the profile's [expected]"
    )
