"""Lagrange's equations of a serial arm, derived with SymPy from a standard DH table: nothing of the bench is used.

``whole`` differentiates L = K - P as it stands and suits short arms. ``composed`` differentiates the factors of every
frame's matrix and multiplies them as named intermediates, which is the same derivation for long ones (R. Paul, *Robot
Manipulators*, 1981, chapter 6: ``tau_k = sum_i tr(dT_i/dq_k J_i T_i''^T) - m_i g^T dT_i/dq_k r_i``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp


@dataclass(frozen=True)
class Row:
    """A row of a standard DH table and its link: mass, centre and inertia about the centre in the row's link frame."""

    kind: str
    d: float
    a: float
    alpha: float
    theta: float
    mass: float
    centre: tuple[float, float, float]
    inertia: np.ndarray


Functions = Callable[[Sequence[float], Sequence[float]], tuple[np.ndarray, np.ndarray, np.ndarray]]


def exact(angle: float) -> tuple[Any, Any]:
    """Cosine and sine of a table's angle, exact for quarter turns."""
    quarter = angle / (np.pi / 2)
    if abs(quarter - round(quarter)) < 1e-12:
        turns = round(quarter) % 4
        return sp.Integer((1, 0, -1, 0)[turns]), sp.Integer((0, 1, 0, -1)[turns])
    return sp.Float(np.cos(angle)), sp.Float(np.sin(angle))


def number(value: float) -> Any:
    return sp.Integer(0) if value == 0.0 else sp.Float(value)


def factor(row: Row, q: Any) -> sp.Matrix:
    """Frame i in frame i - 1."""
    ca, sa = exact(row.alpha)
    co, so = exact(row.theta)
    a = number(row.a)
    if row.kind == "revolute":
        c, s, d = sp.cos(q) * co - sp.sin(q) * so, sp.sin(q) * co + sp.cos(q) * so, number(row.d)
    else:
        c, s, d = co, so, number(row.d) + q
    return sp.Matrix([[c, -s * ca, s * sa, a * c], [s, c * ca, -c * sa, a * s], [0, sa, ca, d], [0, 0, 0, 1]])


def moments(row: Row) -> sp.Matrix:
    """The link's matrix of second moments about its frame's origin, (4, 4)."""
    centre = np.array(row.centre)
    origin = row.inertia + row.mass * (centre @ centre * np.eye(3) - np.outer(centre, centre))
    out = np.zeros((4, 4))
    out[:3, :3] = 0.5 * np.trace(origin) * np.eye(3) - origin
    out[:3, 3] = out[3, :3] = row.mass * centre
    out[3, 3] = row.mass
    return sp.Matrix(4, 4, [number(x) for x in out.ravel()])


def whole(rows: Sequence[Row], gravity: Sequence[float]) -> Functions:
    """M, C v and G from d/dt dL/dv - dL/dq, term by term: L is a polynomial in cosines, sines, positions and speeds."""
    n = len(rows)
    names = [f"{letter}{i}" for letter in "csqv" for i in range(n)]
    ring, *symbols = sp.ring(names, sp.RR)
    c, s, q, v = (symbols[k * n : k * n + n] for k in range(4))

    def slope(f: Any, i: int) -> Any:
        """The derivative by a joint's position: of its cosine, its sine and itself."""
        return f.diff(s[i]) * c[i] - f.diff(c[i]) * s[i] + f.diff(q[i])

    def rate(f: Any) -> Any:
        return sum((slope(f, i) * v[i] for i in range(n)), ring(0))

    every = np.frompyfunc(rate, 1, 1)
    frame, kinetic, potential = np.eye(4).astype(object) * ring(1), ring(0), ring(0)
    for i, row in enumerate(rows):
        given = [sp.Symbol("c"), sp.Symbol("s"), sp.Symbol("q")]
        x = sp.Symbol("x")
        own = factor(row, x).subs({sp.cos(x): given[0], sp.sin(x): given[1], x: given[2]})
        put = dict(zip(given, (c[i], s[i], q[i]), strict=True))
        terms = [sp.Poly(e, *given).terms() for e in own]
        powers = [
            sum(
                (ring(float(k)) * put[given[0]] ** m[0] * put[given[1]] ** m[1] * put[given[2]] ** m[2] for m, k in t),
                ring(0),
            )
            for t in terms
        ]
        frame = frame @ np.array(powers, dtype=object).reshape(4, 4)
        place = (frame @ np.array([*row.centre, 1.0], dtype=object))[:3]
        turn = frame[:3, :3]
        speed, spin = every(place), turn.T @ every(turn)  # skew matrix of the angular velocity in the link's frame
        omega = np.array([spin[2, 1], spin[0, 2], spin[1, 0]])
        kinetic += (row.mass * (speed @ speed) + omega @ (row.inertia.astype(object) @ omega)) * 0.5
        potential -= row.mass * (np.array(gravity, dtype=object) @ place)
    lagrangian = kinetic - potential
    momentum = [lagrangian.diff(w) for w in v]
    lift = [slope(potential, i) for i in range(n)]
    mass = [p.diff(w) for p in momentum for w in v]
    # d/dt of the momentum at constant speed, less dL/dq, less what is gravity's of it.
    rest = [rate(momentum[i]) - slope(lagrangian, i) - lift[i] for i in range(n)]
    tables = [
        (np.array([m for m, _ in f.terms()]).reshape(-1, 4 * n), np.array([float(k) for _, k in f.terms()]))
        for f in (*mass, *rest, *lift)
    ]

    def evaluate(q: Sequence[float], v: Sequence[float]) -> list[float]:
        at = np.concatenate([np.cos(q), np.sin(q), q, v])
        return [float(k @ np.prod(at**m, axis=1)) for m, k in tables]

    return plain(evaluate)


