"""What every plan of a joint needs, and the checks that refuse what does not fit before anything moves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bench.errors import LimitError
from bench.procedures.joint_control import Gains
from bench.procedures.joint_model import JointModel, model_of
from bench.profile import FeedForwardProfile, JointLoad, JointRig, OutputLock, SpecimenProfile
from bench.profile.procedure_joint import JointProcedure

#: Friction of a joint nobody has identified yet, as a share of its rated torque.
FRICTION_SHARE = 0.3
#: A torque below the limit by this share leaves the feedback something to work with.
FEEDBACK_SHARE = 0.1
#: To the one side and the other this is what the encoders are compared on, friction's share taken off [rad].
LEAST_CHECK_RAD = 0.05
#: Seconds of a run beside its motions: tare, wiring check, way back.
OVERHEAD_S = 6.0


@dataclass(frozen=True)
class Control:
    """How the joint is moved, in plain numbers: gains, model, limits (SI, joint-referred)."""

    gains: Gains
    model: JointModel
    torque_limit_nm: float
    friction_nm: float
    stiffness: float
    rest_rad: float
    travel_speed: float
    acceleration: float
    check_angle_rad: float
    baseline_s: float
    temperature_limit_degc: float
    rated_torque_nm: float


def control_of(
    rig: JointRig, procedure: JointProcedure, specimen: SpecimenProfile, feedforward: FeedForwardProfile | None
) -> Control:
    """Return how ``procedure`` moves the joint of ``rig`` with ``specimen`` on it."""
    model = model_of(rig, specimen, feedforward)
    bears = [
        rig.safety.torque_limit.to("N.m"),
        rig.joint.peak_torque.to("N.m"),
        rig.torque_transducer.capacity.to("N.m"),
        rig.drive.max_motor_torque.to("N.m") * rig.drive.gear_ratio,
    ]
    if isinstance(specimen, JointLoad | OutputLock):
        bears.append(specimen.max_torque.to("N.m"))
    rated = rig.joint.rated_torque.to("N.m")
    return Control(
        gains=Gains(procedure.position_gain.to("N.m/rad"), procedure.velocity_gain.to("N.m.s/rad")),
        model=model,
        torque_limit_nm=min(bears),
        friction_nm=FRICTION_SHARE * rated if model.friction is None else model.friction.largest,
        stiffness=rig.joint.stiffness.to("N.m/rad"),
        rest_rad=rig.encoder.start_angle.to("rad"),
        travel_speed=procedure.travel_speed.to("rad/s"),
        acceleration=procedure.acceleration.to("rad/s2"),
        check_angle_rad=procedure.check_angle.to("rad"),
        baseline_s=procedure.baseline_time.to("s"),
        temperature_limit_degc=rig.safety.temperature_limit.to("degC"),
        rated_torque_nm=rated,
    )


def place(procedure: JointProcedure, specimen: SpecimenProfile) -> str:
    """Say where a refusal belongs."""
    return f"procedure {procedure.name} with {specimen.name}"


def check_common(rig: JointRig, control: Control, *, moves: bool, mounted: SpecimenProfile, where: str) -> None:
    """Refuse what no procedure may do: wrong thing mounted, wiring check out of reach, gains, travel speed.

    Parameters
    ----------
    moves : bool
        Whether the output has to be free (a joint load) or locked.

    Raises
    ------
    LimitError
    """
    if moves and not isinstance(mounted, JointLoad):
        raise LimitError(
            f"{mounted.name} is mounted ({mounted.kind}); the output must be free to move",
            reason="output_locked" if isinstance(mounted, OutputLock) else "wrong_specimen",
            where=where,
            remedy='Take the lock off, mount a load and name its profile (kind = "joint_load").',
        )
    if not moves and not isinstance(mounted, OutputLock):
        raise LimitError(
            f"{mounted.name} is mounted ({mounted.kind}); the torque would throw it, the output must be locked",
            reason="output_not_locked",
            where=where,
            remedy='Clamp the output and name the clamp\'s profile (kind = "output_lock").',
        )
    if moves:
        reach = control.check_angle_rad
        if reach < LEAST_CHECK_RAD:
            raise LimitError(
                f"the wiring check moves by {reach:g} rad, at least {LEAST_CHECK_RAD:g} rad are needed",
                reason="wiring_check",
                where=where,
                remedy="Ask for a larger check_angle.",
            )
        check_travel(rig, control.rest_rad - reach, control.rest_rad + reach, "the wiring check", where)
        check_speed(rig, {"travel_speed": control.travel_speed}, where)
    friction = control.model.friction
    if friction is not None and friction.temperature_min >= control.temperature_limit_degc:
        raise LimitError(
            f"the feed-forward {control.model.source} holds from {friction.temperature_min:g} degC on, "
            f"the drive may not get warmer than {control.temperature_limit_degc:g} degC",
            reason="temperature_limit",
            where=where,
            remedy="Identify friction again, at temperatures the rig may have.",
        )


def check_travel(rig: JointRig, low: float, high: float, what: str, where: str) -> None:
    """Refuse a way [rad] that leaves the rig's travel."""
    least, most = rig.safety.travel_limit_min.to("rad"), rig.safety.travel_limit_max.to("rad")
    if not least <= low <= high <= most:
        raise LimitError(
            f"{what} goes from {low:.3f} to {high:.3f} rad, the travel is {least:.3f} … {most:.3f} rad",
            reason="travel_limit",
            where=where,
            remedy="Correct centre and amplitude (or travel, step, check_angle), or the rig's travel limits.",
        )


