"""Check the whole path a procedure will follow on an arm, before anything moves.

::

    report = preflight(rig, procedure, specimen)
    print("\\n".join(report.lines()))
    report.refuse()                     # LimitError with check, joint, margin and pose, or nothing

The frame of every run on an arm calls it with the plan it is about to carry out.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

from bench.arm import arm_model
from bench.arm_limits import motion_limits
from bench.errors import LimitError, ProfileError
from bench.models.arm_path import ArmPath
from bench.models.fourier_check import check_series, resonance_rows
from bench.models.fourier_path import FourierPath
from bench.models.path_check import check_path
from bench.models.preflight_report import PreflightReport
from bench.procedures.mounted import check_mounted
from bench.profile import ArmRig, ProcedureProfile, SpecimenProfile

#: Samples of a path: one that takes longer than these last at the loop's rate is sampled more coarsely.
MOST_SAMPLES = 120_000
SLOWEST_HZ = 20.0
#: A run that would take longer is a slip of the pen, and its path more than a memory holds [h].
LONGEST_H = 8.0


class PathPlan(Protocol):
    """What a procedure's plan offers for the check."""

    @property
    def duration_s(self) -> float: ...

    def path(self, rate_hz: float) -> ArmPath:
        """Return the whole path at ``rate_hz``, from where the arm stands to where it is parked."""
        ...


def preflight(
    rig: ArmRig, procedure: ProcedureProfile, specimen: SpecimenProfile, plan: Any | None = None
) -> PreflightReport:
    """Check a procedure's whole path.

    Parameters
    ----------
    rig : ArmRig
    procedure, specimen : ProcedureProfile, SpecimenProfile
    plan : PathPlan, optional
        What the procedure is about to do; made anew when left out. Fourier series in it are held to the limits at every
        instant, beside the samples of the path.

    Raises
    ------
    LimitError
        The plan itself is refused, or would take longer than :data:`LONGEST_H`.
    ProfileError
        The procedure is not one of an arm, or nothing of the kind of ``specimen`` is mounted on one.
    """
    check_mounted(rig, specimen)
    if plan is None:
        plan = _plan(rig, procedure, specimen)
    _check_duration(plan, procedure, specimen)
    model, limits = arm_model(rig, specimen), motion_limits(rig)
    path = plan.path(_rate(rig, plan))
    report = check_path(path, model, limits, f"{procedure.name} on rig {rig.name} with {specimen.name}")
    rows = list(report.rows)
    for series in _series(plan):
        lines = resonance_rows(series, limits)
        rows += lines
        if all(row.ok for row in lines):
            rows += [row for row in check_series(series, model, limits) if not row.ok]
    return dataclasses.replace(report, rows=tuple(rows))


def _plan(rig: ArmRig, procedure: ProcedureProfile, specimen: SpecimenProfile) -> Any:
    from bench.procedures.perform import ARM_FRAME, PROCEDURES

    fitting = {name: entry for name, entry in PROCEDURES.items() if entry.framed == ARM_FRAME}
    if procedure.procedure not in fitting:
        raise ProfileError(
            f'"{procedure.procedure}" is no procedure of an arm: it has no path to check',
            where=str(procedure.source.path),
            remedy=f"Choose a profile of one of {', '.join(sorted(fitting))}",
        )
    return fitting[procedure.procedure].plan(rig, procedure, specimen)


def _check_duration(plan: PathPlan, procedure: ProcedureProfile, specimen: SpecimenProfile) -> None:
    hours = plan.duration_s / 3600.0
    if not hours <= LONGEST_H:
        raise LimitError(
            f"the run would take {hours:.3g} h, at most {LONGEST_H:g} h are allowed",
            reason="duration",
            where=f"procedure {procedure.name} with {specimen.name}",
            remedy="Move faster or less far, or ask for fewer replicates",
        )


def _rate(rig: ArmRig, plan: PathPlan) -> float:
    rate = rig.loop.rate.to("Hz")
    return max(min(rate, MOST_SAMPLES / max(plan.duration_s, 1e-3)), SLOWEST_HZ)


def _series(plan: Any) -> list[FourierPath]:
    """Return the Fourier series a plan holds."""
    if not dataclasses.is_dataclass(plan):
        return []
    return [value for field in dataclasses.fields(plan) if isinstance(value := getattr(plan, field.name), FourierPath)]
