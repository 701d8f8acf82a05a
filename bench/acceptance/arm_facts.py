"""What an archive says about the arm it was recorded on: rig, procedure, specimen, feed-forward file, certificates."""

from __future__ import annotations

from datetime import date
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.acceptance.joint_facts import (
    FEEDFORWARD_TEXT,
    PROCEDURE_TEXT,
    RIG_TEXT,
    SPECIMEN_TEXT,
    Certificate,
    archived,
)
from bench.archive import Run
from bench.arm import ArmRatings, drivetrain, ratings
from bench.errors import ArchiveError, CalibrationError
from bench.models.drivetrain import Drivetrain
from bench.profile import ArmFeedForward, ArmRig, Payload, ProcedureProfile, SpecimenProfile

Floats = NDArray[np.float64]


class ArmFacts:
    """Profiles and certificates of an archived run of an arm. What is not there or not readable is said when asked."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.where = str(run.path)

    @cached_property
    def rig(self) -> ArmRig:
        """The rig profile; raises when a certificate had expired when the run was made."""
        rig = archived(self.run, RIG_TEXT, ArmRig, "rig profile", of="an arm")
        expired = [c.certificate for c in rig.expired(date.fromisoformat(self.run.started_utc[:10]))]
        if expired:
            raise CalibrationError(
                f"the certificate {', '.join(expired)} had expired when the run was made",
                where=self.where,
                remedy="Calibrate, and measure again: a verdict needs calibrated instruments",
            )
        return rig

    @cached_property
    def procedure(self) -> ProcedureProfile:
        return archived(self.run, PROCEDURE_TEXT, ProcedureProfile, "procedure profile", of="an arm")

    @cached_property
    def specimen(self) -> SpecimenProfile:
        return archived(self.run, SPECIMEN_TEXT, SpecimenProfile, "specimen profile", of="an arm")

    @property
    def payload(self) -> Payload | None:
        """What was fixed to the tool; None where the specimen is none of these, or the bare tool."""
        mounted = self.specimen
        return mounted if isinstance(mounted, Payload) and mounted.body.mass.magnitude > 0.0 else None

    @cached_property
    def feedforward(self) -> ArmFeedForward | None:
        """The feed-forward file the run used; None when it used none."""
        if FEEDFORWARD_TEXT not in self.run.texts:
            return None
        return archived(self.run, FEEDFORWARD_TEXT, ArmFeedForward, "feed-forward file", of="an arm")

    @property
    def identified(self) -> ArmFeedForward:
        """The feed-forward file, where a metric cannot do without it."""
        if self.feedforward is None:
            raise ArchiveError(
                "the archive holds no feed-forward file, and nominal links are good for some per cent only",
                where=self.where,
                remedy="Run it with the feed-forward that was identified on this arm",
            )
        return self.feedforward

    @cached_property
    def ratings(self) -> ArmRatings:
        return ratings(self.rig.arm)

    @cached_property
    def drives(self) -> Drivetrain:
        return drivetrain(self.rig.arm)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the joints."""
        return tuple(joint.name for joint in self.rig.arm.joints)

    @cached_property
    def torque_scale(self) -> Floats:
        """(n,) torque made per torque by the nominal constant: the file's, else 1."""
        file = self.feedforward
        return np.ones(len(self.names)) if file is None else np.array([joint.torque_scale for joint in file.joints])

    @cached_property
    def wrist_matrix(self) -> Floats:
        """(6, gauges) what the wrist sensor reads of its gauges [N/V, N.m/V], by the calibration file archived."""
        from bench.instruments.ati_file import AtiCalibration

        name = f"calibration/{Path(self.rig.wrist_sensor.calibration_file).name}"
        text = self.run.texts.get(name)
        if text is None:
            raise ArchiveError(
                f"the archive holds no calibration of the wrist sensor ({name})",
                where=self.where,
                remedy="Judge a run that the bench recorded, with its calibration in it",
            )
        found = AtiCalibration.parse(text.encode(), Path(f"{self.where}:{name}"))
        serial = self.rig.wrist_sensor.serial_number
        if serial and found.serial_number != serial:
            raise CalibrationError(
                f"the calibration in the archive is of the sensor {found.serial_number}, and the rig's is {serial}",
                where=self.where,
                remedy="Take the .cal file of the sensor that is mounted",
            )
        return found.matrix

    @cached_property
    def sensor(self) -> Certificate:
        """The wrist sensor's certificate [N]."""
        found = next((c for c in self.rig.calibrations if c.instrument == "force_sensor"), None)
        if found is None:
            raise CalibrationError(
                "the rig profile names no certificate of the force sensor",
                where=self.where,
                remedy="Have it calibrated and add its certificate to [[calibrations]]: without one nothing is known",
            )
        return Certificate.of(found, "N")
