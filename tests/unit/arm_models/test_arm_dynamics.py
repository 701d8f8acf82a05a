"""The arm's dynamics as the bench asks for them: both ways, rows, frames, rotors, refusals."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from bench.errors import ModelError
from bench.models.arm_description import ArmDescription, LinkInertia
from bench.models.rigid import ArmModel
from bench.models.torque_split import torque_split

pytest.importorskip("pinocchio", reason="extra `arm` is not installed")


def test_inverse_dynamics_are_the_sum_of_their_terms(model, state):
    q, v, a = state
    torque = model.inverse_dynamics(q, v, a)
    by_terms = model.mass_matrix(q) @ a + model.coriolis(q, v) @ v + model.gravity(q)
    np.testing.assert_allclose(torque, by_terms, atol=1e-12)
    np.testing.assert_allclose(model.bias(q, v), model.inverse_dynamics(q, v, 0 * a), atol=1e-12)
    np.testing.assert_allclose(model.forward_dynamics(q, v, torque), a, atol=1e-9)


@pytest.mark.parametrize("arm", ["six_axes", "sliding"])
def test_the_regressor_times_the_links_parameters_is_the_torque(arm, request, state):
    description: ArmDescription = request.getfixturevalue(arm)
    model = ArmModel(description)
    q, v, a = state
    regressor = model.regressor(q, v, a)
    assert regressor.shape == (6, 60)
    np.testing.assert_allclose(regressor @ description.parameters(), model.inverse_dynamics(q, v, a), atol=1e-12)


def test_power_is_the_rate_of_energy(model, state):
    """tau v = d(K + U)/dt along a motion: signs of all terms at once."""
    q, v, a = state
    h = 1e-5

    def energy(t):
        x, w = q + v * t + 0.5 * a * t * t, v + a * t
        return model.kinetic(x, w) + model.potential(x)

    rate = (8 * (energy(h) - energy(-h)) - (energy(2 * h) - energy(-2 * h))) / (12 * h)
    assert model.inverse_dynamics(q, v, a) @ v == pytest.approx(rate, rel=1e-8)


@pytest.mark.parametrize("frame", ["tip", "flange", 0, 3])
def test_the_jacobian_is_the_motion_of_the_frame_in_base_axes(model, state, frame):
    q, v, _ = state
    h = 1e-6
    ahead, behind, now = (model.placement(q + s * v, frame) for s in (h, -h, 0.0))
    rate = (ahead - behind) / (2 * h)
    spin = rate[:3, :3] @ now[:3, :3].T
    moved = model.jacobian(q, frame) @ v
    np.testing.assert_allclose(moved[:3], rate[:3, 3], atol=1e-8)
    np.testing.assert_allclose(moved[3:], [spin[2, 1], spin[0, 2], spin[1, 0]], atol=1e-8)
    np.testing.assert_array_equal(model.position(q, frame), now[:3, 3])


def test_rows_are_the_single_calls(model):
    q, v, a = np.random.default_rng(5).uniform(-1.0, 1.0, (3, 7, 6))
    # Columns of a larger array: strided, as slices of a record are.
    wide = np.zeros((7, 12))
    wide[:, ::2] = q
    pairs = [
        (
            model.inverse_dynamics_rows(wide[:, ::2], v, a),
            [model.inverse_dynamics(*x) for x in zip(q, v, a, strict=True)],
        ),
        (model.bias_rows(q, v), [model.bias(*x) for x in zip(q, v, strict=True)]),
        (model.gravity_rows(q), [model.gravity(x) for x in q]),
        (model.mass_matrix_rows(q), [model.mass_matrix(x) for x in q]),
        (model.jacobian_rows(q, "flange"), [model.jacobian(x, "flange") for x in q]),
        (model.placement_rows(q), [model.placement(x) for x in q]),
        (model.regressor_rows(q, v, a), [model.regressor(*x) for x in zip(q, v, a, strict=True)]),
    ]
    for rows, singles in pairs:
        np.testing.assert_array_equal(rows, np.array(singles))
    outline = model.joint_positions_rows(q)
    assert outline.shape == (7, 8, 3)
    np.testing.assert_allclose(outline[:, 7], [model.position(x) for x in q], atol=1e-15)
    np.testing.assert_allclose(outline[:, 2], [model.position(x, 2) for x in q], atol=1e-15)


def test_results_are_not_overwritten_by_the_next_call(model, state):
    q, v, a = state
    first = [model.inverse_dynamics(q, v, a), model.mass_matrix(q), model.jacobian(q), model.regressor(q, v, a)]
    kept = [x.copy() for x in first]
    model.inverse_dynamics(0 * q, v, a), model.mass_matrix(0 * q), model.jacobian(0 * q), model.regressor(0 * q, v, a)
    for x, y in zip(first, kept, strict=True):
        np.testing.assert_array_equal(x, y)


def test_rotors_add_to_the_mass_matrix_of_coupled_axes_too(six_axes, state):
    q, v, a = state
    bare = ArmModel(six_axes)
    coupling = np.eye(6)
    coupling[5, 4] = 0.5
    back = np.linalg.inv(coupling)
    rotors = back.T @ np.diag([0.4, 0.4, 0.2, 0.1, 0.05, 0.02]) @ back
    for given in (np.diag(rotors), rotors):
        full = given if given.ndim == 2 else np.diag(given)
        geared = ArmModel(six_axes, given)
        np.testing.assert_allclose(geared.mass_matrix(q) - bare.mass_matrix(q), full, atol=1e-12)
        torque = geared.inverse_dynamics(q, v, a)
        np.testing.assert_allclose(torque - bare.inverse_dynamics(q, v, a), full @ a, atol=1e-12)
        np.testing.assert_allclose(geared.inverse_dynamics_rows([q], [v], [a])[0], torque, atol=1e-12)
        np.testing.assert_allclose(geared.mass_matrix_rows([q])[0], geared.mass_matrix(q), atol=1e-15)
        np.testing.assert_allclose(geared.forward_dynamics(q, v, torque), a, atol=1e-9)
        np.testing.assert_allclose(geared.gravity(q), bare.gravity(q), atol=1e-15)


def test_a_payload_is_inertia_at_the_flange_and_not_a_force_there(six_axes, state):
    """Its weight acts at its own centre: the torque of a force at the flange is another one."""
    q, _, _ = state
    load = LinkInertia(1.0, np.array([0.0, 0.05, 0.12]), np.eye(3) * 1e-3)
    bare, loaded = ArmModel(six_axes), ArmModel(six_axes.with_load(load))
    at = bare.placement(q, "flange")
    centre = at[:3, :3] @ load.centre
    weight = np.array([0.0, 0.0, 9.80665])
    carried = bare.jacobian(q, "flange").T @ np.concatenate([weight, np.cross(centre, weight)])
    added = loaded.gravity(q) - bare.gravity(q)
    np.testing.assert_allclose(added, carried, atol=1e-12)
    force_alone = bare.jacobian(q, "flange").T @ np.concatenate([weight, np.zeros(3)])
    assert np.abs(added - force_alone).max() > 0.1


def test_a_model_survives_being_sent_to_another_process(model, state):
    q, v, a = state
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(model)).inverse_dynamics(q, v, a), model.inverse_dynamics(q, v, a)
    )


def test_lists_and_whole_numbers_are_taken(model):
    np.testing.assert_array_equal(model.gravity([0, 1, 0, 0, 1, 0]), model.gravity(np.array([0.0, 1, 0, 0, 1, 0])))


@pytest.mark.parametrize(
    ("ask", "reason"),
    [
        (lambda m: m.gravity(np.zeros(5)), "shape"),
        (lambda m: m.inverse_dynamics(np.zeros(6), np.zeros(6), np.zeros(7)), "shape"),
        (lambda m: m.gravity_rows(np.zeros(6)), "shape"),
        (lambda m: m.bias_rows(np.zeros((3, 6)), np.zeros((3, 5))), "shape"),
        (lambda m: m.jacobian(np.zeros(6), "wrist"), "no_frame"),
        (lambda m: m.placement(np.zeros(6), 6), "no_frame"),
        (lambda m: ArmModel(m.description, np.ones(5)), "shape"),
        (lambda m: ArmModel(ArmDescription("none", ())), "no_joints"),
    ],
)
def test_what_does_not_fit_is_refused(model, ask, reason):
    with pytest.raises(ModelError) as caught:
        ask(model)
    assert caught.value.reason == reason
    assert caught.value.remedy


def test_the_split_sums_to_the_torque(model):
    q, v, a, friction = np.random.default_rng(9).uniform(-1.0, 1.0, (4, 5, 6))
    wrench = np.array([10.0, -5.0, 20.0, 0.3, 0.2, -0.1])
    split = torque_split(model, q, v, a, friction=friction, wrench=wrench)
    shares = split.shares()
    assert list(shares) == ["inertial", "coriolis", "gravity", "friction", "contact"]
    total = sum(shares.values())
    np.testing.assert_array_equal(split.total, total)
    pressed = model.jacobian_rows(q).transpose(0, 2, 1) @ wrench
    np.testing.assert_allclose(split.total, model.inverse_dynamics_rows(q, v, a) + friction + pressed, atol=1e-12)
    np.testing.assert_allclose(split.inertial[2], model.mass_matrix(q[2]) @ a[2], atol=1e-12)
    np.testing.assert_allclose(split.coriolis[2], model.coriolis(q[2], v[2]) @ v[2], atol=1e-12)
    one = torque_split(model, q[2], v[2], a[2], friction=friction[2], wrench=wrench)
    np.testing.assert_array_equal(one.total, split.total[2])
    assert one.gravity.shape == (6,)
