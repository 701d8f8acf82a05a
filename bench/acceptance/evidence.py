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
from bench.identify.contact_point import BaselineRule, ContactPoint, estimate_contact
from bench.identify.deviation import Deviations, compare
from bench.identify.frame import RIGID, Frame
from bench.identify.memory import NOT_RECOVERED
from bench.identify.press import Press, check_press
from bench.identify.segment import presses_from_run
from bench.profile import AnalysisProfile, ContactSpecimen, ExpectedForce, IndenterRig, parse_profile

if TYPE_CHECKING:
    from bench.archive import Run

#: A press belongs to the speed judged when its median measured speed is within this share of it.
SPEED_TOLERANCE = 0.1
RIG_TEXT = "rig.toml"
SPECIMEN_TEXT = "specimen.toml"
FREE_CONTACT = (
    "free in the fit; of a press that others predict: the power law's estimate from its own rise up to 30 % (exponent "
    "and scale its own too), moved by what the fit moved the same estimates of its own presses on average"
)


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
    if not isinstance(rig, IndenterRig):
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


def _force_calibration(rig: IndenterRig) -> ForceCalibration | None:
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

    @property
    def frame(self) -> Frame:
        """The frame's compliance, rigid where the analysis takes the displacement as the tool's own."""
        return self.rig.frame if self.analysis.compensate_frame else RIGID

    @cached_property
    def expected(self) -> ExpectedForce | None:
        """What the archived specimen profile expects of a press; None where it says nothing or is not there."""
        text = self._run.texts.get(SPECIMEN_TEXT)
        specimen = None if text is None else parse_profile(text, Path(f"{self._run.path}:{SPECIMEN_TEXT}"))[0]
        return specimen.expected if isinstance(specimen, ContactSpecimen) else None

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
            speeds = ", ".join(f"{round(press.speed_mm_s, 3):g}" for press in self.presses)
            raise Refused(
                f"no press at {self.analysis.speed}; the presses here run at {speeds} mm/s",
                reason="no_press",
                where=str(self._run.path),
                remedy="Press at the speed the criteria name",
            )
        return tuple(found)

    def contact(self, index: int) -> ContactPoint:
        """Contact point of a press by the estimator of the analysis, without a fit; its force zero is the baseline's.

        Where the analysis frees contact points in the fit, this is the power law's answer: good for the force zero,
        and not what a prediction counts depth from (that is in :meth:`comparison`).
        """
        if index not in self._contacts:
            method = "power_law" if self._free else self.analysis.contact_estimator
            self._contacts[index] = estimate_contact(self.presses[index], method, rule=self._rule)
        return self._contacts[index]

    @property
    def _rule(self) -> BaselineRule:
        return BaselineRule(self.analysis.least_baseline.to("s"), self.analysis.least_free_air.to("mm"))

    @property
    def _free(self) -> bool:
        return self.analysis.contact_estimator == "fit"

    def comparison(self, index: int, prediction: str, shift_mm: float = 0.0) -> Comparison:
        """A press against its prediction: by all *other* presses of the run, or by a fit of the press itself.

        ``shift_mm`` moves the contact point of a press that is fitted itself, in fit and prediction alike.
        """
        key = (index, prediction, shift_mm)
        if key not in self._comparisons:
            alone = prediction == "in_sample"
            self._comparisons[key] = self._in_sample(index, shift_mm) if alone else self._by_others(index)
        return self._comparisons[key]

    def _in_sample(self, index: int, shift_mm: float) -> Comparison:
        press = self.presses[index]
        if self._free and shift_mm == 0.0:
            fit = self._fit([press], "fit")
            return Comparison(fit, compare(fit, press, contact=fit.contacts[0], rule=self._rule))
        found = self.comparison(index, "in_sample").fit.contacts[0] if self._free else self.contact(index)
        contact = replace(found, position_mm=found.position_mm + shift_mm)
        fit = self._fit([press], [contact])
        return Comparison(fit, compare(fit, press, contact=contact, rule=self._rule))

    def _by_others(self, index: int) -> Comparison:
        others = [i for i in range(len(self.presses)) if i != index]
        presses = [self.presses[i] for i in others]
        fit = self._fit(presses, "fit" if self._free else [self.contact(i) for i in others])
        # nothing of the others' law may place this press's contact point: it would hide part of what the law gets wrong
        contact = None if self._free else self.contact(index)
        return Comparison(fit, compare(fit, self.presses[index], contact=contact, rule=self._rule))

    def _fit(self, presses: list[Press], contact: str | list[ContactPoint]) -> ContactFit:
        return fit_contact(
            presses,
            model=self.analysis.model,
            contact=contact,
            frame=self.frame,
            reference_depth_mm=self.analysis.reference_depth.to("mm"),
            weighting=self.analysis.weighting,
            rule=self._rule,
            capacity_N=self.rig.capacity_N,
        )

    def cautions(self) -> list[str]:
        """Return what a reader must know whatever the outcome: that the specimen had not recovered, at its worst."""
        noted = [
            (max(max(abs(m["peak_share"]), abs(m["force_share"])) for m in fit.steps["memory"]), note)
            for fit in (found.fit for found in self._comparisons.values())
            for note in fit.notes
            if note.startswith(NOT_RECOVERED)
        ]
        return [max(noted)[1]] if noted else []

    def record(self) -> dict[str, Any]:
        """Return what the analysis was and what it found, as plain data; only what was asked for is in it."""
        record: dict[str, Any] = {
            "model": self.analysis.model,
            "contact_estimator": self.analysis.contact_estimator,
            "contact_method": FREE_CONTACT if self._free else "estimated on each press before the fit",
            "weighting": self.analysis.weighting,
            "compensate_frame": self.analysis.compensate_frame,
            "speed": str(self.analysis.speed),
            "reference_depth": str(self.analysis.reference_depth),
            "least_baseline": str(self.analysis.least_baseline),
            "least_free_air": str(self.analysis.least_free_air),
        }
        record["fits"] = [
            {"replicate": self.presses[index].replicate, "prediction": prediction, **_fit_record(found)}
            for (index, prediction, shift), found in sorted(self._comparisons.items())
            if shift == 0.0
        ]
        return record


def _fit_record(comparison: Comparison) -> dict[str, Any]:
    fit, contact = comparison.fit, comparison.deviations.prediction.contact
    return {
        "model": fit.model,
        "parameters": {
            name: {"value": p.value, "standard_uncertainty": p.standard_uncertainty, "unit": p.unit}
            for name, p in fit.parameters.items()
        },
        "rms_N": fit.rms_N,
        "contact_points_mm": [point.position_mm for point in fit.contacts],
        "contact_of_the_press": {
            "position_mm": contact.position_mm,
            "standard_uncertainty_mm": contact.standard_uncertainty_mm,
            "method": contact.method,
        },
        "memory": list(fit.steps["memory"]),
        "notes": list(fit.notes),
    }
