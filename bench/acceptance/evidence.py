"""What an archive says about a press: the rig as archived, the presses, contact points, fits and predictions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.errors import ArchiveError, CalibrationError, Refused
from bench.identify.contact_fit import ContactFit, fit_contact
from bench.identify.contact_point import ContactPoint, estimate_contact
from bench.identify.deviation import Deviations, compare
from bench.identify.frame import RIGID, Frame
from bench.identify.press import Press, check_press
from bench.identify.segment import presses_from_run
from bench.profile import AnalysisProfile, RigProfile, parse_profile

if TYPE_CHECKING:
    from bench.archive import Run

#: A press belongs to the speed judged when its median measured speed is within this share of it.
SPEED_TOLERANCE = 0.1
RIG_TEXT = "rig.toml"


@dataclass(frozen=True)
class ForceCalibration:
    """The force sensor's certificate: standard uncertainty as a share [1] or a force [N], and its range [N]."""

    certificate: str
    relative: float
    absolute_N: float
    minimum_N: float
    maximum_N: float

    def standard_uncertainty_N(self, force_N: float) -> float:
        """Standard uncertainty of a force [N]; below the range it is that at the range's lower end."""
        return math.hypot(self.relative * max(abs(force_N), abs(self.minimum_N)), self.absolute_N)

    def covers(self, force_N: float) -> bool:
        """Return whether a force [N] lies in the calibrated range."""
        return self.minimum_N <= force_N <= self.maximum_N


@dataclass(frozen=True)
class RigFacts:
    """What the archived rig profile says that a judgement needs; ``force`` is None without a certificate."""

    frame: Frame = RIGID
    capacity_N: float | None = None
    force: ForceCalibration | None = None


def rig_facts(run: Run) -> RigFacts | None:
    """Return the facts of the rig profile stored in an archive; None when there is none, as in an imported run.

    Raises
    ------
    ArchiveError
        The stored profile cannot be read.
    CalibrationError
        A certificate had expired when the run was made.
    """
    text = run.texts.get(RIG_TEXT)
    if text is None:
        return None
    rig, problems = parse_profile(text, Path(f"{run.path}:{RIG_TEXT}"))
    if not isinstance(rig, RigProfile):
        listed = "; ".join(str(problem) for problem in problems)
        raise ArchiveError(
            f"the archived rig profile cannot be read ({listed})",
            where=str(run.path),
            remedy="Judge with the version of the bench that the archive names",
        )
    expired = [c.certificate for c in rig.calibrations if c.expired(date.fromisoformat(run.started_utc[:10]))]
    if expired:
        raise CalibrationError(
            f"the certificate {', '.join(expired)} had expired when the run was made",
            where=str(run.path),
            remedy="Calibrate, and measure again: a verdict needs calibrated instruments",
        )
    return RigFacts(Frame.from_profile(rig.frame), rig.force_sensor.capacity.to("N"), _force_calibration(rig))


def _force_calibration(rig: RigProfile) -> ForceCalibration | None:
    found = next((c for c in rig.calibrations if c.instrument == "force_sensor" and c.range_min.kind == "force"), None)
    if found is None:
        return None
    stated = found.expanded_uncertainty
    share = stated.to("1") / found.coverage_factor if stated.unit == "%" else 0.0
    force = 0.0 if stated.unit == "%" else stated.to("N") / found.coverage_factor
    return ForceCalibration(found.certificate, share, force, found.range_min.to("N"), found.range_max.to("N"))


@dataclass(frozen=True)
class Comparison:
    """A press, the fit that predicts it, and how far the two are apart."""

    fit: ContactFit
    deviations: Deviations