def composed(rows: Sequence[Row], gravity: Sequence[float]) -> Functions:
    """M, C v and G of a long arm, as one straight list of assignments."""
    n = len(rows)
    q, v = sp.symbols(f"q0:{n}"), sp.symbols(f"v0:{n}")
    g = sp.Matrix([*(number(x) for x in gravity), 0])
    names = sp.numbered_symbols("t")
    steps: list[tuple[sp.Symbol, sp.Expr]] = []

    def keep(matrix: sp.Matrix) -> sp.Matrix:
        """Name every element that costs an operation."""

        def named(x: sp.Expr) -> sp.Expr:
            if x.is_Atom:
                return x
            symbol = next(names)
            steps.append((symbol, x))
            return symbol

        return matrix.applyfunc(named)

    frame, second, rate = sp.eye(4), sp.zeros(4, 4), sp.zeros(4, 4)
    partial: list[sp.Matrix] = []
    mass, rest, lift = sp.zeros(n, n), sp.zeros(n, 1), sp.zeros(n, 1)
    for i, row in enumerate(rows):
        symbolic = factor(row, q[i])
        own, slope, bend = keep(symbolic), keep(symbolic.diff(q[i])), keep(symbolic.diff(q[i], 2))
        w = v[i]
        second = keep(second * own + 2 * w * (rate * slope) + w**2 * (frame * bend))
        rate = keep(rate * own + w * (frame * slope))
        partial = [*(keep(before * own) for before in partial), keep(frame * slope)]
        frame = keep(frame * own)
        weight = moments(row)
        pushed = keep(second * weight)
        leant = keep(weight[:, 3].T)  # mass times centre
        for k in range(i + 1):
            carried = keep(partial[k] * weight)
            for j in range(k + 1):
                mass[k, j] += dot(carried, partial[j])
            rest[k] += dot(pushed, partial[k])
            lift[k] -= (g.T * partial[k] * leant.T)[0]
    mass = sp.Matrix(n, n, lambda i, j: mass[max(i, j), min(i, j)])
    flat = [*mass, *rest, *lift]
    return plain(sp.lambdify((q, v), flat, modules="math", cse=lambda given: (steps, given)))


def dot(a: sp.Matrix, b: sp.Matrix) -> Any:
    """tr(a b^T) of the upper three rows; the lowest of every derivative is zero."""
    return sum(x * y for x, y in zip(a[:3, :], b[:3, :], strict=True))


def plain(function: Any) -> Functions:
    def evaluate(q: Sequence[float], v: Sequence[float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        n = len(q)
        flat = np.array(function([float(x) for x in q], [float(x) for x in v]), dtype=float)
        return flat[: n * n].reshape(n, n), flat[n * n : n * n + n], flat[n * n + n :]

    evaluate.raw = function  # type: ignore[attr-defined]
    return evaluate
