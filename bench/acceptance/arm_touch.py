"""How the contact force rises when an arm touches, overshoots and settles, with and without the gain switch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.acceptance.arm_contact import SENSOR, TOOL, Contact
from bench.acceptance.arm_evidence import ArmEvidence, name_of
from bench.acceptance.arm_values import ArmValue, Values, with_scatter
from bench.acceptance.measured import Measured
from bench.errors import ArchiveError, Refused
from bench.identify.arm_stretch import ArmStretch
from bench.identify.filtering import LowPass
from bench.profile import ArmCriterion

Floats = NDArray[np.float64]

NOISE, ZERO, SAMPLING = "force noise", "force zero", "sampling"
#: The force is free of contact while it is below this share of the wanted one.
FREE_SHARE = 0.1
#: In free air for at least so long before it touches [s].
LEAST_FREE_S = 0.1
LOW, HIGH = 0.1, 0.9


@dataclass(frozen=True)
class Touch:
    """One touch: force [N] over time since contact [s], in the evaluation band.

    Parameters
    ----------
    stretch : ArmStretch
    time_s, force : (k,)
    wanted : float
    budget : dict of str to float
        Standard uncertainties of a force as a share of the wanted one, by source.
    """

    stretch: ArmStretch
    time_s: Floats
    force: Floats
    wanted: float
    budget: dict[str, float]

    @property
    def step_s(self) -> float:
        return float(self.time_s[1] - self.time_s[0])

    def first(self, share: float) -> float:
        """Time at which the force first reaches a share of the wanted one [s]; infinite when it never does."""
        above = np.flatnonzero(self.force >= share * self.wanted)
        if not above.size:
            return math.inf
        k = int(above[0])
        if k == 0:
            return float(self.time_s[0])
        part = (share * self.wanted - self.force[k - 1]) / (self.force[k] - self.force[k - 1])
        return float(self.time_s[k - 1] + part * self.step_s)

    @property
    def rise_time(self) -> float:
        return self.first(HIGH) - self.first(LOW)

    @property
    def overshoot(self) -> float:
        """Beyond the wanted force, as a share of it."""
        return max(float(self.force.max()) / self.wanted - 1.0, 0.0)

    def settling_time(self, band: float) -> float:
        """Time after which the force stays within ``band`` of the wanted one [s]; infinite when it does not."""
        outside = np.flatnonzero(np.abs(self.force / self.wanted - 1.0) > band)
        if not outside.size:
            return 0.0
        last = int(outside[-1])
        return math.inf if last + 1 >= len(self.force) else float(self.time_s[last + 1])

    @property
    def deviation(self) -> float:
        """Largest deviation after the wanted force was first reached, as a share of it; 1 when it never was."""
        reached = self.first(1.0)
        if not math.isfinite(reached):
            # stopping short is a deviation too: what is missing at the end
            return float(abs(self.force[-1] / self.wanted - 1.0))
        later = self.force[self.time_s >= reached]
        return float(np.abs(later / self.wanted - 1.0).max())


def touches(evidence: ArmEvidence, segment: str) -> list[Touch]:
    """Return the touches of a segment.

    Raises
    ------
    Refused
        ``no_segment``; ``in_contact``: a phase that begins in contact; ``no_contact``: one that never gets there.
    ArchiveError
        The procedure wants no force.
    """
    key = f"touches {segment}"
    if key in evidence.kept:
        kept: list[Touch] = evidence.kept[key]  # type: ignore[assignment]  # what was put there below
        return kept
    contact, wanted = Contact(evidence), wanted_force(evidence)
    found = [_touch(evidence, contact, stretch, wanted) for stretch in evidence.stretches(segment)]
    evidence.kept[key] = found
    return found


def wanted_force(evidence: ArmEvidence) -> float:
    """Return the force the procedure presses with [N]."""
    stated: Any = getattr(evidence.facts.procedure, "force", None)
    if stated is None:
        raise ArchiveError(
            f"the archived procedure {evidence.facts.procedure.name} wants no force",
            where=evidence.where,
            remedy="Judge a run of approach_touch",
        )
    return float(stated.to("N"))


def _touch(evidence: ArmEvidence, contact: Contact, stretch: ArmStretch, wanted: float) -> Touch:
    raw, time = contact.force(stretch)
    rate = (len(time) - 1) / float(time[-1] - time[0])
    band = LowPass(min(evidence.analysis.evaluation_band.to("Hz"), 0.4 * rate), decimation=1)
    force = band.smooth(raw, rate)
    touching = np.flatnonzero(force >= FREE_SHARE * wanted)
    if not touching.size:
        raise Refused(
            f"the force never reached {FREE_SHARE:.0%} of the wanted {wanted:g} N",
            reason="no_contact",
            where=name_of(stretch),
            remedy="Look where the phantom stands, and at the wrist sensor",
        )
    free = int(touching[0])
    if free < LEAST_FREE_S * rate:
        raise Refused(
            f"{free / rate:.2g} s after the phase began the force was at {FREE_SHARE:.0%} of the wanted one: the tool "
            "was in contact when the phase began, or a jerk of the arm was taken for contact. The force has no zero, "
            "and its rise no start",
            reason="in_contact",
            where=name_of(stretch),
            remedy="Begin the phase in free air; where the arm starts with a jerk, look at its friction compensation",
        )
    before = raw[: max(free // 2, 2)]
    zero = float(before.mean())
    white = float(np.std(before)) * math.sqrt(min(2.0 * band.cutoff_hz / rate, 1.0))
    budget = {
        SENSOR: evidence.facts.sensor.standard_uncertainty(wanted) / wanted,
        NOISE: white / wanted,
        ZERO: float(np.std(before)) / math.sqrt(max(len(before) * 2.0 * band.cutoff_hz / rate, 1.0)) / wanted,
        TOOL: contact.tool_uncertainty(stretch) / wanted * 0.1,
    }
    return Touch(stretch, time[free:] - time[free], force[free:] - zero, wanted, budget)


def _share(touch: Touch) -> float:
    return math.sqrt(sum(u**2 for u in touch.budget.values()))


def force_rise_time(evidence: ArmEvidence, criterion: ArmCriterion) -> Values:
    """Time from 10 % to 90 % of the wanted force [s].

    A force that never gets there has taken as long as its record at least: that can fail and cannot pass.

    Raises
    ------
    Refused
        ``too_short``: it never got there, and the record ends before the limit.
    """
    found = []
    for touch in touches(evidence, criterion.segment):
        value = touch.rise_time
        if not math.isfinite(value):
            value = _lower_bound(touch, criterion, f"reached {HIGH:.0%} of the wanted one")
        slope = value / (HIGH - LOW)
        budget = {"force": math.sqrt(2.0) * _share(touch) * slope, SAMPLING: touch.step_s / math.sqrt(6)}
        found.append(ArmValue(touch.stretch.phase.replicate, Measured(value, measured=value, budget=budget)))
    return with_scatter(found)


def force_overshoot(evidence: ArmEvidence, criterion: ArmCriterion) -> Values:
    """Force beyond the wanted one, as a share of it [1]."""
    return with_scatter(
        [
            ArmValue(touch.stretch.phase.replicate, Measured(touch.overshoot, 0.0, touch.overshoot, touch.budget))
            for touch in touches(evidence, criterion.segment)
        ]
    )


def force_settling_time(evidence: ArmEvidence, criterion: ArmCriterion) -> Values:
    """Time from contact until the force stays within the settle band [s].

    Settling times jump where an extreme just leaves the band, so the uncertainty of a force enters by moving the band
    by it. A force that had not settled when the record ended has settled at its end at the earliest: that can fail and
    cannot pass.

    Raises
    ------
    Refused
        ``too_short``: it had not settled, and the record ends before the limit.
    """
    band = evidence.analysis.settle_band.to("1")
    found = []
    for touch in touches(evidence, criterion.segment):
        time = touch.settling_time(band)
        end = float(touch.time_s[-1])
        if not math.isfinite(time):
            time = _lower_bound(touch, criterion, "settled")
        moved = _share(touch)
        reach = [touch.settling_time(max(band - moved, 1e-6)), touch.settling_time(band + moved)]
        spread = max(abs(min(other, end) - time) for other in reach)
        one = Measured(time, measured=time, budget={"force": spread, SAMPLING: touch.step_s / math.sqrt(12.0)})
        found.append(ArmValue(touch.stretch.phase.replicate, one))
    return with_scatter(found)


def switch_benefit(evidence: ArmEvidence, criterion: ArmCriterion) -> Values:
    """Deviation from the wanted force after it was first reached, with the switch over the mean without it [1]."""
    with_switch, without = touches(evidence, "with_switch"), touches(evidence, "without_switch")
    before = float(np.mean([touch.deviation for touch in without]))
    if before <= 0.0:
        raise Refused(
            "without the switch the force never deviated, so nothing can be gained",
            reason="no_deviation",
            where=evidence.where,
            remedy="Look at how the touches were recorded",
        )
    found = []
    for touch in with_switch:
        value = touch.deviation / before
        share = math.hypot(_share(touch), value * float(np.mean([_share(one) for one in without])))
        one = Measured(value, before, touch.deviation, {"force": share / before})
        found.append(ArmValue(touch.stretch.phase.replicate, one))
    return with_scatter(found)


def _lower_bound(touch: Touch, criterion: ArmCriterion, what: str) -> float:
    """Return how long a force has been on its way when the record ends, if that tells anything."""
    end = float(touch.time_s[-1])
    if end < criterion.limit.to("s"):
        raise Refused(
            f"the force ({touch.force[-1]:.3g} N of {touch.wanted:g} N) had not {what} when the record ended after "
            f"{end:.2g} s, before the limit of {criterion.limit}",
            reason="too_short",
            where=name_of(touch.stretch),
            remedy="Record for longer after each touch",
        )
    return end
