"""Newton-Euler against Lagrange: the arm's torques by recursion, and by compiled symbolic M, C v and G.

Both in one process, one after the other, as ratios. The symbolic side is at its best here: derived along named
intermediates, with every common part computed once, and only the vector C v instead of the matrix C. It does not grow
exponentially, as one reads: from six axes to seven it takes a quarter to a third more.
"""

from __future__ import annotations

import importlib.util
import math
import sys
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.models.arm_description import LinkInertia
from bench.models.dh import DhRow, from_dh
from bench.models.rigid import ArmModel

pytestmark = pytest.mark.performance
pinocchio = pytest.importorskip("pinocchio", reason="extra `arm` is not installed")
pytest.importorskip("sympy", reason="SymPy is not installed")

HALF = math.pi / 2
SIX = [
    (0.25, 0, -HALF, 0),
    (0, 0.28, 0, -HALF),
    (0, 0.05, -HALF, 0),
    (0.28, 0, HALF, 0),
    (0, 0, -HALF, 0),
    (0.08, 0, 0, 0),
]
SEVEN = [(0.34, 0, -HALF, 0), (0, 0, HALF, 0), (0.4, 0, HALF, 0), (0, 0, -HALF, 0), (0.4, 0, -HALF, 0), (0, 0, HALF, 0), (0.13, 0, 0, 0)]  # fmt: skip  # noqa: E501
AT_LEAST = 15.0
"""Times faster; 40 to 80 were measured."""
MOST_OVERHEAD = 3.0
"""Times the library's own call that the bench's may cost."""


def load_lagrange() -> Any:
    spec = importlib.util.spec_from_file_location("lagrange_arm", Path(__file__).parents[1] / "lagrange_arm.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def microseconds(action: Callable[[], object], number: int) -> float:
    return min(timeit.repeat(action, number=number, repeat=7)) / number * 1e6


@pytest.mark.parametrize("table", [SIX, SEVEN], ids=["six", "seven"])
def test_recursion_beats_the_compiled_symbolic_terms(table, record_property):
    lagrange = load_lagrange()
    rng = np.random.default_rng(1)
    rows, links = [], []
    for d, a, alpha, theta in table:
        places = rng.normal(size=(8, 3)) * 0.06
        centre = places.mean(axis=0)
        spread = 1.5 * (places - centre).T @ (places - centre) / 8
        inertia = np.trace(spread) * np.eye(3) - spread
        rows.append(lagrange.Row("revolute", d, a, alpha, theta, 1.5, tuple(centre.tolist()), inertia))
        links.append(LinkInertia(1.5, centre, inertia))
    model = ArmModel(
        from_dh(
            "arm",
            [
                DhRow(f"joint_{i}", d=row.d, a=row.a, alpha=row.alpha, theta=row.theta, link=link)
                for i, (row, link) in enumerate(zip(rows, links, strict=True))
            ],
        )
    )
    symbolic = lagrange.composed(rows, (0.0, 0.0, -9.80665))
    n = model.n
    q, v, a = rng.uniform(-1.0, 1.0, (3, n))
    mass, rest, lift = symbolic(q, v)
    np.testing.assert_allclose(mass @ a + rest + lift, model.inverse_dynamics(q, v, a), atol=1e-9)
    plain_q, plain_v = q.tolist(), v.tolist()
    lagrangian = microseconds(lambda: symbolic.raw(plain_q, plain_v), 100)
    recursive = microseconds(lambda: model.inverse_dynamics(q, v, a), 2000)
    terms = microseconds(lambda: (model.mass_matrix(q), model.bias(q, v), model.gravity(q)), 1000)
    library = microseconds(lambda: pinocchio.rnea(model._model, model._data, q, v, a), 2000)
    for name, figure in {
        "symbolic_us": lagrangian,
        "newton_euler_us": recursive,
        "symbolic_over_newton_euler": lagrangian / recursive,
        "symbolic_over_the_same_terms": lagrangian / terms,
        "call_over_library": recursive / library,
    }.items():
        record_property(name, round(figure, 2))
    assert lagrangian / recursive > AT_LEAST
    assert recursive / library < MOST_OVERHEAD
