"""The joint's integrator: implicit midpoint, with the bristle and the gear's hysteresis updated exponentially.

One flat function on local floats, since the twin runs in plain Python. Why not something simpler: explicit schemes
diverge on the bristle (sigma0·|w|/g reaches 8000 1/s), first-order semi-implicit ones are stable but a false truth. The
midpoint's own error on a vibration, a phase of (omega h)²/12, is taken out by the next term of the trapezoidal rule
(Hermite's, with the accelerations at both ends), for position and for mean force: smooth motion is right to fourth
order, and one substep a tick is enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, pi, sin, sqrt, tanh

from bench.errors import TwinError
from bench.twin.plant.joint_truth import JointTruth

#: Hard stops are stiff springs with damping on the link [N.m/rad, N.m.s/rad].
STOP_STIFFNESS = 20_000.0
STOP_DAMPING = 100.0
#: A lining damps what it holds: added to the bristle's damping while the brake is on [N.m.s/rad].
BRAKE_DAMPING = 100.0
#: Newton's iteration ends when it moves the speeds [rad/s] by less. Its last correction is applied to the rest to first
#: order: what is left is of the order of its square.
TOLERANCE = 3e-5
MOST_ITERATIONS = 40


@dataclass(slots=True)
class State:
    """What the joint remembers: ``theta`` (rotor angle / ratio) and ``q`` (link), ``omega`` and ``qd`` their speeds.

    ``torque`` is the drive's behind its current loop, as it believes, at the joint; ``estimate`` the speed behind its
    filter; ``rise`` the winding's temperature above the housing's. ``alpha`` and ``beta`` are the last mean
    accelerations of rotor and link, with those before, and jerks.
    """

    theta: float = 0.0
    omega: float = 0.0
    q: float = 0.0
    qd: float = 0.0
    bristle: float = 0.0
    hysteresis: float = 0.0
    torque: float = 0.0
    estimate: float = 0.0
    housing: float = 25.0
    rise: float = 0.0
    alpha: float = 0.0
    beta: float = 0.0
    gear_torque: float = 0.0
    alpha_before: float = 0.0
    beta_before: float = 0.0
    jerk: float = 0.0
    link_jerk: float = 0.0


@dataclass(slots=True)
class Command:
    """``feedforward + kp (position - theta) + kd (velocity - theta')`` within ±maximum; joint side throughout."""

    feedforward: float = 0.0
    kp: float = 0.0
    kd: float = 0.0
    position: float = 0.0
    velocity: float = 0.0
    maximum: float = inf


Parameters = tuple[float, ...]


def parameters(truth: JointTruth, brake: float = 0.0, heater: float = 0.0) -> Parameters:
    """Flatten what :func:`advance` needs; ``brake`` [N.m] adds to Coulomb friction, ``heater`` [K/s] warms it up."""
    f, g, d, t, load = truth.friction, truth.gear, truth.drive, truth.thermal, truth.load
    return (
        d.inertia, load.inertia, f.coulomb, f.stribeck_excess, f.stribeck_velocity, f.viscous, f.bristle_stiffness,
        f.bristle_damping + (BRAKE_DAMPING if brake else 0.0), f.offset, f.load_coefficient, f.temperature_coefficient,
        f.reference_temperature, brake,
        g.stiffness_load, g.stiffness_load - g.stiffness_zero, g.stiffening_angle, g.damping, g.hysteresis_torque,
        g.hysteresis_angle, 0.5 * g.backlash, load.gravity_moment, load.gravity_phase, load.damping,
        d.torque_scale, d.ripple, d.ripple_per_revolution * g.ratio, d.ripple_phase,
        1.0 / (2.0 * pi * d.current_bandwidth_hz), 1.0 / (2.0 * pi * d.velocity_bandwidth_hz),
        truth.hard_stop_min, truth.hard_stop_max, float(load.locked),
        t.ambient, t.housing_time_s, t.heating * t.housing_K_W, t.winding_time_s, t.heating * t.winding_K_W,
        1.0 / (g.ratio * t.motor_constant) ** 2, heater,
    )  # fmt: skip


def mid_line(truth: JointTruth, deflection: float) -> float:
    """Torque of the gear's mid-line [N.m] at ``deflection`` = theta - q [rad]."""
    gear = truth.gear
    gap = 0.5 * gear.backlash
    d = deflection - gap if deflection > gap else deflection + gap if deflection < -gap else 0.0
    softer = (gear.stiffness_load - gear.stiffness_zero) * gear.stiffening_angle
    return gear.stiffness_load * d - softer * tanh(d / gear.stiffening_angle)


def advance(s: State, p: Parameters, command: Command, step_s: float, steps: int, ticks: int, out: list[float]) -> None:
    """Advance ``s`` by ``ticks`` times ``steps`` substeps of ``step_s`` under one command.

    After each tick five figures are added to ``out``: theta, q, gear torque, drive torque [N.m], housing [degC].
    ``command.position`` moves on with its velocity.

    Raises
    ------
    TwinError
        The implicit equations did not converge: parameters beyond reason.
    """
    (
        jm, jl, coulomb0, excess0, vs, viscous0, sigma0, sigma1, offset, load, ct, t_ref, brake,
        k_load, k_soft, stiffening, damping, hyst, hyst_angle, gap, gravity, phase, link_damping,
        scale, ripple, ripple_n, ripple_phase, loop_s, filter_s, stop_low, stop_high, locked,
        ambient, housing_time, housing_r, winding_time, winding_r, copper, heater,
    ) = p  # fmt: skip
    theta, w, q, v, z, y, u = s.theta, s.omega, s.q, s.qd, s.bristle, s.hysteresis, s.torque
    estimate, housing, rise, alpha, beta = s.estimate, s.housing, s.rise, s.alpha, s.beta
    ff, kp, kd, target, pace, most = (
        command.feedforward, command.kp, command.kd, command.position, command.velocity, command.maximum
    )  # fmt: skip
    h, hh = step_s, 0.5 * step_s
    left = exp(-h / loop_s)
    follow = 1.0 - loop_s / h * (1.0 - left)  # share of the command in the mean torque of a step
    lead = scale / jm * loop_s * (hh * (1.0 + left) - loop_s * (1.0 - left))  # way made by the torque's own lag
    filtered = 1.0 - exp(-h / filter_s)
    h3, h6, hh12 = h / 3.0, h / 6.0, h * h / 12.0
    jmh, jlh = 2.0 * jm / h, 2.0 * jl / h
    soft = k_soft * stiffening
    inverse_vs, inverse_stiffening = 1.0 / vs, 1.0 / stiffening
    inverse_hyst_angle, hyst_gain = 1.0 / hyst_angle, hyst / hyst_angle
    servo = kp != 0.0 or kd != 0.0
    uc = most if ff > most else -most if ff < -most else ff
    mean_u = uc + (u - uc) * (1.0 - follow)
    slope_u = 0.0
    tau = s.gear_torque
    da, db, earlier_a, earlier_b = s.jerk * h, s.link_jerk * h, s.alpha_before, s.beta_before
    tick_s = h * steps
    for _ in range(ticks):
        warm = 1.0 - ct * (housing - t_ref)
        coulomb, excess, viscous = coulomb0 * warm + brake, excess0 * warm, viscous0 * warm
        heat = 0.0
        for _ in range(steps):
            wm = w + hh * (alpha + alpha - earlier_a)
            vm = 0.0 if locked else v + hh * (beta + beta - earlier_b)
            r0 = w - v
            x0 = theta - q + h6 * r0 - 0.5 * hh12 * (da - db)
            if not servo:
                mean_u = uc + (u - uc) * (1.0 - follow)
                x0 += 0.5 * lead * (u - uc)
            iteration = 0
            while True:
                # gear: mid-line at the middle of the step, hysteresis in the mean over it
                r = wm - vm
                x = x0 + h3 * r
                if gap:
                    x = x - gap if x > gap else x + gap if x < -gap else 0.0
                bend = tanh(x * inverse_stiffening)
                tau = k_load * x - soft * bend + damping * r
                stiff = (k_load - k_soft * (1.0 - bend * bend)) if x or not gap else 0.0
                y1 = y
                grip = 0.0
                if hyst:
                    to = hyst if r > 0.0 else -hyst
                    n = (r if r > 0.0 else -r) * h * inverse_hyst_angle
                    if n < 1e-3:
                        mean = n * (0.5 - n * (1.0 / 6.0 - n / 24.0))
                        y1 = y + (to - y) * n * (1.0 - n * (0.5 - n / 6.0))
                    else:
                        decay = exp(-n)
                        y1 = to + (y - to) * decay
                        mean = 1.0 - (1.0 - decay) / n
                    tau += y + (to - y) * mean
                    grip = hyst_gain * (1.0 - y / to) / (1.0 + n)
                    tau += grip * h6 * (r0 - r)
                # friction: bristle in the mean over the step, its end for the damping
                aw = wm if wm > 0.0 else -wm
                ratio = aw * inverse_vs
                ratio *= ratio
                stribeck = excess * exp(-ratio) if ratio < 40.0 else 0.0
                g = coulomb + stribeck + load * (tau if tau > 0.0 else -tau)
                z1 = z
                if g > 0.0:
                    n = sigma0 * aw * h / g
                    sign = 1.0 if wm >= 0.0 else -1.0
                    zs = sign * g / sigma0
                    if n < 1e-3:
                        decay = 1.0 - n * (1.0 - n * (0.5 - n / 6.0))
                        mean = 1.0 - n * (0.5 - n * (1.0 / 6.0 - n / 24.0))
                        turn = 0.5 - n / 3.0
                    else:
                        decay = exp(-n)
                        mean = (1.0 - decay) / n
                        turn = (1.0 - decay * (1.0 + n)) / (n * n)
                    dz = z - zs
                    z1 = zs + dz * decay
                    force = sigma0 * (zs + dz * mean) + sigma1 * (z1 - z) / h + viscous * wm + offset
                    give = -sign * dz * sigma0 / g
                    force += give * mean * sigma0 * h6 * (w - wm)
                    drag = viscous + give * (sigma0 * (turn * h - mean * h6) + sigma1 * decay)
                    give *= decay
                    if stribeck:
                        drag -= (1.0 - mean) * 2.0 * stribeck * aw * inverse_vs * inverse_vs
                else:
                    z1 = give = 0.0
                    force = viscous * wm + offset
                    drag = viscous
                if servo:
                    uc = ff + kp * (target + hh * pace - theta - h6 * w - h3 * wm) + kd * (pace - wm)
                    slope_u = follow * (kp * h3 + kd)
                    if uc > most:
                        uc, slope_u = most, 0.0
                    elif uc < -most:
                        uc, slope_u = -most, 0.0
                    mean_u = uc + (u - uc) * (1.0 - follow)
                r1 = jmh * (wm - w) - scale * mean_u + force + tau
                if ripple:
                    r1 -= ripple * sin(ripple_n * (theta + hh * wm) + ripple_phase)
                e = h3 * (stiff + grip) + damping
                a11 = jmh + e + drag + scale * slope_u
                if locked:
                    dw, dv = r1 / a11, 0.0
                else:
                    qm = q + hh * vm
                    r2 = jlh * (vm - v) - tau + link_damping * vm
                    a22 = jlh + e + link_damping
                    if gravity:
                        r2 += gravity * sin(qm - phase)
                    if qm > stop_high or qm < stop_low:
                        r2 += STOP_STIFFNESS * (qm - (stop_high if qm > stop_high else stop_low)) + STOP_DAMPING * vm
                        a22 += STOP_STIFFNESS * hh + STOP_DAMPING
                    rest = a11 * a22 - e * e
                    dw, dv = (a22 * r1 + e * r2) / rest, (e * r1 + a11 * r2) / rest
                    vm -= dv
                wm -= dw
                iteration += 1
                if -TOLERANCE < dw < TOLERANCE and -TOLERANCE < dv < TOLERANCE:
                    break
                if iteration > 8:  # about a kink: do not jump across it for ever
                    wm += 0.5 * dw
                    vm += 0.5 * dv
                    if iteration > MOST_ITERATIONS:
                        if abs(dw) < 1e3 * TOLERANCE and abs(dv) < 1e3 * TOLERANCE:
                            break
                        raise TwinError(
                            f"the joint's equations of motion do not converge at theta = {theta:g} rad",
                            where="twin plant",
                            remedy="look for parameters beyond reason in the twin profile",
                        )
            earlier_a, earlier_b = alpha, beta
            alpha, beta = 2.0 * (wm - w) / h, 2.0 * (vm - v) / h
            z1 -= give * h * dw  # the last correction, to first order, instead of another evaluation
            y1 -= grip * h * (dw - dv)
            r = wm - vm
            change = stiff * h * r + (y1 - y) + 2.0 * damping * (r - r0)
            da = -(change + sigma0 * (z1 - z) + 2.0 * viscous * (wm - w)) / jm
            db = 0.0 if locked else change / jl
            more = lead * (u - uc) - hh12 * da
            theta += h * wm + more
            q += h * vm - hh12 * db
            w = wm + wm - w
            v = vm + vm - v
            z = z1 + give * more
            y = y1 + grip * (more + hh12 * db)
            u = uc + (u - uc) * left
            target += h * pace
            estimate += (wm - estimate) * filtered
            heat += force * wm
        made = heat / steps
        burnt = copper * u * u
        warmth = housing_r * (burnt + (made if made > 0.0 else 0.0))
        housing += tick_s * (heater + (warmth + ambient - housing) / housing_time)
        rise += tick_s * (winding_r * burnt - rise) / winding_time
        x = theta - q
        if gap:
            x = x - gap if x > gap else x + gap if x < -gap else 0.0
        tau = k_load * x - soft * tanh(x * inverse_stiffening) + y + damping * (w - v)
        out += (theta, q, tau, u, housing)
    s.theta, s.omega, s.q, s.qd, s.bristle, s.hysteresis, s.torque = theta, w, q, v, z, y, u
    s.jerk, s.link_jerk, s.alpha_before, s.beta_before = da / h, db / h, earlier_a, earlier_b
    s.estimate, s.housing, s.rise, s.alpha, s.beta, s.gear_torque = estimate, housing, rise, alpha, beta, tau
    command.position = target


def natural_frequency(truth: JointTruth) -> float:
    """The fastest undamped mode [rad/s]: both masses on the loaded gear, the rotor on its bristles as well."""
    gear = truth.gear.stiffness_load + truth.gear.hysteresis_torque / truth.gear.hysteresis_angle
    bristle = truth.friction.bristle_stiffness if truth.friction.coulomb + truth.friction.stribeck_excess > 0 else 0.0
    link = 0.0 if truth.load.locked else gear / truth.load.inertia
    return sqrt((gear + bristle) / truth.drive.inertia + link)
