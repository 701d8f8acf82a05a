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
TOLERANCE = 1e-4
MOST_ITERATIONS = 40


@dataclass(slots=True)
class State:
    """What the joint remembers: ``theta`` (rotor angle / ratio) and ``q`` (link), ``omega`` and ``qd`` their speeds.

    ``torque`` is the drive's behind its current loop, as it believes, at the joint; ``estimate`` the speed behind its
    filter; ``rise`` the winding's temperature above the housing's. ``alpha`` and ``beta`` are the last mean
    accelerations of rotor and link, with those before; ``kink`` what their change does to the mean deflection, over h³.
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
    kink: float = 0.0


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


def prepare(p: Parameters, step_s: float, steps: int) -> Parameters:
    """What :func:`advance` needs for ticks of ``steps`` substeps of ``step_s``: made once for many calls."""
    (
        jm, jl, coulomb, excess, vs, viscous, sigma0, sigma1, offset, load, ct, t_ref, brake,
        k_load, k_soft, stiffening, damping, hyst, hyst_angle, gap, gravity, phase, link_damping,
        scale, ripple, ripple_n, ripple_phase, loop_s, filter_s, stop_low, stop_high, locked,
        ambient, housing_time, housing_r, winding_time, winding_r, copper, heater,
    ) = p  # fmt: skip
    h, tick_s = step_s, step_s * steps
    left = exp(-h / loop_s)
    # the share of the present torque in the mean torque of a step, and the way made by the torque's own lag
    rest = loop_s / h * (1.0 - left)
    lead = scale / jm * loop_s * (0.5 * h * (1.0 + left) - loop_s * (1.0 - left))
    return (
        h, 0.5 * h, h / 3.0, h / 6.0, 2.0 / h, float(steps), h * h / 12.0 / jm, h * h / 12.0 / jl,
        2.0 * jm / h, 2.0 * jl / h, coulomb * (1.0 + ct * t_ref) + brake, ct * coulomb,
        excess * (1.0 + ct * t_ref), ct * excess, viscous * (1.0 + ct * t_ref), ct * viscous, 1.0 / vs,
        sigma0, sigma0 * h, sigma1, sigma1 / (sigma0 * h), offset, load,
        k_load, k_soft, k_soft * stiffening, 1.0 / stiffening, damping, hyst, hyst / hyst_angle, h / hyst_angle, gap,
        gravity, phase, link_damping, scale, ripple, ripple_n, ripple_phase, left, rest, lead,
        1.0 - exp(-h / filter_s), stop_low, stop_high, locked,
        tick_s * (heater + ambient / housing_time), tick_s / housing_time, housing_r * tick_s / housing_time / steps,
        copper * housing_r * tick_s / housing_time, tick_s / winding_time, copper * winding_r * tick_s / winding_time,
    )  # fmt: skip


def advance(s: State, prepared: Parameters, command: Command, ticks: int, out: list[float]) -> None:
    """Advance ``s`` by ``ticks`` ticks, as :func:`prepare` was told they are, under one command.

    After each tick five figures are added to ``out``: theta, q, gear torque, drive torque [N.m], housing [degC].
    ``command.position`` moves on with its velocity.

    Raises
    ------
    TwinError
        The implicit equations did not converge: parameters beyond reason.
    """
    (
        h, hh, h3, h6, h_inverse2, steps, hh12_jm, hh12_jl,
        jmh, jlh, coulomb0, coulomb1, excess0, excess1, viscous0, viscous1, vs_inverse,
        sigma0, sigma0h, sigma1, sigma1_h, offset, load,
        k_load, k_soft, soft, stiffening_inverse, damping, hyst, hyst_gain, hyst_h, gap,
        gravity, phase, link_damping, scale, ripple, ripple_n, ripple_phase, left, rest, lead,
        filtered, stop_low, stop_high, locked,
        warmed, cooling, friction_heat, copper_heat, winding_cooling, winding_heat,
    ) = prepared  # fmt: skip
    theta, w, q, v, y, u = s.theta, s.omega, s.q, s.qd, s.hysteresis, s.torque
    b = sigma0 * s.bristle  # the bristle's torque
    estimate, housing, rise, alpha, beta = s.estimate, s.housing, s.rise, s.alpha, s.beta
    earlier_a, earlier_b, kink = s.alpha_before, s.beta_before, s.kink * h * h * h
    ff, kp, kd, target, pace, most = (
        command.feedforward, command.kp, command.kd, command.position, command.velocity, command.maximum
    )  # fmt: skip
    servo = kp != 0.0 or kd != 0.0
    uc = most if ff > most else -most if ff < -most else ff
    slope_u = 0.0
    substeps = range(int(steps))
    for _ in range(ticks):
        coulomb, excess = coulomb0 - coulomb1 * housing, excess0 - excess1 * housing
        viscous = viscous0 - viscous1 * housing
        heat = 0.0
        for _ in substeps:
            # Speeds at the middle of the step, first guess; ``x0 + h3 (wm - vm)`` is the mean deflection over it.
            wm = w + hh * (alpha + alpha - earlier_a)
            vm = 0.0 if locked else v + hh * (beta + beta - earlier_b)
            r0 = w - v
            x0 = theta - q + h6 * r0 - kink
            if not servo:
                lag = u - uc
                mean_u = scale * (uc + lag * rest)
                x0 += 0.5 * lead * lag
            iteration = 0
            while True:
                # gear: mid-line at the mean deflection, hysteresis in the mean over the step
                r = wm - vm
                x = x0 + h3 * r
                if gap:
                    x = x - gap if x > gap else x + gap if x < -gap else 0.0
                bend = tanh(x * stiffening_inverse)
                tau = k_load * x - soft * bend + damping * r
                stiff = k_load - k_soft * (1.0 - bend * bend) if x or not gap else 0.0
                if hyst:
                    if r > 0.0:
                        n, to = r * hyst_h, hyst - y
                        grip = hyst_gain * to / (hyst + hyst * n)
                    else:
                        n, to = -r * hyst_h, -hyst - y
                        grip = -hyst_gain * to / (hyst + hyst * n)
                    if n < 1e-3:
                        tau += to * n * (0.5 - n * 0.16666666666666666) + grip * h6 * (r0 - r) + y
                        dy = to * n * (1.0 - n * (0.5 - n * 0.16666666666666666))
                    else:
                        gone = 1.0 - exp(-n)
                        tau += to * (1.0 - gone / n) + grip * h6 * (r0 - r) + y
                        dy = to * gone
                else:
                    grip = dy = 0.0
                # friction: the bristle's torque in the mean over the step, its change for the damping
                aw = wm if wm > 0.0 else -wm
                ratio = aw * vs_inverse
                g = coulomb + (load * tau if tau > 0.0 else -load * tau)
                if ratio < 6.0:
                    stribeck = excess * exp(-ratio * ratio)
                    g += stribeck
                else:
                    stribeck = 0.0
                if g > 0.0:
                    n = sigma0h * aw / g
                    level = g if wm >= 0.0 else -g
                    to = b - level
                    give = -to / level
                    if n < 1e-3:
                        decay = 1.0 - n * (1.0 - n * (0.5 - n * 0.16666666666666666))
                        mean = 1.0 - n * (0.5 - n * 0.16666666666666666)
                        turn = 0.5 - n * 0.3333333333333333
                    else:
                        decay = exp(-n)
                        mean = (1.0 - decay) / n
                        turn = (mean - decay) / n
                    db = to * (decay - 1.0)
                    hold = give * sigma0
                    force = level + to * mean + sigma1_h * db + hold * mean * h6 * (w - wm) + viscous * wm + offset
                    drag = viscous + hold * (turn * h - mean * h6) + give * sigma1 * decay
                    if stribeck:
                        drag -= (1.0 - mean) * 2.0 * stribeck * ratio * vs_inverse
                    hold *= decay
                else:
                    hold, db = 0.0, -b
                    force = viscous * wm + offset
                    drag = viscous
                if servo:
                    uc = ff + kp * (target + hh * pace - theta - h6 * w - h3 * wm) + kd * (pace - wm)
                    slope_u = scale * (1.0 - rest) * (kp * h3 + kd)
                    if uc > most:
                        uc, slope_u = most, 0.0
                    elif uc < -most:
                        uc, slope_u = -most, 0.0
                    lag = u - uc
                    mean_u = scale * (uc + lag * rest)
                r1 = jmh * (wm - w) - mean_u + force + tau
                if ripple:
                    r1 -= ripple * sin(ripple_n * (theta + hh * wm) + ripple_phase)
                e = h3 * (stiff + grip) + damping
                if locked:
                    dw, dv = r1 / (jmh + e + drag + slope_u), 0.0
                else:
                    a11, a22 = jmh + e + drag + slope_u, jlh + e + link_damping
                    qm = q + hh * vm
                    r2 = jlh * (vm - v) - tau + link_damping * vm
                    if gravity:
                        r2 += gravity * sin(qm - phase)
                    if qm > stop_high or qm < stop_low:
                        r2 += STOP_STIFFNESS * (qm - (stop_high if qm > stop_high else stop_low)) + STOP_DAMPING * vm
                        a22 += STOP_STIFFNESS * hh + STOP_DAMPING
                    determinant = a11 * a22 - e * e
                    dw = (a22 * r1 + e * r2) / determinant
                    dv = (e * r1 + a11 * r2) / determinant
                    vm -= dv
                wm -= dw
                if -TOLERANCE < dw < TOLERANCE and -TOLERANCE < dv < TOLERANCE:
                    break
                iteration += 1
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
            # The last correction goes to bristle and hysteresis to first order, instead of another evaluation.
            db -= hold * h * dw
            dy -= grip * h * (dw - dv)
            ahead = wm - w
            r = wm - vm
            change = stiff * h * r + dy + 2.0 * damping * (r - r0)
            earlier_a, earlier_b = alpha, beta
            alpha = ahead * h_inverse2
            # Hermite's term: h²/12 times the change of acceleration over the step, of rotor and of link
            bow = hh12_jm * (change + db + 2.0 * viscous * ahead)
            more = lead * lag + bow
            theta += h * wm + more
            if locked:
                kink = -0.5 * bow
            else:
                beta = (vm - v) * h_inverse2
                sag = hh12_jl * change
                kink = -0.5 * (bow + sag)
                q += h * vm - sag
                v = vm + vm - v
                y += grip * sag
            w = wm + ahead
            b += db + hold * more
            y += dy + grip * more
            u = uc + lag * left
            target += h * pace
            estimate += (wm - estimate) * filtered
            heat += force * wm
        housing += warmed - cooling * housing + copper_heat * u * u + (friction_heat * heat if heat > 0.0 else 0.0)
        rise += winding_heat * u * u - winding_cooling * rise
        x = theta - q
        if gap:
            x = x - gap if x > gap else x + gap if x < -gap else 0.0
        tau = k_load * x - soft * tanh(x * stiffening_inverse) + y + damping * (w - v)
        out += (theta, q, tau, u, housing)
    s.theta, s.omega, s.q, s.qd, s.bristle, s.hysteresis, s.torque = theta, w, q, v, b / sigma0, y, u
    s.estimate, s.housing, s.rise, s.alpha, s.beta, s.gear_torque = estimate, housing, rise, alpha, beta, tau
    s.alpha_before, s.beta_before, s.kink = earlier_a, earlier_b, kink / (h * h * h)
    command.position = target


def natural_frequency(truth: JointTruth) -> float:
    """The fastest undamped mode [rad/s]: both masses on the loaded gear, the rotor on its bristles as well."""
    gear = truth.gear.stiffness_load + truth.gear.hysteresis_torque / truth.gear.hysteresis_angle
    bristle = truth.friction.bristle_stiffness if truth.friction.coulomb + truth.friction.stribeck_excess > 0 else 0.0
    link = 0.0 if truth.load.locked else gear / truth.load.inertia
    return sqrt((gear + bristle) / truth.drive.inertia + link)
