"""Whether what is to be mounted is anything for the rig at all; asked before a plan is made of its figures."""

from __future__ import annotations

from bench.errors import ProfileError
from bench.profile import RigProfile, SpecimenProfile
from bench.profile.check import STANDS_BEHIND
from bench.profile.specimen import SPECIMENS


def check_mounted(rig: RigProfile, specimen: SpecimenProfile) -> None:
    """Refuse a specimen of another kind of rig.

    Raises
    ------
    ProfileError
        It names both and the kinds that fit.
    """
    mountable = next((models for kind, (_, models) in STANDS_BEHIND.items() if isinstance(rig, kind)), ())
    if not isinstance(specimen, mountable):
        known = " or ".join(kind for kind, model in SPECIMENS.items() if issubclass(model, mountable))
        raise ProfileError(
            f'"{specimen.name}" is of kind "{specimen.kind}" and cannot be mounted on the rig "{rig.name}"',
            where=str(specimen.source.path),
            remedy=f"Choose a specimen of kind {known}",
        )
