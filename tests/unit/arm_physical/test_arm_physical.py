"""Parameters of an arm that can exist: always consistent, at no price while the data allow it, the best there are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.errors import Refused
from bench.identify.arm_nominal import LINK, NominalArm, link_matrix, link_parameters, link_unknowns
from bench.identify.arm_physical import BELIEF, FLOOR, PhysicalFit, make_consistent, relative_error
from bench.identify.blas import single_thread
from bench.models.arm_description import ArmDescription, LinkInertia
from bench.models.rigid import ArmModel
from bench.models.rigid_checks import check_model

Floats = NDArray[np.float64]
Rows = Callable[[int, int], Floats]
SHARE_OF_NOISE = 0.03


def measured(rows: Floats, parameters: Floats, seed: int) -> tuple[Floats, Floats, Floats]:
    """Weighted regressor and response of noisy torques, and the weights (m,)."""
    rng = np.random.default_rng([seed, 1])
    torque = rows @ parameters
    sigma = np.tile(SHARE_OF_NOISE * np.sqrt(np.mean(torque.reshape(-1, 6) ** 2, axis=0)), len(rows) // 6)
    weight = 1.0 / sigma
    return rows * weight[:, None], (torque + sigma * rng.normal(size=len(rows))) * weight, weight


def smallest_eigenvalue(links: tuple[LinkInertia, ...]) -> float:
    return min(float(np.linalg.eigvalsh(link.pseudo_inertia())[0]) for link in links)


def test_a_real_arm_comes_out_consistent_in_every_seed_for_less_than_a_point(
    regressor: Rows, real_arm: Callable[[int], Floats], nominal: NominalArm, record_property: Callable[..., None]
) -> None:
    rows, other = regressor(150, 1), regressor(60, 2)
    costs = []
    for seed in range(20):
        parameters = real_arm(seed)
        weighted, response, _ = measured(rows, parameters, seed)
        fit = make_consistent(weighted, response, nominal)
        assert smallest_eigenvalue(fit.links) > 0.0
        assert min(fit.motor_inertia.min(), fit.viscous.min(), fit.coulomb.min()) >= 0.0
        with single_thread():
            plain = np.linalg.lstsq(weighted, response, rcond=1e-10)[0]
        hold_out, hold_out_torque, _ = measured(other, parameters, 1000 + seed)
        costs.append(fit.error(hold_out, hold_out_torque) - relative_error(hold_out, hold_out_torque, plain))
    record_property("largest_cost_points", round(100.0 * max(costs), 3))
    assert max(costs) <= 0.01


def test_the_arm_that_comes_out_can_be_simulated(
    regressor: Rows, real_arm: Callable[[int], Floats], nominal: NominalArm, description: ArmDescription
) -> None:
    weighted, response, _ = measured(regressor(150, 1), real_arm(3), 3)
    fit = make_consistent(weighted, response, nominal)
    model = ArmModel(description.with_links(fit.links), motor_inertia=fit.motor_inertia)
    report = check_model(model)
    assert report.passed, str(report)


def test_without_noise_the_torques_are_those_of_the_truth(
    regressor: Rows, real_arm: Callable[[int], Floats], nominal: NominalArm
) -> None:
    rows, other, truth = regressor(150, 1), regressor(30, 2), real_arm(5)
    fit = make_consistent(rows, rows @ truth, nominal, noise=1e-9)
    assert relative_error(other, other @ truth, fit.parameters) < 1e-6
    assert fit.feasible_before
    assert fit.moved < 1.0


def test_an_impossible_link_is_made_possible_and_named(
    regressor: Rows, real_arm: Callable[[int], Floats], nominal: NominalArm
) -> None:
    rows, impossible = regressor(150, 1), real_arm(4)
    impossible[LINK * 2 + 9] = -0.2  # Izz of the elbow about its axis; its motor's inertia cannot make up for it
    impossible[LINK * 6 + 6 + 3] = -0.3  # viscous friction of the forearm
    weighted, response, _ = measured(rows, impossible, 4)
    fit = make_consistent(weighted, response, nominal)
    assert not fit.feasible_before
    assert {"elbow", "forearm.viscous"} <= set(fit.at_bound)
    assert fit.viscous[3] == pytest.approx(0.0, abs=1e-6)
    assert smallest_eigenvalue(fit.links) > 0.0
    assert fit.error_after > fit.error_before
    assert "none of a real arm" in fit.lines()[0]


def gradient(fit: PhysicalFit, rows: Floats, response: Floats, nominal: NominalArm) -> tuple[Floats, Floats]:
    """Distance from nominal, and the gradient of half the stated cost by it, from their definitions alone."""
    eta = []
    for link, root in zip(fit.links, nominal.roots, strict=True):
        inner = np.linalg.inv(root) @ link.pseudo_inertia() @ np.linalg.inv(root).T
        eta.append(link_unknowns(inner - np.eye(4)))
    start = nominal.parameters(84)
    scalars = (fit.parameters - start)[60:] / nominal.reach()
    distance = np.concatenate([*eta, scalars])
    residual = rows @ fit.parameters - response
    slope = []
    for i in range(84):
        if i < 60:
            link, unit = divmod(i, LINK)
            root = nominal.roots[link]
            direction = np.zeros(84)
            turned = root @ link_matrix(np.eye(LINK)[unit]) @ root.T
            direction[LINK * link : LINK * (link + 1)] = link_parameters(turned)
        else:
            direction = np.eye(84)[i] * nominal.reach()[i - 60]
        slope.append(float(residual @ (rows @ direction)))
    return distance, np.array(slope) + distance / BELIEF**2


@pytest.mark.parametrize("broken", [False, True])
def test_no_consistent_arm_is_closer_by_the_conditions_of_karush_kuhn_and_tucker(
    regressor: Rows, real_arm: Callable[[int], Floats], nominal: NominalArm, broken: bool
) -> None:
    """The gradient is a multiplier of the cone: positive semidefinite, and zero where the link is off its bound."""
    parameters = real_arm(6)
    if broken:
        parameters[LINK * 1 + 4] = -0.3
        parameters[LINK * 6 + 6 + 2] = -1.0
    rows, response, _ = measured(regressor(150, 1), parameters, 6)
    fit = make_consistent(rows, response, nominal)
    distance, slope = gradient(fit, rows, response, nominal)
    size = float(response @ response)
    for i in range(6):
        slack = (1.0 - FLOOR) * np.eye(4) + link_matrix(distance[LINK * i : LINK * (i + 1)])
        multiplier = link_matrix(slope[LINK * i : LINK * (i + 1)])
        assert np.linalg.eigvalsh(multiplier)[0] > -1e-6 * size
        assert abs(float(np.sum(multiplier * slack))) < 1e-6 * size
    signs, _ = nominal.bounds()
    for index in range(24):
        pushed = slope[60 + index]
        if not signs[index] or fit.parameters[60 + index] > 1e-5 * nominal.reach()[index]:
            assert abs(pushed) < 1e-6 * size
        else:
            assert pushed > -1e-6 * size


def test_the_answer_does_not_depend_on_units_of_the_rows_or_on_how_they_were_compressed(
    regressor: Rows, real_arm: Callable[[int], Floats], nominal: NominalArm
) -> None:
    rows, response, _ = measured(regressor(150, 1), real_arm(8), 8)
    fit = make_consistent(rows, response, nominal)
    triangle = np.linalg.qr(np.column_stack([rows, response]), mode="r")
    compressed = make_consistent(triangle[:, :-1], triangle[:, -1], nominal)
    scaled = make_consistent(1e3 * rows, 1e3 * response, nominal, noise=1e3)
    for other in (compressed, scaled):
        assert relative_error(rows, response, other.parameters) == pytest.approx(fit.error_after, rel=1e-6)
        np.testing.assert_allclose(other.eigenvalues, fit.eigenvalues, atol=1e-4)


def test_a_parameter_that_is_not_asked_for_stays_nominal(
    regressor: Rows, real_arm: Callable[[int], Floats], nominal: NominalArm
) -> None:
    rows, truth = regressor(150, 1), real_arm(2)
    rows[:, 60 + 12 : 60 + 18] = 0.0
    weighted, response, _ = measured(rows, truth, 2)
    fit = make_consistent(weighted, response, nominal)
    np.testing.assert_allclose(fit.coulomb, nominal.coulomb, rtol=1e-6)


def test_a_link_the_profile_says_nothing_of_gets_a_body(description: ArmDescription) -> None:
    bare = description.with_links(tuple(LinkInertia(0.0) for _ in range(6)))
    nominal = NominalArm.of(bare)
    assert smallest_eigenvalue(nominal.links) > 0.0


def test_what_cannot_be_solved_is_refused(
    regressor: Rows, real_arm: Callable[[int], Floats], nominal: NominalArm
) -> None:
    rows = regressor(20, 1)
    response = rows @ real_arm(1)
    with pytest.raises(Refused, match="for 6 joints"):
        make_consistent(rows[:, :60], response, nominal)
    with pytest.raises(Refused, match="no numbers"):
        make_consistent(rows, np.where(response > 0.0, np.nan, response), nominal)
    with pytest.raises(Refused, match="no torque at all"):
        make_consistent(rows, 0.0 * response, nominal)
    far = rows.copy()
    far[:, LINK * 5] *= 1e30  # a mass in no unit there is
    with pytest.raises(Refused):
        make_consistent(far, response, nominal)
