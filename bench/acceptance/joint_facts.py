"""What an archive says about the joint it was recorded on: rig, procedure, load, feed-forward file, certificates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from bench.archive import Run
from bench.errors import ArchiveError, CalibrationError
from bench.profile import (
    CalibrationProfile,
    FeedForwardProfile,
    JointLoad,
    JointProcedure,
    JointRig,
    SpecimenProfile,
    parse_profile,
)
from bench.profile.fields import Profile

RIG_TEXT = "rig.toml"
PROCEDURE_TEXT = "procedure.toml"
SPECIMEN_TEXT = "specimen.toml"
FEEDFORWARD_TEXT = "feedforward.toml"

ProfileT = TypeVar("ProfileT", bound=Profile)


@dataclass(frozen=True)
class Certificate:
    """A certificate in the base unit of its instrument: standard uncertainty as a share [1] and absolute, and range."""

    name: str
    relative: float
    absolute: float
    minimum: float
    maximum: float

    @classmethod
    def of(cls, certificate: CalibrationProfile, unit: str) -> Certificate:
        """Read a certificate in ``unit``."""
        stated, k = certificate.expanded_uncertainty, certificate.coverage_factor
        share = stated.to("1") / k if stated.unit == "%" else 0.0
        absolute = 0.0 if stated.unit == "%" else stated.to(unit) / k
        low, high = certificate.range_min.to(unit), certificate.range_max.to(unit)
        return cls(certificate.certificate, share, absolute, low, high)

    def standard_uncertainty(self, magnitude: float) -> float:
        """Standard uncertainty of a magnitude; below the range it is that at the range's lower end."""
        least = max(self.minimum, 0.0)
        return math.hypot(self.relative * max(abs(magnitude), least), self.absolute)


def archived(run: Run, name: str, model: type[ProfileT], what: str, *, of: str) -> ProfileT:
    """Return the profile an archive holds under ``name``; ``what`` and ``of`` say in words what is looked for.

    Raises
    ------
    ArchiveError
        It is not there, or it is not of that model.
    """
    text = run.texts.get(name)
    if text is None:
        raise ArchiveError(
            f"the archive holds no {what} ({name})",
            where=str(run.path),
            remedy="Judge a run that the bench recorded, with its profiles in it",
        )
    profile, problems = parse_profile(text, Path(f"{run.path}:{name}"))
    if not isinstance(profile, model):
        found = "; ".join(str(problem) for problem in problems) or f"it is a {type(profile).__name__}"
        raise ArchiveError(
            f"the archived {what} cannot be read as one of {of} ({found})",
            where=str(run.path),
            remedy="Judge with the version of the bench that the archive names, and by criteria for its rig",
        )
    return profile


class JointFacts:
    """Profiles and certificates of an archived run of a joint. What is not there or not readable is said when asked."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.where = str(run.path)

    def _text(self, name: str, model: type[ProfileT], what: str) -> ProfileT:
        return archived(self.run, name, model, what, of="a joint")

    @cached_property
    def rig(self) -> JointRig:
        """The rig profile; raises when a certificate had expired when the run was made."""
        rig = self._text(RIG_TEXT, JointRig, "rig profile")
        expired = [c.certificate for c in rig.expired(date.fromisoformat(self.run.started_utc[:10]))]
        if expired:
            raise CalibrationError(
                f"the certificate {', '.join(expired)} had expired when the run was made",
                where=self.where,
                remedy="Calibrate, and measure again: a verdict needs calibrated instruments",
            )
        return rig

    @cached_property
    def procedure(self) -> JointProcedure:
        return self._text(PROCEDURE_TEXT, JointProcedure, "procedure profile")

    @cached_property
    def specimen(self) -> SpecimenProfile:
        return self._text(SPECIMEN_TEXT, SpecimenProfile, "specimen profile")

    @cached_property
    def lever_m(self) -> float:
        """The load's lever [m]."""
        if not isinstance(self.specimen, JointLoad):
            raise ArchiveError(
                f"{self.specimen.name} has no lever, so a torque has no force at a tool tip",
                where=self.where,
                remedy="Mount a load whose profile states its lever",
            )
        return self.specimen.lever.to("m")

    @cached_property
    def feedforward(self) -> FeedForwardProfile | None:
        """The feed-forward file the run used; None when it used none."""
        if FEEDFORWARD_TEXT not in self.run.texts:
            return None
        return self._text(FEEDFORWARD_TEXT, FeedForwardProfile, "feed-forward file")

    @property
    def rated_torque(self) -> float:
        """[N.m]"""
        return self.rig.joint.rated_torque.to("N.m")

    @cached_property
    def transducer(self) -> Certificate:
        """The torque transducer's certificate [N.m]."""
        return self._certificate("torque_transducer", "N.m")

    @cached_property
    def encoder(self) -> Certificate:
        """The joint encoder's certificate [rad]."""
        return self._certificate("encoder", "rad")

    @cached_property
    def daq_torque(self) -> float:
        """Standard uncertainty that the DAQ's certificate leaves to a torque [N.m]; zero without a certificate."""
        found = next(self._certificates("daq"), None)
        if found is None:
            return 0.0
        volts = Certificate.of(found, "V")
        reach = self.rig.torque_transducer.voltage_range.to("V")
        return volts.standard_uncertainty(reach) * self.rig.torque_transducer.sensitivity.to("N.m/V")

    def _certificates(self, instrument: str) -> Iterator[CalibrationProfile]:
        return (c for c in self.rig.calibrations if c.instrument == instrument)

    def _certificate(self, instrument: str, unit: str) -> Certificate:
        found = next(self._certificates(instrument), None)
        if found is None:
            raise CalibrationError(
                f"the rig profile names no certificate of the {instrument.replace('_', ' ')}",
                where=self.where,
                remedy="Have it calibrated and add its certificate to [[calibrations]]: without one nothing is known",
            )
        return Certificate.of(found, unit)

    @property
    def resolution_rad(self) -> float:
        """Standard uncertainty of one reading of the joint encoder by its steps [rad]."""
        edges = int(self.rig.encoder.decoding[1:])
        return 2.0 * math.pi / (self.rig.encoder.pulses_per_revolution * edges) / math.sqrt(12.0)
