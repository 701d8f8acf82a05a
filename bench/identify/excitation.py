"""Design the motion an arm is identified on: a Fourier series inside every limit, well conditioned, repeatable.

::

    columns = BaseColumns.of(model)
    train = design(model, limits, columns, base_hz=0.05, harmonics=10, seed=1)
    held = design_hold_out(train, model, limits, columns, base_hz=0.06, harmonics=8, seed=2)

Source: J. Swevers, C. Ganseman, D. B. Tukel, J. De Schutter, H. Van Brussel, *Optimal robot excitation and
identification*, IEEE Trans. Robot. Autom. 13 (1997) 730; rest at both ends is a linear condition on the coefficients.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

import bench
from bench.errors import LimitError, ModelError
from bench.identify.blas import single_thread
from bench.identify.excitation_cost import Columns, condition_along
from bench.identify.paths import Path, PathMatch, match_paths
from bench.models.fourier_check import check_lines, check_series, movable_points
from bench.models.fourier_path import FourierPath
from bench.models.motion_limits import CheckRow, MotionLimits

if TYPE_CHECKING:
    from bench.models.rigid import ArmModel

Floats = NDArray[np.float64]

WHERE = "excitation design"
#: Candidates looked at unless told otherwise: some ten seconds for six axes.
EVALUATIONS = 2000
#: Samples a period for the condition number that is stated.
CONDITION_SAMPLES = 1000
#: By how much a series that breaks a limit between the search's samples is made smaller, and how often.
SHRINK, MOST_SHRINKS = 0.98, 12
SKETCH_HZ = 50.0


@dataclass(frozen=True)
class Excitation:
    """A designed series and what is known of it.

    Parameters
    ----------
    path : FourierPath
    condition_number : float
        Scaled condition number of ``columns`` columns along it [1].
    rows : tuple of CheckRow
        Every limit at its worst, for every instant.
    columns : int
    limits : MotionLimits
        What it was designed for.
    seed, evaluations : int
        They give the same series again.
    model_digest : str
        :func:`model_digest` of the model.
    version : str
        Of the bench that designed it.
    """

    path: FourierPath
    condition_number: float
    rows: tuple[CheckRow, ...]
    columns: int
    limits: MotionLimits
    seed: int
    evaluations: int
    model_digest: str
    version: str

    @property
    def tightest(self) -> CheckRow:
        """The limit with the smallest share left."""
        return min(self.rows, key=lambda row: row.share)


def design(
    model: ArmModel,
    limits: MotionLimits,
    columns: Columns,
    *,
    base_hz: float,
    harmonics: int,
    periods: int = 1,
    seed: int,
    evaluations: int = EVALUATIONS,
    rest_pose: ArrayLike | None = None,
) -> Excitation:
    """Design a series.

    Parameters
    ----------
    model : ArmModel
        Nominal, with what the arm carries and its rotors.
    limits : MotionLimits
    columns : callable
        The regressor's independent columns, see :class:`~bench.identify.excitation_cost.BaseColumns`.
    base_hz : float
        Base frequency [Hz]; harmonics 1 to ``harmonics``.
    seed, evaluations : int
        Of the search; its work is counted in candidates, not in time, so that a seed gives one series.
    rest_pose : (n,), optional
        Where the arm stands before; it has to be inside the box.

    Raises
    ------
    ModelError
        Limits of another number of joints, or not numbers.
    LimitError
        ``resonance``, ``no_room`` (a limit that allows no motion), ``box`` (the rest pose lies outside),
        ``infeasible`` (no candidate kept every limit; the message names the tightest).
    """
    from bench.identify.excitation_search import INFEASIBLE, Problem, Search

    _check_input(model, limits, base_hz, harmonics, evaluations)
    numbers = tuple(range(1, harmonics + 1))
    everywhere = np.ones((limits.size, harmonics))
    check_lines(FourierPath(base_hz, numbers, np.zeros(limits.size), everywhere, everywhere, periods), limits, WHERE)
    if rest_pose is not None:
        _check_rest_pose(model, limits, np.asarray(rest_pose, dtype=np.float64))
    with single_thread():
        search = Search(Problem(model, limits, columns, base_hz, numbers, periods), seed, evaluations)
        found = search.run()
        path = found.path
        rows = check_series(path, model, limits)
        for _ in range(MOST_SHRINKS if found.cost < INFEASIBLE else 0):
            if all(row.ok for row in rows):
                break
            path = path.scaled(SHRINK)
            rows = check_series(path, model, limits)
        broken = [row for row in rows if not row.ok]
        if broken:
            _refuse_infeasible(broken, found.evaluations)
        condition = condition_along(path, columns, max(CONDITION_SAMPLES, 40 * harmonics))
        count = int(columns(*path.sample(np.zeros(1))).shape[1])
    return Excitation(
        path, condition, rows, count, limits, seed, found.evaluations, model_digest(model), bench.__version__
    )


def design_hold_out(
    train: Excitation,
    model: ArmModel,
    limits: MotionLimits,
    columns: Columns,
    *,
    base_hz: float,
    harmonics: int,
    periods: int = 1,
    seed: int,
    evaluations: int = EVALUATIONS,
) -> Excitation:
    """Design the series the identified model is judged on: another seed, base frequency and other harmonics.

    Raises
    ------
    LimitError
        As :func:`design`; ``repeat``: it is not another trajectory.
    """
    if base_hz == train.path.base_hz or seed == train.seed:
        raise _refusal(
            f"the held-out series has the {'base frequency' if base_hz == train.path.base_hz else 'seed'} of the first",
            "repeat",
            "Take another base frequency and another seed",
        )
    held = design(
        model,
        limits,
        columns,
        base_hz=base_hz,
        harmonics=harmonics,
        periods=periods,
        seed=seed,
        evaluations=evaluations,
    )
    refuse_repeat(train.path, held.path, limits.names)
    return held


def refuse_repeat(first: FourierPath, second: FourierPath, names: tuple[str, ...]) -> None:
    """Refuse a series that repeats another one: on more than half of the joints it is the same path.

    Raises
    ------
    LimitError
        ``repeat``: it names the joints.
    """
    alike = [names[j] for j, match in enumerate(compare(first, second)) if match.repeat]
    if len(alike) * 2 > len(names):
        raise _refusal(
            f"the held-out series repeats the first one on joints {', '.join(alike)}", "repeat", "Take another seed"
        )


def compare(one: FourierPath, other: FourierPath) -> tuple[PathMatch, ...]:
    """Return how alike two series are, joint by joint, at the time shift where each is most alike."""

    def sketch(path: FourierPath, joint: int) -> Path:
        return Path(SKETCH_HZ, (path.sample(path.times(SKETCH_HZ))[0][:, joint],))

    return tuple(match_paths(sketch(one, j), sketch(other, j)) for j in range(one.size))


def model_digest(model: ArmModel) -> str:
    """Return a digest of the model's geometry and inertias, to 9 digits: rounding of units changes nothing."""
    described = model.description
    parts = [described.parameters(), described.flange, described.tip, described.gravity, model.motor_inertia]
    parts += [joint.placement for joint in described.joints]
    numbers = np.concatenate([np.ravel(part) for part in parts])
    text = " ".join([*described.names, *(joint.kind for joint in described.joints)])
    # adding zero makes -0 and 0 one text
    text += " " + " ".join(f"{round(float(number), 12) + 0.0:.9g}" for number in numbers)
    return hashlib.sha256(text.encode()).hexdigest()


