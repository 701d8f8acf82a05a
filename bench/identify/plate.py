"""The frame's stiffness from an archived run of the procedure ``frame_stiffness`` on a rigid plate.

::

    with Run.open(path) as run:
        stiffness = estimate_frame_stiffness(run)
    print(stiffness)                                  # 199.8 ± 1.2 N/mm (k = 2.1)
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.errors import Refused
from bench.identify.estimate import Estimate
from bench.profile import FrameProfile
from bench.units import Value, factor

Floats = NDArray[np.float64]

DWELLS = ("dwell_up", "dwell_down")
#: Only the later part of a dwell counts: the step before it dies out in the earlier.
SETTLED_SHARE = 0.5
#: Dwells below this share of the highest force are left out: there the tip still seats on the plate.
SEATED_SHARE = 0.15
FEWEST_DWELLS = 3


def estimate_frame_stiffness(run: Any) -> Estimate:
    """Return the stiffness of everything between encoder and tip [N/mm], with its uncertainty.

    On a plate that does not yield, all of the encoder's travel in contact is the frame's. Every dwell gives a mean
    position and a mean force; the position is regressed on the force over both directions of each replicate (the
    force has little relative noise, the position few microns), and the replicates are averaged.

    Parameters
    ----------
    run : bench.archive.Run
        With the channels ``contact_force`` [N], ``encoder_position`` [mm] and phases ``baseline``, ``dwell_up``,
        ``dwell_down``.

    Returns
    -------
    Estimate
        In N/mm. The budget: scatter of the replicates, difference between loading and unloading (play, friction),
        difference between the lower and the upper half (a frame that stiffens), calibrations of force and position.

    Raises
    ------
    Refused
        ``no_dwells`` or ``too_few_dwells`` when the run is not one of this procedure, or ended early;
        ``not_rigid`` when the force does not rise with the travel.
    """
    forces = run.get("contact_force", unit="N", kind="force")
    positions = run.get("encoder_position", unit="mm", kind="length")
    zeros: dict[int, float] = {}
    dwells: dict[int, dict[str, list[tuple[float, float]]]] = defaultdict(lambda: {name: [] for name in DWELLS})
    for phase in run.phases:
        if phase.name not in ("baseline", *DWELLS):
            continue
        share = 1.0 if phase.name == "baseline" else SETTLED_SHARE
        start = phase.end_s - share * (phase.end_s - phase.start_s)
        part = slice(*np.searchsorted(forces.time_s, (start, phase.end_s)))
        force = float(np.mean(forces.values[part]))
        if phase.name == "baseline":
            zeros[phase.replicate] = force
        else:
            position = float(np.mean(positions.values[part]))
            dwells[phase.replicate][phase.name].append((position, force - zeros.get(phase.replicate, 0.0)))
    if not dwells:
        raise Refused(
            "the run has no dwells",
            reason="no_dwells",
            where=str(run.name),
            remedy="Use a run of the procedure frame_stiffness",
        )
    whole, up_down, halves, travels = [], [], [], []
    for number, found in sorted(dwells.items()):
        where = f"{run.name}, replicate {number}"
        up, down = (_seated(found[name], found) for name in DWELLS)
        both = np.concatenate([up, down])
        whole.append(_stiffness(both, where))
        if len(up) >= FEWEST_DWELLS and len(down) >= FEWEST_DWELLS:
            up_down.append(_stiffness(up, where) - _stiffness(down, where))
        order = both[np.argsort(both[:, 1])]
        middle = len(order) // 2
        if middle >= FEWEST_DWELLS:
            halves.append(_stiffness(order[middle:], where) - _stiffness(order[:middle], where))
        travels.append(float(np.ptp(both[:, 0])))
    value = float(np.mean(whole))
    scatter = float(np.std(whole, ddof=1)) / math.sqrt(len(whole)) if len(whole) > 1 else 0.0
    shares = calibration_shares(run.provenance["calibrations"], float(np.mean(travels)))
    budget = {
        "replicate scatter": scatter,
        # The truth lies anywhere between the two with the same chance: a rectangle of that width.
        "loading against unloading": _rectangle(up_down),
        "nonlinearity": _rectangle(halves),
        "force calibration": shares["force_sensor"] * value,
        "position calibration": shares["encoder"] * value,
    }
    total = math.sqrt(sum(u**2 for u in budget.values()))
    freedom = total**4 / (scatter**4 / (len(whole) - 1)) if scatter > 0 else math.inf
    return Estimate(value, total, "N/mm", "stiffness", freedom, budget)


def check_frame_stiffness(run: Any, frame: FrameProfile) -> Estimate:
    """Return the frame's stiffness by ``run`` when it is the rig profile's, both uncertainties allowed for.

    A frame does not change by itself: this is the check that force sensor and encoder still mean newton and millimetre.

    Raises
    ------
    Refused
        ``frame_stiffness``, or what :func:`estimate_frame_stiffness` refuses.
    """
    measured = estimate_frame_stiffness(run)
    agreed = math.hypot(measured.expanded_uncertainty, frame.expanded_uncertainty.to("N/mm"))
    if abs(measured.value - frame.stiffness.to("N/mm")) > agreed:
        raise Refused(
            f"the frame's stiffness is {measured} by this run and {frame.stiffness} by the rig profile",
            reason="frame_stiffness",
            where=str(run.name),
            remedy="Look whether the calibration file is this sensor's, at the encoder's distance_per_pulse, at what "
            "is mounted and whether anything is loose; enter another stiffness only when frame or tool were changed",
        )
    return measured


def calibration_shares(certificates: Sequence[Mapping[str, Any]], travel_mm: float) -> dict[str, float]:
    """Return the standard uncertainty of force sensor and encoder as a share [1] of a stiffness.

    Parameters
    ----------
    certificates : sequence of mapping
        As archived: ``instrument``, ``expanded_uncertainty`` (absolute or in %), ``coverage_factor``, ``range_max``.
    travel_mm : float
        Travel over which the stiffness is taken [mm]; an encoder's absolute uncertainty counts once at either end.
    """
    shares = {"force_sensor": 0.0, "encoder": 0.0}
    for certificate in certificates:
        name = certificate["instrument"]
        if name not in shares:
            continue
        uncertainty = Value.parse(str(certificate["expanded_uncertainty"]))
        standard = uncertainty.magnitude / float(certificate["coverage_factor"])
        if uncertainty.unit == "%":
            shares[name] = standard / 100
        elif name == "encoder":
            # The certificate bounds the error anywhere on the scale and says nothing of how alike neighbours are.
            shares[name] = standard * factor(uncertainty.unit, "mm") / travel_mm
        else:
            largest = Value.parse(str(certificate["range_max"]))
            shares[name] = standard / largest.to(uncertainty.unit)
    return shares


def _seated(dwells: list[tuple[float, float]], found: Mapping[str, list[tuple[float, float]]]) -> Floats:
    """Return the dwells of one direction (n, 2) [mm, N] in which the tip is seated."""
    highest = max((force for rows in found.values() for _, force in rows), default=0.0)
    rows = [row for row in dwells if row[1] >= SEATED_SHARE * highest > 0]
    return np.array(rows, dtype=np.float64).reshape(-1, 2)


def _stiffness(dwells: Floats, where: str) -> float:
    if len(dwells) < FEWEST_DWELLS:
        raise Refused(
            f"{len(dwells)} dwells under load, at least {FEWEST_DWELLS} are needed",
            reason="too_few_dwells",
            where=where,
            remedy="Use more force_steps; a run that was aborted does not do",
        )
    position, force = dwells[:, 0] - dwells[:, 0].mean(), dwells[:, 1] - dwells[:, 1].mean()
    compliance = float(force @ position) / float(force @ force)
    if not compliance > 0:
        raise Refused(
            "the force does not rise with the travel",
            reason="not_rigid",
            where=where,
            remedy="Check the signs of force and position, and that the plate was mounted",
        )
    return 1.0 / compliance


def _rectangle(differences: Sequence[float]) -> float:
    return abs(float(np.mean(differences))) / math.sqrt(12.0) if len(differences) else 0.0
