"""Three derivations of one arm's dynamics agree: Pinocchio (the bench), MuJoCo, and Lagrange's equations in SymPy.

The arms are DH tables of this file. MuJoCo gets them as MJCF written here and SymPy as products of DH matrices, so that
neither stands on the bench's own reading of a table.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from bench.errors import ModelError
from bench.models.arm_description import LinkInertia
from bench.models.dh import DhRow, from_dh
from bench.models.rigid import ArmModel
from bench.models.rigid_checks import check_model
from bench.models.urdf import read_urdf, write_urdf

pytest.importorskip("pinocchio", reason="extra `arm` is not installed")
mujoco = pytest.importorskip("mujoco", reason="extra `arm` is not installed")
pytest.importorskip("sympy", reason="SymPy is not installed")

AGREE = 1e-9
HALF = math.pi / 2
G = 9.80665
DOWN = (0.0, 0.0, -G)


def load_lagrange() -> ModuleType:
    spec = importlib.util.spec_from_file_location("lagrange_arm", Path(__file__).parents[1] / "lagrange_arm.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


lagrange = load_lagrange()


def cloud(rng: np.random.Generator, size: float = 0.1) -> tuple[float, tuple[float, ...], np.ndarray]:
    """Mass, centre and inertia of a few point masses: what a body has, without any symmetry."""
    places = rng.normal(size=(8, 3)) * size
    centre = places.mean(axis=0)
    mass = float(rng.uniform(1.0, 3.0))
    spread = mass * (places - centre).T @ (places - centre) / 8
    return mass, tuple(float(x) for x in centre), np.trace(spread) * np.eye(3) - spread


def rod(mass: float, length: float) -> tuple[float, tuple[float, ...], np.ndarray]:
    """A rod along x that ends at its frame; MuJoCo wants some inertia about every axis."""
    across = mass * length**2 / 12
    return mass, (-length / 2, 0.0, 0.0), np.diag([1e-12, across, across])


def table(rows: Sequence[tuple[str, float, float, float, float]], bodies: Sequence[Any]) -> list[Any]:
    return [lagrange.Row(*row, *body) for row, body in zip(rows, bodies, strict=True)]


def arms() -> dict[str, tuple[list[Any], tuple[float, float, float]]]:
    rng = np.random.default_rng(4)
    r, p = "revolute", "prismatic"
    six = [
        (r, 0.25, 0.0, -HALF, 0.0),
        (r, 0.0, 0.28, 0.0, -HALF),
        (r, 0.0, 0.05, -HALF, 0.0),
        (r, 0.28, 0.0, HALF, 0.0),
        (r, 0.0, 0.0, -HALF, 0.0),
        (r, 0.08, 0.0, 0.0, math.pi),
    ]
    bent = [(r, 0.3, 0.05, -HALF, 0.0), (r, 0.1, 0.4, HALF, 0.2), (r, 0.05, 0.3, 0.7, 0.0)]
    sliding = [(r, 0.3, 0.0, -HALF, 0.0), (p, 0.2, 0.1, 0.4, 0.3), (r, 0.1, 0.3, 0.2, 0.0)]
    return {
        # The arm of the notes, in a vertical plane: gravity along -y of the table's base.
        "two_links": (table([(r, 0.0, 0.5, 0.0, 0.0)] * 2, [rod(5.0, 0.5)] * 2), (0.0, -G, 0.0)),
        "three_links": (table(bent, [cloud(rng) for _ in bent]), DOWN),
        "sliding": (table(sliding, [cloud(rng) for _ in sliding]), DOWN),
        "six_axes": (table(six, [cloud(rng, 0.06) for _ in six]), DOWN),
    }


ARMS = arms()


def described(name: str) -> Any:
    rows, gravity = ARMS[name]
    return from_dh(
        name,
        [
            DhRow(f"joint_{i}", x.kind, x.d, x.a, x.alpha, x.theta, LinkInertia(x.mass, np.array(x.centre), x.inertia))
            for i, x in enumerate(rows, 1)
        ],
        gravity=np.array(gravity),
    )


@pytest.fixture(scope="module", params=list(ARMS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def ours(name: str) -> ArmModel:
    return ArmModel(described(name))


@pytest.fixture(scope="module")
def states(name: str) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(7)
    n = len(ARMS[name][0])
    return [(rng.uniform(-np.pi, np.pi, n), rng.uniform(-2.0, 2.0, n)) for _ in range(12)]


def dh_matrix(row: Any) -> np.ndarray:
    ct, st, ca, sa = math.cos(row.theta), math.sin(row.theta), math.cos(row.alpha), math.sin(row.alpha)
    return np.array(
        [
            [ct, -st * ca, st * sa, row.a * ct],
            [st, ct * ca, -ct * sa, row.a * st],
            [0.0, sa, ca, row.d],
            [0.0, 0.0, 0.0, 1.0],
        ]
    )


def numbers(values: Any) -> str:
    return " ".join(repr(float(x)) for x in np.ravel(values))


def mjcf(rows: Sequence[Any], gravity: Sequence[float]) -> str:
    """Every body's frame is its DH link frame, so the joint's axis is that of the frame before, seen from it."""
    inner = ""
    for i, row in reversed(list(enumerate(rows, 1))):
        at = dh_matrix(row)
        turn, place = at[:3, :3], at[:3, 3]
        i6 = row.inertia[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
        kind = "hinge" if row.kind == "revolute" else "slide"
        inner = (
            f'<body name="link_{i}" pos="{numbers(place)}" xyaxes="{numbers(turn[:, :2].T)}">'
            f'<inertial pos="{numbers(row.centre)}" mass="{row.mass!r}" fullinertia="{numbers(i6)}"/>'
            f'<joint type="{kind}" pos="{numbers(-turn.T @ place)}" axis="{numbers(turn[2])}"/>{inner}</body>'
        )
    return (
        '<mujoco><compiler angle="radian" autolimits="false" balanceinertia="false"/>'
        f'<option gravity="{numbers(gravity)}"/><worldbody>{inner}</worldbody></mujoco>'
    )


def mujoco_terms(model: Any, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """M, C v, G as MuJoCo has them."""
    data = mujoco.MjData(model)
    data.qpos[:] = q
    mujoco.mj_forward(model, data)
    lift = data.qfrc_bias.copy()
    mass = np.zeros((model.nv, model.nv))
    for column, unit in enumerate(np.eye(model.nv)):
        mujoco.mj_mulM(model, data, mass[column], unit)
    data.qvel[:] = v
    mujoco.mj_forward(model, data)
    return mass, data.qfrc_bias - lift, lift


def apart(ours: ArmModel, q: np.ndarray, v: np.ndarray, theirs: tuple[np.ndarray, np.ndarray, np.ndarray]) -> float:
    lift = ours.gravity(q)
    mine = (ours.mass_matrix(q), ours.bias(q, v) - lift, lift)
    assert max(float(np.abs(part).max()) for part in mine) > 1e-3
    return max(float(np.abs(a - b).max()) for a, b in zip(mine, theirs, strict=True))


def test_pinocchio_and_mujoco_agree(name, ours, states, record_property):
    model = mujoco.MjModel.from_xml_string(mjcf(*ARMS[name]))
    worst = max(apart(ours, q, v, mujoco_terms(model, q, v)) for q, v in states)
    record_property("largest_difference", worst)
    assert worst < AGREE


def test_pinocchio_and_lagrange_agree(name, ours, states, record_property):
    derive = lagrange.composed if len(ARMS[name][0]) > 3 else lagrange.whole
    terms = derive(*ARMS[name])
    worst = max(apart(ours, q, v, terms(q, v)) for q, v in states)
    record_property("largest_difference", worst)
    assert worst < AGREE


def test_the_composed_derivation_is_that_of_the_whole_lagrangian():
    rows, gravity = ARMS["sliding"]
    whole, composed = lagrange.whole(rows, gravity), lagrange.composed(rows, gravity)
    for seed in range(3):
        q, v = np.random.default_rng(seed).normal(size=(2, 3))
        for a, b in zip(whole(q, v), composed(q, v), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-12)


def test_a_wrong_inertia_shows_between_the_engines(states, name):
    """The comparison can fail: a gram more on the last link is seen."""
    rows, gravity = ARMS[name]
    last = rows[-1]
    heavier = lagrange.Row(
        last.kind, last.d, last.a, last.alpha, last.theta, last.mass + 1e-3, last.centre, last.inertia
    )
    model = mujoco.MjModel.from_xml_string(mjcf([*rows[:-1], heavier], gravity))
    ours = ArmModel(described(name))
    assert max(apart(ours, q, v, mujoco_terms(model, q, v)) for q, v in states) > 1e-6


def test_every_arm_passes_the_checks_of_a_model(ours, record_property):
    report = check_model(ours)
    report.require()
    record_property("skew", {finding.name: finding.figure for finding in report.findings}["skew"])


def test_two_links_have_the_closed_form():
    """M of two thin rods; M12 is 0.4167 kg.m2 at a right angle."""
    ours = ArmModel(described("two_links"))
    m, length = 5.0, 0.5
    for elbow in (0.0, 0.7, HALF, 2.5):
        q = np.array([0.4, elbow])
        c = math.cos(elbow)
        m11 = m * length**2 / 3 + m * (length**2 + length**2 / 3 + length * length * c)
        m12 = m * (length**2 / 3 + length * length * c / 2)
        np.testing.assert_allclose(ours.mass_matrix(q), [[m11, m12], [m12, m * length**2 / 3]], atol=1e-11)
        lift = m * G * length / 2 * np.array([3 * math.cos(0.4) + math.cos(0.4 + elbow), math.cos(0.4 + elbow)])
        np.testing.assert_allclose(ours.gravity(q), lift, atol=1e-12)
        h = m * length * length / 2 * math.sin(elbow)
        v = np.array([0.8, -1.1])
        turning = [-h * (2 * v[0] * v[1] + v[1] ** 2), h * v[0] ** 2]
        np.testing.assert_allclose(ours.coriolis(q, v) @ v, turning, atol=1e-12)
    assert ours.mass_matrix([0.0, HALF])[0, 1] == pytest.approx(0.4167, abs=5e-5)


def test_other_loaders_read_our_urdf_as_the_same_arm(name, ours, states):
    import pinocchio

    text = write_urdf(ours.description)
    read = pinocchio.buildModelFromXML(text)
    read.gravity.linear = np.array(ARMS[name][1])
    data = read.createData()
    simulated = mujoco.MjModel.from_xml_string(text)
    simulated.opt.gravity[:] = ARMS[name][1]
    for q, v in states:
        torque = pinocchio.rnea(read, data, q, v, v)
        np.testing.assert_allclose(torque, ours.inverse_dynamics(q, v, v), atol=AGREE)
        assert apart(ours, q, v, mujoco_terms(simulated, q, v)) < AGREE


@pytest.mark.reference
def test_a_makers_urdf_is_read_as_pinocchio_reads_it_and_one_that_is_no_body_refused(reference_data):
    """The KUKA LWR4+ as published, and with parameters identified without constraints, which no body has."""
    import pinocchio

    folder = reference_data / "kuka_lwr4"
    if not folder.is_dir():
        pytest.skip("no KUKA LWR4+ in the reference data")
    ours = ArmModel(read_urdf(folder / "kuka_lwr4.urdf", expect_joints=7))
    check_model(ours).require()
    theirs = pinocchio.buildModelFromUrdf(str(folder / "kuka_lwr4.urdf"))
    theirs.gravity.linear = ours.description.gravity
    q, v, a = np.random.default_rng(0).uniform(-1.0, 1.0, (3, 7))
    torque = pinocchio.rnea(theirs, theirs.createData(), q, v, a)
    np.testing.assert_allclose(ours.inverse_dynamics(q, v, a), torque, atol=1e-12)
    identified = folder / "kuka_lwr4_identified.urdf"
    with pytest.raises(ModelError) as caught:
        read_urdf(identified)
    assert caught.value.reason == "not_a_body"
    assert read_urdf(identified, inertias="as_given").size == 7
