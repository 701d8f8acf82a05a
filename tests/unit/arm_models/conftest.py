"""Arms the tests of the models share; all from seeded bodies, so that nothing is symmetric by chance."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from bench.models.arm_description import ArmDescription, LinkInertia
from bench.models.dh import DhRow, from_dh
from bench.models.rigid import ArmModel
from bench.models.transforms import shift

HALF = math.pi / 2
SIX = (
    (0.25, 0.0, -HALF, 0.0),
    (0.0, 0.28, 0.0, -HALF),
    (0.0, 0.05, -HALF, 0.0),
    (0.28, 0.0, HALF, 0.0),
    (0.0, 0.0, -HALF, 0.0),
    (0.08, 0.0, 0.0, math.pi),
)


def cloud(rng: np.random.Generator, mass: float, size: float = 0.06) -> LinkInertia:
    """A body of a few point masses."""
    places = rng.normal(size=(8, 3)) * size
    centre = places.mean(axis=0)
    spread = mass * (places - centre).T @ (places - centre) / 8
    return LinkInertia(mass, centre, np.trace(spread) * np.eye(3) - spread)


@pytest.fixture(scope="session")
def body() -> Callable[..., LinkInertia]:
    """``body(rng, mass, size=0.06)``."""
    return cloud


@pytest.fixture(scope="session")
def six_rows() -> list[DhRow]:
    """Standard table of a six-axis arm with a spherical wrist."""
    rng = np.random.default_rng(11)
    masses = (4.0, 3.2, 2.2, 1.3, 0.8, 0.3)
    return [
        DhRow(f"joint_{i}", d=d, a=a, alpha=alpha, theta=theta, link=cloud(rng, mass))
        for i, ((d, a, alpha, theta), mass) in enumerate(zip(SIX, masses, strict=True), 1)
    ]


@pytest.fixture(scope="session")
def six_axes(six_rows: list[DhRow]) -> ArmDescription:
    return from_dh("six", six_rows, tool=shift(0.01, 0.02, 0.1))


@pytest.fixture(scope="session")
def sliding(six_rows: list[DhRow]) -> ArmDescription:
    """The same arm with its third joint prismatic."""
    rows = [*six_rows[:2], replace(six_rows[2], kind="prismatic", theta=0.2), *six_rows[3:]]
    return from_dh("sliding", rows)


@pytest.fixture(scope="session")
def model(six_axes: ArmDescription) -> ArmModel:
    pytest.importorskip("pinocchio", reason="extra `arm` is not installed")
    return ArmModel(six_axes)


@pytest.fixture
def state() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Position, speed and acceleration of six joints."""
    q, v, a = np.random.default_rng(3).uniform(-1.5, 1.5, (3, 6))
    return q, v, a
