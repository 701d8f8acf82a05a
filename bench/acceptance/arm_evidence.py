"""The recorded stretches of an arm's run as the metrics want them; read when asked for, and once."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bench.acceptance.arm_facts import ArmFacts
from bench.archive import Channel, Run
from bench.arm import arm_model
from bench.errors import ArchiveError, Refused
from bench.identify.arm_stretch import ArmRows, ArmStretch
from bench.identify.filtering import LowPass
from bench.profile import ArmAnalysisProfile, SpecimenProfile

if TYPE_CHECKING:
    from bench.arm_feedforward import IdentifiedArm
    from bench.models.rigid import ArmModel

Floats = NDArray[np.float64]


class ArmEvidence:
    """Stretches of a run by the name of their phase."""

    def __init__(self, run: Run, analysis: ArmAnalysisProfile) -> None:
        self.run = run
        self.analysis = analysis
        self.facts = ArmFacts(run)
        #: What metrics made and others need too, by name.
        self.kept: dict[str, object] = {}
        self._channels: dict[str, Channel] = {}
        self._stretches: dict[str, tuple[ArmStretch, ...]] = {}

    @property
    def where(self) -> str:
        return str(self.run.path)

    @property
    def size(self) -> int:
        """Joints."""
        return len(self.facts.names)

    def channel(self, name: str, unit: str, kind: str) -> Channel:
        """A channel of the run; each is read once."""
        if name not in self._channels:
            self._channels[name] = self.run.get(name, unit=unit, kind=kind)
        return self._channels[name]

    def joints(self, name: str, unit: str, kind: str) -> Floats:
        """A channel of every joint, (rows, n), as archived; ``name`` has a ``{}`` where the joint's number stands."""
        return np.stack([self.channel(name.format(i + 1), unit, kind).values for i in range(self.size)], axis=1)

    @cached_property
    def rows(self) -> ArmRows:
        """Rows of drives and wrist sensor."""
        return ArmRows(self.run, self.facts.drives)

    @cached_property
    def time_s(self) -> Floats:
        """Of the drives' rows."""
        return self.channel("motor_1_position", "rad", "angle").time_s

    def along(self, stretch: ArmStretch, name: str, unit: str, kind: str) -> Floats:
        """A channel of every joint brought to a stretch's instants, (k, n).

        Raises
        ------
        ArchiveError
            It has values that are no numbers there.
        """
        rows = slice(*np.searchsorted(self.time_s, (stretch.phase.start_s, stretch.phase.end_s)))
        values = self.joints(name, unit, kind)[rows]
        bad = int(np.count_nonzero(~np.isfinite(values)))
        if bad or not len(values):
            raise ArchiveError(
                f"{bad or 'all'} values of {name.format('…')} are missing or not finite",
                where=f"{self.where}: {name_of(stretch)}",
                remedy="Record the run again",
            )
        time = self.time_s[rows]
        return np.stack([np.interp(stretch.time_s, time, column) for column in values.T], axis=1)

    def stretches(self, name: str) -> tuple[ArmStretch, ...]:
        """All phases of a name.

        Raises
        ------
        Refused
            ``no_segment``: there is none; what reading them refuses.
        ArchiveError
            A channel is missing, or has values that are no numbers.
        """
        if name not in self._stretches:
            phases = [phase for phase in self.run.phases if phase.name == name]
            if not phases:
                there = ", ".join(sorted({phase.name for phase in self.run.phases})) or "none"
                raise Refused(
                    f"there is no phase '{name}'; phases here: {there}",
                    reason="no_segment",
                    where=self.where,
                    remedy="Record it, or name another segment in the criterion",
                )
            found = [self.rows.stretch(phase) for phase in phases]
            for one in found:
                for what, values in (("position", one.position), ("torque", one.torque)):
                    if not np.isfinite(values).all():
                        raise ArchiveError(
                            f"the joints' {what} has values that are missing or not finite",
                            where=f"{self.where}: {name_of(one)}",
                            remedy="Record the run again",
                        )
            self._stretches[name] = tuple(found)
        return self._stretches[name]

    def band(self, rate_hz: float) -> LowPass:
        """The evaluation band at a rate; every sample is kept, so that extremes show."""
        return LowPass(min(self.analysis.evaluation_band.to("Hz"), 0.4 * rate_hz), decimation=1)

    def identified(self, payload: SpecimenProfile | None = None) -> IdentifiedArm:
        """The arm by the run's feed-forward file, with a payload on its tool."""
        from bench.arm_feedforward import arm_feedforward_model

        key = f"identified {payload.name if payload else ''}"
        if key not in self.kept:
            self.kept[key] = arm_feedforward_model(self.facts.identified, self.facts.rig, payload)
        found: IdentifiedArm = self.kept[key]  # type: ignore[assignment]  # what was put there one line above
        return found

    def nominal(self) -> ArmModel:
        """The arm by its profile, tool included, no payload."""
        if "nominal" not in self.kept:
            self.kept["nominal"] = arm_model(self.facts.rig)
        found: ArmModel = self.kept["nominal"]  # type: ignore[assignment]  # what was put there one line above
        return found


def name_of(stretch: ArmStretch) -> str:
    """Phase and replicate."""
    return f"{stretch.phase.name} {stretch.phase.replicate}"
