"""Does the contact model predict what the specimen does? The same tests run on the rig, on the twin and on archives."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.acceptance import Verdict
from bench.archive import Run
from bench.identify.plate import check_frame_stiffness
from bench.profile import RigProfile

pytestmark = [pytest.mark.rig("indenter"), pytest.mark.slow]

Perform = Callable[..., Run]
Judge = Callable[..., Verdict]


def test_phantom_presses_as_its_contact_model_predicts(perform: Perform, judge: Judge) -> None:
    run = perform("indentation")  # five presses at 2 mm/s and two at 0.5 mm/s, or the archived run on replay
    judge("contact_model", run)  # limits from profiles/acceptance/contact_model.toml, verdict beside the archive


def test_frame_is_as_stiff_as_the_rig_profile_says(perform: Perform, rig: RigProfile) -> None:
    run = perform("frame_stiffness", specimen="rigid_plate")
    check_frame_stiffness(run, rig.frame)  # another one is a fault of the bench: its sensors, not the specimen