def _check_input(model: ArmModel, limits: MotionLimits, base_hz: float, harmonics: int, evaluations: int) -> None:
    limits.check_size(model.n, WHERE)
    if not (math.isfinite(base_hz) and base_hz > 0.0) or harmonics < 2 or evaluations < 1:
        raise ModelError(
            f"base frequency {base_hz} Hz, {harmonics} harmonics, {evaluations} evaluations",
            reason="not_finite",
            where=WHERE,
            remedy="Give a frequency above zero, two harmonics at least, and one evaluation at least",
        )
    room = {
        "position": limits.position_max - limits.position_min,
        "speed": limits.speed,
        "acceleration": limits.acceleration,
        "torque": limits.torque,
    }
    for what, width in room.items():
        if np.any(width <= 0.0):
            joint = int(np.argmax(width <= 0.0))
            raise _refusal(
                f"the {what} limits leave joint {limits.names[joint]} no room: {float(width[joint]):g}",
                "no_room",
                "Correct the limits in the rig's profile",
            )
    for what in ("speed", "acceleration"):
        if np.any(np.isinf(room[what])):
            joint = int(np.argmax(np.isinf(room[what])))
            raise _refusal(
                f"joint {limits.names[joint]} has no {what} limit",
                "no_limit",
                f"State {what}_limit in the rig's profile: what is not limited cannot be kept",
            )
    for axis, low, high in zip("xyz", limits.box_min, limits.box_max, strict=True):
        if low >= high:
            raise _refusal(f"the box is empty along {axis}: {low:g} to {high:g} m", "no_room", "Correct the box")


def _check_rest_pose(model: ArmModel, limits: MotionLimits, pose: Floats) -> None:
    places = model.joint_positions_rows(pose[None])
    for index, name in movable_points(model):
        for axis in range(3):
            at, low, high = float(places[0, index, axis]), float(limits.box_min[axis]), float(limits.box_max[axis])
            if not low <= at <= high:
                angles = ", ".join(f"{x:.1f}" for x in np.degrees(pose))
                raise _refusal(
                    f"at the rest pose [{angles}] deg the {name} is at {'xyz'[axis]} = {at:.3f} m, "
                    f"{max(low - at, at - high):.3f} m outside the box ({low:g} to {high:g} m)",
                    "box",
                    "Take another rest pose, or correct the workspace box in the rig's profile",
                )


def _refuse_infeasible(broken: list[CheckRow], evaluations: int) -> None:
    worst = min(broken, key=lambda row: row.share)
    raise _refusal(
        f"none of {evaluations} series keeps every limit; the tightest is {worst.check} of {worst.joint}: "
        f"{worst.value:.4g} {worst.unit} where {worst.sense} {worst.limit:.4g} {worst.unit} is allowed, "
        f"margin {worst.margin:.4g} {worst.unit} at {worst.pose}",
        "infeasible",
        "Allow more evaluations, another base frequency or wider limits",
    )


def _refusal(what: str, reason: str, remedy: str) -> LimitError:
    return LimitError(what, reason=reason, where=WHERE, remedy=remedy)