def check_speed(rig: JointRig, speeds: dict[str, float], where: str) -> None:
    """Refuse a speed [rad/s] beyond the rig's; a tenth is kept for what the controller overshoots."""
    limit = rig.safety.speed_limit.to("rad/s")
    for name, speed in speeds.items():
        if not speed <= 0.9 * limit:
            raise LimitError(
                f"{name} is {speed:.3g} rad/s; a tenth below the rig's speed_limit is {0.9 * limit:.3g} rad/s",
                reason="speed_limit",
                where=where,
                remedy="Move more slowly, or take a smaller step.",
            )


def check_torque(
    control: Control, *, low: float, high: float, acceleration: float, where: str, what: str = "the motion"
) -> None:
    """Refuse a motion between two angles [rad] whose gravity, friction and inertia [rad/s2] need too much torque."""
    parts = {
        "gravity": control.model.largest_gravity(low, high),
        "friction": control.friction_nm,
        "inertia": control.model.inertia * acceleration,
    }
    needed = sum(parts.values()) / control.model.torque_scale
    refuse_torque(control, needed, what, where, ", ".join(f"{name} {part:.3g}" for name, part in parts.items()))


def refuse_torque(control: Control, needed: float, what: str, where: str, parts: str = "") -> None:
    """Refuse a torque [N.m] that is not below the limit with a tenth to spare."""
    allowed = (1.0 - FEEDBACK_SHARE) * control.torque_limit_nm
    if not needed <= allowed:
        made_of = f" ({parts})" if parts else ""
        raise LimitError(
            f"{what} needs {needed:.3g} N.m{made_of}; rig and load bear {control.torque_limit_nm:.3g} N.m, "
            f"of which {allowed:.3g} N.m may be planned",
            reason="torque_limit",
            where=where,
            remedy="Ask for less acceleration, torque or a smaller step, or mount a lighter load.",
        )


def check_lines(rig: JointRig, name: str, lines_hz: Iterable[float], where: str) -> None:
    """Refuse a frequency [Hz] of an excitation within ``resonance_margin`` of a resonance of the rig."""
    margin = rig.joint.resonance_margin
    for resonance in rig.joint.resonances:
        centre = resonance.to("Hz")
        low, high = centre * (1.0 - margin), centre * (1.0 + margin)
        for line in lines_hz:
            if low <= line <= high:
                raise LimitError(
                    f"the {name} has a line at {line:g} Hz, inside {low:.3g} … {high:.3g} Hz around the resonance "
                    f"at {centre:g} Hz",
                    reason="resonance",
                    where=where,
                    remedy="Choose another base frequency or fewer harmonics.",
                )
