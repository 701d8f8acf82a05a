"""The checks find what they are there for: each wrong model here fails the check that names its fault."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bench.errors import ModelError
from bench.models.rigid_checks import check_model


class Bent:
    """A model with something put between it and whoever asks."""

    def __init__(self, model):
        self.model, self.n = model, model.n

    def __getattr__(self, name):
        return getattr(self.model, name)


class Asymmetric(Bent):
    def mass_matrix(self, q):
        mass = self.model.mass_matrix(q).copy()
        mass[0, 1] *= 1.0 + 1e-6
        return mass


class Indefinite(Bent):
    def mass_matrix(self, q):
        return self.model.mass_matrix(q) - 0.05 * np.eye(self.n)


class OtherCoriolis(Bent):
    """C v is right, C is not of Christoffel symbols: (C + w u^T) v with u normal to v."""

    def coriolis(self, q, v):
        right = self.model.coriolis(q, v)
        normal = np.array([v[1], -v[0], *np.zeros(self.n - 2)])
        return right + 1e-6 * np.outer(np.ones(self.n), normal)


class GravityUp(Bent):
    def gravity(self, q):
        return -self.model.gravity(q)


class ForgottenCoriolis(Bent):
    def inverse_dynamics(self, q, v, a):
        return self.model.inverse_dynamics(q, 0.0 * np.asarray(v), a)


class Undefined(Bent):
    def gravity(self, q):
        return np.full(self.n, np.nan)


class Millimetres(Bent):
    def placement(self, q):
        placed = self.model.placement(q).copy()
        placed[:3, 3] *= 1e3
        return placed


WRONG = {
    "symmetric": Asymmetric,
    "positive_definite": Indefinite,
    "skew": OtherCoriolis,
    "gravity": GravityUp,
    "sum": ForgottenCoriolis,
    "finite": Undefined,
    "units": Millimetres,
}


def zero_tip():
    """Where the tip of the conftest's arm stands at zero, by hand: flange x down, y along the base's y, z forward."""
    return np.array([0.28 + 0.08 + 0.1, 0.02, 0.25 + 0.28 + 0.05 - 0.01])


def test_a_right_model_passes_with_room(model):
    report = check_model(model, zero_tip=zero_tip())
    report.require()
    assert report.passed
    figures = {finding.name: finding.figure for finding in report.findings}
    assert set(figures) == {*WRONG, "zero_pose"}
    assert figures["skew"] < 1e-10
    assert figures["zero_pose"] < 1e-12
    assert str(report).count("ok") == len(figures)


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_model_is_found_and_named(model, fault):
    report = check_model(WRONG[fault](model))
    failed = [finding.name for finding in report.findings if not finding.passed]
    assert fault in failed
    with pytest.raises(ModelError) as caught:
        report.require("arm")
    assert caught.value.reason in failed
    assert "arm" in str(caught.value)
    assert "FAIL" in str(report)


@pytest.mark.parametrize("fault", ["skew", "finite", "units", "sum"])
def test_a_single_fault_fails_one_check_alone(model, fault):
    report = check_model(WRONG[fault](model))
    assert [finding.name for finding in report.findings if not finding.passed] == [fault]


def test_a_zero_off_by_a_degree_is_found(model):
    measured = zero_tip()
    turned = measured.copy()
    turned[0] = measured[0] * math.cos(0.017)
    turned[1] = measured[1] + measured[0] * math.sin(0.017)
    with pytest.raises(ModelError) as caught:
        check_model(model, poses=1, zero_tip=turned).require()
    assert caught.value.reason == "zero_pose"
    at = model.placement(np.zeros(6))
    check_model(model, poses=1, zero_tip=at).require()
    flipped = at.copy()
    flipped[:3, :3] = at[:3, :3] @ np.diag([1.0, -1.0, -1.0])
    assert not check_model(model, poses=1, zero_tip=flipped).passed
