"""Which feed-forward file a run uses: named by the procedure, or handed over; refused when it is another rig's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench.arm_feedforward_check import check_plausible
from bench.errors import ProfileError
from bench.profile import (
    ArmFeedForward,
    ArmProcedure,
    ArmRig,
    FeedForwardProfile,
    JointRig,
    ProcedureProfile,
    SpecimenProfile,
    load_arm_feedforward,
    load_feedforward,
    load_profile,
    parse_profile,
)
from bench.profile.procedure_joint import JointProcedure
from bench.station import Station

#: Name of the archived text.
ARCHIVED = "feedforward.toml"
KEY = "feedforward"
AnyFeedForward = FeedForwardProfile | ArmFeedForward


def taken_from(overrides: Mapping[str, object]) -> tuple[dict[str, object], AnyFeedForward | None]:
    """Split a feed-forward that was handed over from the other overrides.

    ``overrides["feedforward"]`` may be a path, a :class:`~bench.profile.FeedForwardProfile`, an
    :class:`~bench.profile.ArmFeedForward`, or anything whose ``text`` is the text of a feed-forward file. The
    procedure's archived text gets the name of what was taken.

    Raises
    ------
    ProfileError
        It is none of these, or its text is not valid.
    """
    rest = dict(overrides)
    given = rest.get(KEY)
    if given is None:
        return rest, None
    profile = _profile(given)
    rest[KEY] = str(profile.source.path)
    return rest, profile


def _profile(given: object) -> AnyFeedForward:
    if isinstance(given, AnyFeedForward):
        return given
    if isinstance(given, str | Path):
        found = load_profile(given)
        return found if isinstance(found, ArmFeedForward) else load_feedforward(given)
    text = getattr(given, "text", None)
    if not isinstance(text, str):
        raise ProfileError(
            f"a feed-forward cannot be made of {type(given).__name__}",
            where="overrides, feedforward",
            remedy="Give the path of a feed-forward file, or what load_feedforward returns.",
        )
    made, problems = parse_profile(text, Path("feedforward.toml"))
    if problems or not isinstance(made, AnyFeedForward):
        listed = "; ".join(str(problem) for problem in problems) or "it is another profile"
        raise ProfileError(f"this is no feed-forward file: {listed}", where="overrides, feedforward")
    return made


def load_for(
    station: Station,
    procedure: ProcedureProfile,
    specimen: SpecimenProfile,
    given: AnyFeedForward | None = None,
) -> FeedForwardProfile | None:
    """Return the feed-forward of a run, or None: ``given``, else the file the procedure names.

    A relative path counts from the working folder, else from the procedure's own.

    Raises
    ------
    ProfileError
        There is no such file, it is not valid, or it was identified on another rig, drive or load.
    """
    if not isinstance(procedure, JointProcedure) or not isinstance(station.rig, JointRig):
        return None
    if given is None:
        if procedure.feedforward is None:
            return None
        given = load_feedforward(_path(procedure, procedure.feedforward))
    if not isinstance(given, FeedForwardProfile):
        raise _of_another_kind(given, "a single joint")
    drive = station.identities.get("drive")
    check_belongs(given, station.rig, specimen, drive.serial_number if drive else None)
    return given


def load_for_arm(
    rig: ArmRig, procedure: ProcedureProfile, given: AnyFeedForward | None = None
) -> ArmFeedForward | None:
    """Return the feed-forward of an arm's run, or None: ``given``, else the file the procedure names.

    Raises
    ------
    ProfileError
        There is no such file, it is not valid, it was identified on another rig, or it is far from what the rig's
        profile says of the arm.
    """
    if given is None:
        named = procedure.feedforward if isinstance(procedure, ArmProcedure) else None
        if named is None:
            return None
        given = load_arm_feedforward(_path(procedure, named))
    if not isinstance(given, ArmFeedForward):
        raise _of_another_kind(given, "an arm")
    if given.rig != rig.name:
        raise ProfileError(
            f'the feed-forward was identified on rig "{given.rig}", this is "{rig.name}"',
            where=str(given.source.path),
            remedy="Run arm_excitation and arm_tracking on this rig and identify it.",
        )
    check_plausible(given, rig)
    return given


def _path(procedure: ProcedureProfile, named: str) -> Path:
    """Return the path of a file a procedure names: from the working folder, else from the procedure's own."""
    path = Path(named)
    beside = procedure.source.path.parent / path
    return path if path.is_file() or not beside.is_file() else beside


def _of_another_kind(given: AnyFeedForward, rig: str) -> ProfileError:
    return ProfileError(
        f"the feed-forward {given.name} is of another kind of rig, this is {rig}",
        where=str(given.source.path),
        remedy="Identify this rig.",
    )


def check_belongs(
    feedforward: FeedForwardProfile, rig: JointRig, specimen: SpecimenProfile, drive_serial_number: str | None
) -> None:
    """Refuse a feed-forward of another rig, another drive, or (where it holds a load's figures) another load.

    Friction, rotor inertia and torque scale sit on the motor's side and hold with whatever is mounted, inside the
    file's range; inertia and gravity of the link are its own load's.
    """
    where = str(feedforward.source.path)
    if feedforward.rig != rig.name:
        raise ProfileError(
            f'the feed-forward was identified on rig "{feedforward.rig}", this is "{rig.name}"',
            where=where,
            remedy="Run friction_sweep on this rig and identify it.",
        )
    known = feedforward.drive_serial_number
    if known and drive_serial_number and known != drive_serial_number:
        raise ProfileError(
            f"the feed-forward was identified with drive {known}, here is drive {drive_serial_number}",
            where=where,
            remedy="A new drive has another torque constant: identify again.",
        )
    dynamics = feedforward.dynamics
    of_the_load = dynamics is not None and (
        dynamics.link_inertia is not None or dynamics.gravity_moment.to("N.m") > 0.0
    )
    if of_the_load and feedforward.load != specimen.name:
        raise ProfileError(
            f'the feed-forward holds inertia and gravity of load "{feedforward.load}", mounted is "{specimen.name}"',
            where=where,
            remedy=f"Identify with {specimen.name}, or leave link_inertia and gravity out of the file: the load's "
            "nominal figures are used then.",
        )