class Evidence:
    """The presses of a run as an analysis profile wants them; fits are made when asked for, and once.

    Raises :class:`~bench.errors.BenchError` where the bench cannot answer.
    """

    def __init__(self, run: Run, analysis: AnalysisProfile) -> None:
        self._run = run
        self.analysis = analysis
        self._comparisons: dict[tuple[int, str, float], Comparison] = {}
        self._contacts: dict[int, ContactPoint] = {}

    @cached_property
    def rig(self) -> RigFacts:
        """The rig as archived; without one only what does not need it can be judged."""
        facts = rig_facts(self._run)
        if facts is None and self.analysis.compensate_frame:
            raise ArchiveError(
                "the archive holds no rig profile, so the frame's compliance is unknown",
                where=str(self._run.path),
                remedy="Use criteria with compensate_frame = false if the displacement is the tool's own",
            )
        return facts or RigFacts()

    @cached_property
    def presses(self) -> tuple[Press, ...]:
        """All presses of the run, checked."""
        presses = presses_from_run(self._run)
        for press in presses:
            check_press(press, capacity_N=self.rig.capacity_N)
        return presses

    @cached_property
    def judged(self) -> tuple[int, ...]:
        """Indices of the presses at the speed that is judged."""
        speed = self.analysis.speed.to("mm/s")
        found = [i for i, p in enumerate(self.presses) if abs(p.speed_mm_s - speed) <= SPEED_TOLERANCE * speed]
        if not found:
            speeds = ", ".join(f"{press.speed_mm_s:.3g}" for press in self.presses)
            raise Refused(
                f"no press at {self.analysis.speed}; the presses here run at {speeds} mm/s",
                reason="no_press",
                where=str(self._run.path),
                remedy="Press at the speed the criteria name",
            )
        return tuple(found)

    def contact(self, index: int) -> ContactPoint:
        """Contact point of a press by the estimator of the analysis."""
        if index not in self._contacts:
            self._contacts[index] = estimate_contact(self.presses[index], self.analysis.contact_estimator)
        return self._contacts[index]

    def comparison(self, index: int, prediction: str, shift_mm: float = 0.0) -> Comparison:
        """A press against its prediction: by all *other* presses of the run, or by a fit of the press itself.

        ``shift_mm`` moves the contact point of the press, in a fit of the press itself that of the fit too.
        """
        key = (index, prediction, shift_mm)
        if key not in self._comparisons:
            press, contact = self.presses[index], self.contact(index)
            contact = replace(contact, position_mm=contact.position_mm + shift_mm)
            if prediction == "in_sample":
                fit = self._fit([press], [contact])
            else:
                others = [i for i in range(len(self.presses)) if i != index]
                fit = self._fit([self.presses[i] for i in others], [self.contact(i) for i in others])
            self._comparisons[key] = Comparison(fit, compare(fit, press, contact=contact))
        return self._comparisons[key]

    def _fit(self, presses: list[Press], contacts: list[ContactPoint]) -> ContactFit:
        return fit_contact(
            presses,
            model=self.analysis.model,
            contact=contacts,
            frame=self.rig.frame if self.analysis.compensate_frame else RIGID,
            reference_depth_mm=self.analysis.reference_depth.to("mm"),
            weighting=self.analysis.weighting,
            capacity_N=self.rig.capacity_N,
        )

    def record(self) -> dict[str, Any]:
        """Return what the analysis was and what it found, as plain data; only what was asked for is in it."""
        record: dict[str, Any] = {
            "model": self.analysis.model,
            "contact_estimator": self.analysis.contact_estimator,
            "weighting": self.analysis.weighting,
            "compensate_frame": self.analysis.compensate_frame,
            "speed": str(self.analysis.speed),
            "reference_depth": str(self.analysis.reference_depth),
        }
        record["fits"] = [
            {"replicate": self.presses[index].replicate, "prediction": prediction, **_fit_record(found.fit)}
            for (index, prediction, shift), found in sorted(self._comparisons.items())
            if shift == 0.0
        ]
        return record


def _fit_record(fit: ContactFit) -> dict[str, Any]:
    return {
        "model": fit.model,
        "parameters": {
            name: {"value": p.value, "standard_uncertainty": p.standard_uncertainty, "unit": p.unit}
            for name, p in fit.parameters.items()
        },
        "rms_N": fit.rms_N,
        "contact_points_mm": [contact.position_mm for contact in fit.contacts],
        "notes": list(fit.notes),
    }
