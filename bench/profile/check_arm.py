"""What only an arm's profiles are checked for: geometry that stands where it was measured, files that are named."""

from __future__ import annotations

import math
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from bench.errors import ModelError, ProfileError
from bench.profile.arm import ArmMechanics, ArmProfile
from bench.profile.fields import Profile
from bench.profile.find import FOLDERS
from bench.profile.problem import Problem, near_miss
from bench.profile.procedure_arm import ArmExcitationProcedure
from bench.profile.rig_arm import ArmRig

#: Reads a URDF file; named, since it stands above the profiles and is imported for a URDF alone.
DESCRIPTION = ("bench.arm", "bare_description")
#: Farther than this from where it was measured the flange is elsewhere, as in :data:`bench.arm.ZERO_TOLERANCE_M`.
ZERO_TOLERANCE_MM = 1.0
Place = tuple[float, float, float]


def arm_geometry(file: Path, profile: Profile) -> Iterator[Problem]:
    """Yield what is wrong with the URDF file, or with where the model stands at zero."""
    if not isinstance(profile, ArmRig | ArmProfile):
        return
    if profile.urdf_path() is not None:
        yield from _urdf(file, profile)
        return
    if profile.arm.zero_flange is None:
        return
    x, y, z = (value.to("mm") for value in profile.arm.zero_flange)
    model = flange_at_zero(profile.arm)
    if max(abs(model[0] - x), abs(model[1] - y), abs(model[2] - z)) > ZERO_TOLERANCE_MM:
        due = f"({model[0]:.1f}, {model[1]:.1f}, {model[2]:.1f}) mm, where the rows put it with all joints at zero"
        hint = "Check the DH rows, the joints' theta and the convention against the mechanics"
        yield Problem(file, "arm.zero_flange", f"({x:.1f}, {y:.1f}, {z:.1f}) mm", due, hint)


def _urdf(file: Path, profile: ArmRig | ArmProfile) -> Iterator[Problem]:
    urdf = profile.urdf_path()
    if urdf is None or not urdf.is_file():
        named = "" if urdf is None else urdf.name
        beside = [other.name for other in file.parent.glob("*.urdf")]
        yield Problem(file, "arm.urdf", f'"{named}", which does not exist', "a URDF file", near_miss(named, beside))
        return
    module, name = DESCRIPTION
    try:
        getattr(import_module(module), name)(profile)
    except ProfileError as error:
        yield Problem(file, "arm.zero_flange", error.what, "one place", error.remedy)
    except ModelError as error:
        yield Problem(file, "arm.urdf", f'"{urdf.name}": {error.what}', "an arm of these joints", error.remedy)


def flange_at_zero(arm: ArmMechanics) -> Place:
    """Return where the DH rows put the flange with every joint at zero [mm].

    A check of profiles does without a library of matrices, whose import would take longer than all the rest: the
    flange is carried from the last row to the base.
    """
    x, y, z = (value.to("mm") for value in arm.flange_position)
    place = (x, y, z)
    for row in reversed(arm.joints):
        about_x, along_x = row.alpha.to("rad"), row.a.to("mm")
        about_z, along_z = row.theta.to("rad"), row.d.to("mm")
        if arm.convention == "modified":
            place = _along_x(_along_z(place, about_z, along_z), about_x, along_x)
        else:
            place = _along_z(_along_x(place, about_x, along_x), about_z, along_z)
    return place


def _along_x(place: Place, angle: float, way: float) -> Place:
    x, y, z = place
    return x + way, math.cos(angle) * y - math.sin(angle) * z, math.sin(angle) * y + math.cos(angle) * z


def _along_z(place: Place, angle: float, way: float) -> Place:
    x, y, z = place
    return math.cos(angle) * x - math.sin(angle) * y, math.sin(angle) * x + math.cos(angle) * y, z + way


def trajectory_files(file: Path, profile: Profile) -> Iterator[Problem]:
    """Yield which trajectories an excitation names that are not there; a name is one of the folder beside its own."""
    if not isinstance(profile, ArmExcitationProcedure) or file.parent.name not in FOLDERS:
        return
    folder = file.parent.parent / "trajectories"
    known = [other.stem for other in folder.glob("*.toml")]
    for key, named in (("trajectory", profile.trajectory), ("hold_out", profile.hold_out)):
        if named not in known and not Path(named).is_file() and not (file.parent / named).is_file():
            due = f"a trajectory: {', '.join(sorted(known)) or 'there is none'}"
            yield Problem(file, key, f'"{named}", which does not exist', due, near_miss(named, known))
