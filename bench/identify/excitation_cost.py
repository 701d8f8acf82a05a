"""How well a motion excites an arm: scaled condition number of the base regressor along it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from bench.models.fourier_path import FourierPath

if TYPE_CHECKING:
    from bench.models.rigid import ArmModel

Floats = NDArray[np.float64]

#: Speed over which the sign of a joint's speed is blended in the Coulomb column [rad/s].
BLEND_RAD_S = 0.02
#: A column is left out when it depends on those before it to this share of its length.
DEPENDENT = 1e-7
STATES = 200


class Columns(Protocol):
    """Regressor whose columns are wanted independent."""

    def __call__(self, q: Floats, v: Floats, a: Floats) -> Floats:
        """Return the columns (k n, p) of states (k, n), rows grouped by state or by joint."""
        ...


@dataclass(frozen=True)
class BaseColumns:
    """Base columns of an arm: links, rotors' inertia, viscous and Coulomb friction, offset of every joint.

    Which columns of the rigid-body regressor are kept is found on random states: those that do not depend on the ones
    before. The rotors' columns stand behind the links', so that one that is not told apart from a link's is left out.
    """

    model: ArmModel
    kept: tuple[int, ...]
    rotors: tuple[int, ...]
    friction: bool = True
    offset: bool = True

    @classmethod
    def of(
        cls, model: ArmModel, *, rotors: bool = True, friction: bool = True, offset: bool = True, seed: int = 0
    ) -> BaseColumns:
        """Return the base columns of ``model``; ``seed`` is that of the random states."""
        rng = np.random.default_rng(seed)
        n = model.n
        q, v, a = (rng.uniform(-math.pi, math.pi, (STATES, n)) for _ in range(3))
        whole = np.hstack(
            [
                model.regressor_rows(q, v, a).reshape(STATES * n, 10 * n),
                _own(a) if rotors else np.zeros((STATES * n, 0)),
            ]
        )
        found = _independent(whole)
        return cls(
            model,
            tuple(k for k in found if k < 10 * n),
            tuple(k - 10 * n for k in found if k >= 10 * n),
            friction,
            offset,
        )

    @property
    def count(self) -> int:
        """Number of columns."""
        n = self.model.n
        return len(self.kept) + len(self.rotors) + (2 * n if self.friction else 0) + (n if self.offset else 0)

    def __call__(self, q: Floats, v: Floats, a: Floats) -> Floats:
        n, k = self.model.n, len(q)
        links = self.model.regressor_rows(q, v, a).reshape(k * n, 10 * n)
        parts = [links[:, list(self.kept)], _own(a)[:, list(self.rotors)]]
        if self.friction:
            parts += [_own(v), _own(np.tanh(v / BLEND_RAD_S))]
        if self.offset:
            parts.append(_own(np.ones_like(v)))
        return np.hstack(parts)


def _own(values: Floats) -> Floats:
    """Return (k n, n): a column per joint that holds its value in that joint's rows alone."""
    k, n = values.shape
    columns = np.zeros((k, n, n))
    joints = np.arange(n)
    columns[:, joints, joints] = values
    return columns.reshape(k * n, n)


def _independent(columns: Floats) -> list[int]:
    """Return the columns that do not depend on those before them, by Gram-Schmidt done twice."""
    basis: list[Floats] = []
    kept: list[int] = []
    for index in range(columns.shape[1]):
        column = columns[:, index]
        length = float(np.linalg.norm(column))
        if length <= 1e-12:
            continue
        rest = column / length
        if basis:
            span = np.array(basis)
            for _ in range(2):
                rest = rest - span.T @ (span @ rest)
        size = float(np.linalg.norm(rest))
        if size > DEPENDENT:
            basis.append(rest / size)
            kept.append(index)
    return kept


def scaled_condition(columns: Floats) -> float:
    """Condition number [1] of columns (r, p) scaled to equal length; infinite where one vanishes or depends.

    From the eigenvalues of the scaled normal equations: half the digits are lost, which a condition number of tens does
    not need.
    """
    gram = columns.T @ columns
    length = np.sqrt(np.diag(gram))
    if not np.all(np.isfinite(length)) or np.any(length <= 0.0):
        return math.inf
    squares = np.linalg.eigvalsh(gram / np.outer(length, length))
    return math.sqrt(float(squares[-1] / squares[0])) if squares[0] > 1e-14 * squares[-1] else math.inf


def condition_along(path: FourierPath, columns: Columns, samples: int) -> float:
    """Return the scaled condition number over one period on ``samples`` instants."""
    time = np.arange(samples) * (path.period_s / samples)
    return scaled_condition(columns(*path.sample(time)))
